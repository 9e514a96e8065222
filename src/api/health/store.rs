//! What is said of the store, and of placements that wait for it.

use std::time::Duration;

use super::Health;
use super::ready::State;
use crate::config::Degraded;
use crate::metrics::Page;

impl Health {
    /// A store that is away leaves us ready: no restart of ours would mend it,
    /// and tunnels go on.
    pub(super) fn store(&self) -> State {
        let health = self.metrics.store_health();
        let last = [
            ("read", health.read),
            ("written", health.written),
            ("asked for changes", health.polled),
        ];
        let last = last
            .into_iter()
            .filter_map(|(what, age)| Some((what, age?)));
        let mut facts: Vec<_> = last
            .map(|(what, age)| format!("last {what} {} ago", seconds(age)))
            .collect();
        let connections = self.store.connections();
        if let Some(pool) = connections {
            let (in_use, most, waiting) = (pool.in_use, pool.most, pool.waiting);
            facts.push(format!(
                "{in_use} of {most} connections in use, {waiting} calls waiting"
            ));
        }
        let placed = match self.degraded {
            Degraded::Refuse => "nobody new is placed",
            Degraded::ExistingLease => "only users with a lease as last known are placed",
        };
        let facts = facts.join(", ");
        match (health.down, self.gate.shut()) {
            (Some(span), _) => State::Degraded(format!(
                "it fails or does not answer since {}; {placed}; {facts}",
                seconds(span)
            )),
            (None, Some(shut)) => State::Degraded(format!(
                "it was lost {} ago, and the leases of {} open tunnels are being written again first; {placed}; {facts}",
                seconds(shut.span),
                shut.owed
            )),
            (None, None) if connections.is_some() => State::Busy(facts),
            (None, None) => State::Well,
        }
    }

    pub(super) fn tell_store(&self, page: &mut Page) {
        let shut = self.gate.shut();
        let owed = shut.map_or(0, |shut| shut.owed);
        let gauges = [
            (
                "placements_held",
                "Whether placements wait, since the store was lost and does not hold the leases of open tunnels again yet.",
                usize::from(shut.is_some()),
            ),
            (
                "leases_owed",
                "Open tunnels whose leases are to be written again before anybody is placed.",
                owed,
            ),
        ];
        for (name, about, value) in gauges {
            page.gauge(name, about).put(&[], value as f64);
        }
        let losses = self.store.losses().count();
        let counters = [
            (
                "store_losses",
                "Connections to the store that were lost.",
                losses,
            ),
            (
                "store_regained",
                "How often the leases of open tunnels were all in the store again after a loss.",
                self.gate.openings(),
            ),
            (
                "leases_held_elsewhere",
                "Open tunnels whose lease another one was found to hold on another host.",
                self.gate.elsewhere(),
            ),
        ];
        for (name, about, value) in counters {
            page.counter(name, about).count(&[], value);
        }
        let Some(pool) = self.store.connections() else {
            return;
        };
        let mut samples = page.gauge("store_connections", "Connections to the database.");
        samples.put(&[("state", "in-use")], pool.in_use as f64);
        samples.put(&[("state", "idle")], pool.idle as f64);
        page.gauge("store_connections_max", "Most of them at a time.")
            .put(&[], pool.most as f64);
        page.gauge(
            "store_calls_waiting",
            "Calls of the store that wait for a connection.",
        )
        .put(&[], pool.waiting as f64);
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}
