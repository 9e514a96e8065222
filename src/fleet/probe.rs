//! Asks every host, over and over, whether RDP answers.
//!
//! One question at a time a host. A host that fails is asked less often, up to
//! three intervals apart, so that one that is off for a week costs little and
//! is still found soon after it returns. Hosts start spread over the interval.
//! Hosts that a reload brings or moves are asked at once, those it takes out no
//! more.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::Fleet;
use super::apply::same_place;
use crate::clock::Clock;
use crate::config::{self, Config, Current};
use crate::metrics::{Metrics, Probed};
use crate::placement::{Host, HostId, tie_hash};
use crate::x224;

/// Longest pause between two probes of a failing host, in intervals.
const SLOWEST: u32 = 3;

/// Probes the configured hosts.
#[derive(Debug)]
pub struct Prober {
    /// Where findings go.
    pub fleet: Arc<Fleet>,
    /// Which hosts there are, and how they are probed. Interval: from the end
    /// of one probe of a host to the start of its next. Timeout: for one probe
    /// in all, name, connection and answer.
    pub config: Current,
    /// What time it is.
    pub clock: Clock,
    /// Where probes are counted.
    pub metrics: Arc<Metrics>,
}

/// One host that is being watched; dropping it ends that.
struct Watched {
    host: Host,
    settings: config::Probe,
    _task: AbortOnDropHandle<()>,
}

/// What watches one host.
struct Watcher {
    fleet: Arc<Fleet>,
    host: Host,
    settings: config::Probe,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Prober {
    /// Runs until it is dropped, and every probe ends with it.
    pub async fn run(mut self) {
        let mut watched = BTreeMap::new();
        loop {
            self.follow(&self.config.get(), &mut watched);
            self.config.changed().await;
        }
    }

    /// One task for each configured host, and for no other.
    fn follow(&self, config: &Config, watched: &mut BTreeMap<HostId, Watched>) {
        watched.retain(|id, watched| {
            let host = config.directory.host(id);
            let same = host.is_some_and(|host| same_place(host, &watched.host));
            same && watched.settings == config.probe
        });
        for host in config.directory.hosts() {
            let watching = watched.entry(host.id.clone());
            watching.or_insert_with(|| self.watch(host, &config.probe));
        }
    }

    fn watch(&self, host: &Host, settings: &config::Probe) -> Watched {
        let watcher = Watcher {
            fleet: Arc::clone(&self.fleet),
            host: host.clone(),
            settings: settings.clone(),
            clock: self.clock,
            metrics: Arc::clone(&self.metrics),
        };
        Watched {
            host: host.clone(),
            settings: settings.clone(),
            _task: AbortOnDropHandle::new(tokio::spawn(watcher.run())),
        }
    }
}

impl Watcher {
    async fn run(self) {
        let mut failures = 0;
        // All are asked at once the first time, since nobody is placed before;
        // from then on each at a moment of its own.
        self.probe(&mut failures).await;
        sleep(self.settings.interval.mul_f64(share(&self.host.id))).await;
        loop {
            self.probe(&mut failures).await;
            sleep(self.settings.interval * failures.clamp(1, SLOWEST)).await;
        }
    }

    async fn probe(&self, failures: &mut u32) {
        let Host {
            id, address, port, ..
        } = &self.host;
        let began = Instant::now();
        let asked = timeout(self.settings.timeout, ask(&self.host)).await;
        let spent = began.elapsed();
        let error = match asked {
            Ok(Ok(())) => None,
            Ok(Err(error)) if is_ours(&error) => {
                // It says nothing of the host: what was known of it stays.
                self.metrics.probed(spent, Probed::NotAsked);
                warn!(host = %id, %error, "A host could not be probed");
                return;
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {:?}", self.settings.timeout)),
        };
        let came = error.as_ref().map_or(Probed::Answered, |_| Probed::Failed);
        self.metrics.probed(spent, came);
        *failures = if error.is_some() {
            failures.saturating_add(1)
        } else {
            0
        };
        let now = self.clock.now();
        let changed = self.fleet.note_answer(&self.host, error.is_none(), now);
        match (changed, error) {
            (None, _) => {}
            (Some(_), Some(error)) => {
                warn!(host = %id, %address, port, error, "Host does not answer RDP");
            }
            (Some(lasted), None) => {
                info!(host = %id, %address, port, silent_seconds = lasted.as_secs(), "Host answers RDP");
            }
        }
    }
}

/// Every resolved address in turn; the last one's error tells.
async fn ask(host: &Host) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((host.address.as_str(), host.port)).await?;
    x224::ask(&mut stream).await
}

/// Whether a probe failed for want of something on this machine: descriptors,
/// ports or memory.
fn is_ours(error: &std::io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS and ENOMEM have no kind of their own.
    let code = error.raw_os_error();
    error.kind() == ErrorKind::AddrNotAvailable
        || error.kind() == ErrorKind::OutOfMemory
        || matches!(code, Some(23 | 24 | 105))
}

/// A host's own share of the interval, the same at every start.
fn share(host: &HostId) -> f64 {
    let [byte, ..] = tie_hash(None, host).to_be_bytes();
    f64::from(byte) / f64::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn hosts_numbered_in_a_row_are_spread_over_the_interval() {
        let mut shares: Vec<f64> = (1..=9)
            .map(|n| share(&format!("rds-{n}").as_str().into()))
            .collect();
        shares.sort_by(f64::total_cmp);
        assert!(shares[8] - shares[0] > 0.5, "{shares:?}");
        let widest = shares.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
        assert!(widest < 0.5, "{shares:?}");
    }

    #[test]
    fn what_this_machine_lacks_says_nothing_of_a_host() {
        for code in [23, 24, 105, 99, 12] {
            assert!(is_ours(&Error::from_raw_os_error(code)), "{code}");
        }
        for code in [111, 113, 104, 110] {
            assert!(!is_ours(&Error::from_raw_os_error(code)), "{code}");
        }
    }
}
