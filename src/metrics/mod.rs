//! What is counted and measured while the process runs, for Prometheus.
//!
//! One [`Metrics`] is made at the start and handed to the rooms where things
//! happen: broker, tunnel, fleet, and the [`Metered`] store. What can be read
//! off the live lists at any moment is not counted here at all: whoever writes
//! a page reads it then (a [`Page`]), so that no figure drifts from what it
//! stands for.
//!
//! No user, address or connection id enters a label: values come from the
//! configuration or from the fixed words of this room. Counts by what has left
//! the configuration are forgotten.

mod farms;
mod metered;
mod page;
mod picture;
mod store;
mod tally;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::placement::{Decision, Directory, FarmId, Outcome, Reason, ResourceId};

pub use metered::Metered;
pub use page::{Page, Samples};
pub use picture::picture;
pub use store::StoreHealth;
use tally::Tally;
pub use words::{Attempted, Cause, Operation, Phase, Probed, Stored, refused};

/// What a page is, for its reader's `Content-Type`.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// What every name begins with.
const PREFIX: &str = "sessionguard";

/// Of a step within this machine or its network.
const BRISK: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Of a step that somebody may wait for, up to every deadline there is.
const PATIENT: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0];

type Label = (&'static str, &'static str);
type Timed<const N: usize> = Family<[Label; N], Histogram, fn() -> Histogram>;

/// Everything that is counted and measured.
pub struct Metrics {
    handshakes: Timed<1>,
    placing: Histogram,
    placements: Tally<(Option<FarmId>, Option<ResourceId>, &'static str)>,
    rejections: Tally<(Option<FarmId>, &'static str)>,
    conflicts: Counter,
    operations: Family<[Label; 2], Counter>,
    operating: Timed<1>,
    store: store::Health,
    degraded: Counter,
    guacd_failures: Counter,
    guacd_up: AtomicBool,
    probes: Timed<1>,
    attempts: Family<[Label; 1], Counter>,
    saved: Counter,
}

/// A handshake in the making: the time since its last step.
#[derive(Debug)]
pub struct Lap<'a> {
    metrics: &'a Metrics,
    since: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            handshakes: Family::new_with_constructor(patient),
            placing: patient(),
            placements: Tally::default(),
            rejections: Tally::default(),
            conflicts: Counter::default(),
            operations: Family::default(),
            operating: Family::new_with_constructor(brisk),
            store: store::Health::default(),
            degraded: Counter::default(),
            guacd_failures: Counter::default(),
            guacd_up: AtomicBool::new(true),
            probes: Family::new_with_constructor(patient),
            attempts: Family::default(),
            saved: Counter::default(),
        };
        // From zero on, so that the first of a kind is an increase.
        for phase in Phase::ALL {
            let _ = metrics.handshakes.get_or_create(&[phase.label()]);
        }
        for attempted in Attempted::ALL {
            let _ = metrics.attempts.get_or_create(&[attempted.label()]);
        }
        for probed in Probed::ALL {
            let _ = metrics.probes.get_or_create(&[probed.label()]);
        }
        for operation in Operation::ALL {
            let _ = metrics.operating.get_or_create(&[operation.label()]);
            for stored in operation.results() {
                let labels = [operation.label(), stored.label()];
                let _ = metrics.operations.get_or_create(&labels);
            }
        }
        metrics
    }
}

fn brisk() -> Histogram {
    Histogram::new(BRISK.iter().copied())
}

fn patient() -> Histogram {
    Histogram::new(PATIENT.iter().copied())
}

impl Metrics {
    /// A handshake begins.
    pub fn handshake(&self) -> Lap<'_> {
        Lap {
            metrics: self,
            since: Instant::now(),
        }
    }

    /// The broker took so long over a placement, however it came out.
    pub fn placed_within(&self, span: Duration) {
        self.placing.observe(span.as_secs_f64());
    }

    /// A decision was kept: one that is acted on, or one that is only watched.
    /// `cause` says why it came to nothing all the same.
    pub fn decided(&self, decision: Option<&Decision>, acted: bool, cause: Option<Cause>) {
        let farm = decision.and_then(|decision| decision.farm.clone());
        let resource = decision.and_then(|decision| decision.resource.clone());
        let outcome = decision.map(|decision| &decision.outcome);
        if let (Some(Outcome::Placed(placement)), None, true) = (outcome, cause, acted)
            && placement.reason == Reason::Degraded
        {
            self.degraded.inc();
        }
        if let (Some(reason), true) = (words::reason(outcome, cause), acted) {
            self.rejections.add((farm.clone(), reason));
        }
        let result = words::result(outcome, cause, acted);
        self.placements.add((farm, resource, result));
    }

    /// The store answered, or could not.
    pub fn stored(&self, operation: Operation, span: Duration, came: Stored) {
        let labels = [operation.label(), came.label()];
        self.operations.get_or_create(&labels).inc();
        let operating = self.operating.get_or_create(&[operation.label()]);
        operating.observe(span.as_secs_f64());
        self.store.note(operation, came);
        if came == Stored::Conflict && operation == Operation::Replace {
            self.conflicts.inc();
        }
    }

    /// The store does not answer a read in time.
    pub fn store_is_silent(&self) {
        self.store.is_silent();
    }

    /// Whether the last read of the store and the last write came through, and
    /// how long ago.
    pub fn store_health(&self) -> StoreHealth {
        self.store.now()
    }

    /// guacd was dialled; gives the outcome back.
    pub fn dialled<T, E>(&self, outcome: Result<T, E>) -> Result<T, E> {
        self.guacd_up.store(outcome.is_ok(), Ordering::Relaxed);
        if outcome.is_err() {
            self.guacd_failures.inc();
        }
        outcome
    }

    /// A guacd that was dialled failed, and another one is tried.
    pub fn passed_over(&self) {
        self.guacd_failures.inc();
    }

    /// Whether the last dial of guacd succeeded, or none was tried yet.
    pub fn is_guacd_up(&self) -> bool {
        self.guacd_up.load(Ordering::Relaxed)
    }

    /// A host was probed.
    pub fn probed(&self, span: Duration, came: Probed) {
        let probes = self.probes.get_or_create(&[came.label()]);
        probes.observe(span.as_secs_f64());
    }

    /// An attempt at a desktop is over.
    pub fn attempted(&self, came: Attempted) {
        self.attempts.get_or_create(&[came.label()]).inc();
    }

    /// A desktop stood that would not have without another attempt.
    pub fn saved(&self) {
        self.saved.inc();
    }

    /// Everything, as Prometheus reads it: what was counted, and what `page`
    /// holds. `directory` is the configuration in force.
    ///
    /// # Errors
    /// A figure cannot be written down.
    pub fn write(&self, mut page: Page, directory: &Directory) -> Result<String, fmt::Error> {
        self.tell_placements(&mut page, directory);
        self.store.now().tell(&mut page);
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register(
            "handshake_duration_seconds",
            "How long each phase of a handshake took that came through it",
            self.handshakes.clone(),
        );
        registry.register(
            "placement_duration_seconds",
            "How long the broker took over a placement, waiting for room included",
            self.placing.clone(),
        );
        registry.register(
            "lease_conflicts",
            "Conditional writes of a lease that lost to another and were tried again",
            self.conflicts.clone(),
        );
        registry.register(
            "placements_degraded",
            "Users placed by a lease as last known, while the store was away",
            self.degraded.clone(),
        );
        registry.register(
            "store_operations",
            "Calls of the store, by what came of them",
            self.operations.clone(),
        );
        registry.register(
            "store_operation_duration_seconds",
            "How long the store took to answer",
            self.operating.clone(),
        );
        registry.register(
            "guacd_connect_failures",
            "Dials of guacd that failed",
            self.guacd_failures.clone(),
        );
        registry.register(
            "probe_duration_seconds",
            "How long a host took to answer a probe, or to fail it",
            self.probes.clone(),
        );
        registry.register(
            "attempts",
            "Attempts at a desktop, by what came of them",
            self.attempts.clone(),
        );
        registry.register(
            "connections_saved",
            "Desktops that stood after a host had failed before",
            self.saved.clone(),
        );
        registry.register_collector(Box::new(page));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }

    fn tell_placements(&self, page: &mut Page, directory: &Directory) {
        let has_farm = |farm: &Option<FarmId>| {
            let farm = farm.as_ref();
            farm.is_none_or(|farm| directory.farm(farm).is_some())
        };
        let has_resource = |resource: &Option<ResourceId>| {
            let resource = resource.as_ref();
            resource.is_none_or(|resource| directory.resource(resource).is_some())
        };
        let mut placements = page.counter("placements", "Decisions, by what came of them.");
        let known = |key: &(_, _, _)| has_farm(&key.0) && has_resource(&key.1);
        for ((farm, resource, result), count) in self.placements.keep(known) {
            let farm = farm.as_ref().map_or("", FarmId::as_str);
            let resource = resource.as_ref().map_or("", ResourceId::as_str);
            let labels = [("farm", farm), ("resource", resource), ("result", result)];
            placements.count(&labels, count);
        }
        let mut rejections = page.counter("placement_rejections", "Placements refused, by reason.");
        for ((farm, reason), count) in self.rejections.keep(|key| has_farm(&key.0)) {
            let farm = farm.as_ref().map_or("", FarmId::as_str);
            rejections.count(&[("farm", farm), ("reason", reason)], count);
        }
    }
}

impl Lap<'_> {
    /// This phase is over; the next one begins.
    pub fn done(&mut self, phase: Phase) {
        let now = Instant::now();
        let spent = now.duration_since(self.since);
        let phase = self.metrics.handshakes.get_or_create(&[phase.label()]);
        phase.observe(spent.as_secs_f64());
        self.since = now;
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
