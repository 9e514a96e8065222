//! Asks every host, over and over, whether RDP answers.
//!
//! One question at a time a host. A host that fails is asked less often, up to
//! three intervals apart, so that one that is off for a week costs little and
//! is still found soon after it returns. Hosts start spread over the interval.

use std::io::ErrorKind;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{Fleet, x224};
use crate::clock::Clock;
use crate::config;
use crate::placement::{Host, HostId, tie_hash};

/// Longest pause between two probes of a failing host, in intervals.
const SLOWEST: u32 = 3;

/// Probes hosts until it is told to stop.
#[derive(Debug)]
pub struct Prober {
    /// Where findings go.
    pub fleet: Arc<Fleet>,
    /// Interval: from the end of one probe of a host to the start of its next.
    /// Timeout: for one probe in all, name, connection and answer.
    pub settings: config::Probe,
    /// What time it is.
    pub clock: Clock,
}

impl Prober {
    /// Starts one task a host; all end when `stop` is cancelled.
    pub fn start(self, tasks: &TaskTracker, stop: &CancellationToken) {
        let prober = Arc::new(self);
        let directory = Arc::clone(&prober.fleet.snapshot().directory);
        for host in directory.hosts() {
            let (prober, host) = (Arc::clone(&prober), host.clone());
            let work = async move { prober.watch(&host).await };
            let stop = stop.clone();
            tasks.spawn(async move { stop.run_until_cancelled(work).await });
        }
    }

    async fn watch(&self, host: &Host) {
        let mut failures = 0;
        // All are asked at once the first time, since nobody is placed before;
        // from then on each at a moment of its own.
        self.probe(host, &mut failures).await;
        sleep(self.settings.interval.mul_f64(share(&host.id))).await;
        loop {
            self.probe(host, &mut failures).await;
            sleep(self.settings.interval * failures.clamp(1, SLOWEST)).await;
        }
    }

    async fn probe(&self, host: &Host, failures: &mut u32) {
        let error = match timeout(self.settings.timeout, ask(host)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) if is_ours(&error) => {
                // It says nothing of the host: what was known of it stays.
                warn!(host = %host.id, %error, "A host could not be probed");
                return;
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {:?}", self.settings.timeout)),
        };
        *failures = if error.is_some() {
            failures.saturating_add(1)
        } else {
            0
        };
        let changed = self
            .fleet
            .note_probe(&host.id, error.is_none(), self.clock.now());
        let (id, port) = (&host.id, host.port);
        match (changed, error) {
            (None, _) => {}
            (Some(_), Some(error)) => {
                warn!(host = %id, address = %host.address, port, error, "Host does not answer RDP");
            }
            (Some(lasted), None) => {
                info!(host = %id, address = %host.address, port, silent_seconds = lasted.as_secs(), "Host answers RDP");
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
