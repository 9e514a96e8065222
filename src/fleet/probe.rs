//! Asks every host, over and over, whether RDP answers.
//!
//! One question at a time a host. A host that fails is asked less often, up to
//! three intervals apart, so that one that is off for a week costs little and
//! is still found soon after it returns. Hosts start spread over the interval.
//! Hosts that a reload brings or moves are asked at once, those it takes out no
//! more.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::apply::same_place;
use super::check::{Check, Checks};
use crate::config::{self, Config, Current};
use crate::placement::{Host, HostId, tie_hash};

/// Longest pause between two probes of a failing host, in intervals.
const SLOWEST: u32 = 3;

/// Probes the configured hosts.
#[derive(Debug)]
pub struct Prober {
    /// Who asks a host, shared with those who want to know at once.
    pub checks: Arc<Checks>,
    /// Which hosts there are, and how they are probed. Interval: from the end
    /// of one probe of a host to the start of its next. Timeout: for one probe
    /// in all, name, connection and answer.
    pub config: Current,
}

/// One host that is being watched; dropping it ends that.
struct Watched {
    host: Host,
    settings: config::Probe,
    _task: AbortOnDropHandle<()>,
}

/// What watches one host.
struct Watcher {
    checks: Arc<Checks>,
    host: Host,
    settings: config::Probe,
}

impl Prober {
    /// Runs until it is dropped; no probe begins after that.
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
            checks: Arc::clone(&self.checks),
            host: host.clone(),
            settings: settings.clone(),
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
        match self.checks.probe(&self.host).await {
            Check::Answers => *failures = 0,
            Check::Fails(_) => *failures = failures.saturating_add(1),
            Check::Unknown => {}
        }
    }
}

/// A host's own share of the interval, the same at every start.
fn share(host: &HostId) -> f64 {
    let [byte, ..] = tie_hash(None, host).to_be_bytes();
    f64::from(byte) / f64::from(u8::MAX)
}

#[cfg(test)]
mod tests {
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
}
