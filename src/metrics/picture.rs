//! What the live picture says of hosts, tunnels and leases at a moment.

use std::collections::{BTreeMap, BTreeSet};

use super::Page;
use super::farms::farms;
use crate::placement::{
    Alarm, BreakerState, FarmId, HostId, Known, LeaseKey, Mode, Reach, Snapshot, Timestamp, alarms,
    newcomer, reach,
};

/// Puts the figures of every configured host and farm on a page. A host that
/// was taken out has none, though it may be in use still.
pub fn picture(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    states(page, snapshot, now);
    breakers(page, snapshot, now);
    heartbeats(page, snapshot, now);
    sessions(page, snapshot, now);
    scores(page, snapshot, now);
    farms(page, snapshot, now);
    pending(page, snapshot);
    leases(page, snapshot, now);
    sounding(page, snapshot, now);
    page.gauge(
        "config_generation",
        "Generation of the configuration in force.",
    )
    .put(&[], snapshot.configuration as f64);
}

fn sounding(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let alarms = alarms(snapshot, now);
    let mut samples = page.gauge(
        "alarms",
        "Farms or hosts for which an alarm of this kind sounds; the status and the log say which.",
    );
    for kind in Alarm::KINDS {
        let count = alarms.iter().filter(|alarm| alarm.kind() == kind).count();
        samples.put(&[("alarm", kind)], count as f64);
    }
}

fn configured(snapshot: &Snapshot) -> impl Iterator<Item = (&HostId, &Known)> {
    let hosts = snapshot.hosts.iter();
    let hosts = hosts.filter(|(id, _)| snapshot.directory.host(id).is_some());
    hosts.map(|(id, view)| (id, view.as_ref()))
}

fn states(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let mut samples = page.gauge(
        "host_state",
        "Whether a host is in this state: its mode, or how it can be reached; online is neither in drain or maintenance nor out of reach.",
    );
    for (id, view) in configured(snapshot) {
        let reach = reach(snapshot, id, now).unwrap_or(Reach::Unknown);
        let mode = view.mode(now);
        let online = mode == Mode::Online && reach == Reach::Online;
        for (state, is_so) in [
            ("online", online),
            ("drain", mode == Mode::Drain),
            ("maintenance", mode == Mode::Maintenance),
            ("unknown", reach == Reach::Unknown),
            ("silent", reach == Reach::Silent),
            ("last-known", reach == Reach::LastKnown),
            ("dead", reach == Reach::Dead),
        ] {
            let labels = [("host", id.as_str()), ("state", state)];
            samples.put(&labels, f64::from(u8::from(is_so)));
        }
    }
}

fn breakers(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let mut samples = page.gauge(
        "host_breaker",
        "Whether a host's breaker is in this state; where in neither it is closed.",
    );
    for (id, view) in configured(snapshot) {
        let state = view.breaker(now);
        for (word, is_so) in [
            ("open", matches!(state, BreakerState::Open(_))),
            ("half-open", matches!(state, BreakerState::HalfOpen(_))),
        ] {
            let labels = [("host", id.as_str()), ("state", word)];
            samples.put(&labels, f64::from(u8::from(is_so)));
        }
    }
    let mut samples = page.counter(
        "breaker_openings",
        "How often a host's breaker opened, by cause.",
    );
    for (id, view) in configured(snapshot) {
        let openings = view.breaker.openings();
        for (cause, count) in [
            ("attempts", openings.attempts),
            ("trial", openings.trial),
            ("flapping", openings.flapping),
        ] {
            samples.count(&[("host", id.as_str()), ("cause", cause)], count);
        }
    }
}

fn heartbeats(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let mut samples = page.gauge(
        "host_heartbeat_age_seconds",
        "How old the last report of a host's agent is; of hosts without an agent there is none.",
    );
    for (id, view) in configured(snapshot) {
        if let Some(report) = &view.report {
            let age = now.since(report.received).as_secs_f64();
            samples.put(&[("host", id.as_str())], age);
        }
    }
}

fn sessions(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let mut samples = page.gauge(
        "sessions",
        "Sessions on a host as its score counts them, in every farm it belongs to.",
    );
    let loads: BTreeMap<_, _> = configured(snapshot)
        .map(|(id, view)| (id, view.load(now)))
        .collect();
    for farm in snapshot.directory.farms() {
        for id in snapshot.directory.members(&farm.id) {
            let Some(load) = loads.get(id) else { continue };
            for (state, count) in [("active", load.active), ("disconnected", load.disconnected)] {
                let labels = [
                    ("farm", farm.id.as_str()),
                    ("host", id.as_str()),
                    ("state", state),
                ];
                samples.put(&labels, f64::from(count));
            }
        }
    }
}

fn scores(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let mut samples = page.gauge(
        "host_score",
        "What a host scores for a newcomer of the farm, whether it takes one or not.",
    );
    for farm in snapshot.directory.farms() {
        for candidate in newcomer(snapshot, &farm.id, now) {
            let labels = [
                ("farm", farm.id.as_str()),
                ("host", candidate.host.as_str()),
            ];
            samples.put(&labels, candidate.score.total);
        }
    }
}

fn pending(page: &mut Page, snapshot: &Snapshot) {
    let tunnels = snapshot.hosts.values().flat_map(|view| &view.tunnels);
    // Another replica counts its own.
    let pending = tunnels.filter(|tunnel| tunnel.stood.is_none() && !tunnel.elsewhere);
    let pending = pending.count();
    page.gauge(
        "pending_placements",
        "Tunnels that were placed and whose RDP connection has not stood yet.",
    )
    .put(&[], pending as f64);
}

/// A user's tunnels rely on one lease a farm; what lingers is known by host.
fn leases(page: &mut Page, snapshot: &Snapshot, now: Timestamp) {
    let mut held: BTreeMap<(&LeaseKey, &FarmId), bool> = BTreeMap::new();
    let mut lingering = 0_u32;
    for view in snapshot.hosts.values() {
        let mut here = BTreeSet::new();
        for tunnel in &view.tunnels {
            if let Some(key) = &tunnel.key {
                here.insert(key);
                if !tunnel.elsewhere {
                    *held.entry((key, &tunnel.farm)).or_default() |= tunnel.stood.is_some();
                }
            }
        }
        let left = view.lingering.left(now);
        let left = left.filter(|(key, _)| !here.contains(key));
        lingering = lingering.saturating_add(u32::try_from(left.count()).unwrap_or(u32::MAX));
    }
    let live = held.values().filter(|stood| **stood).count();
    let mut samples = page.gauge(
        "leases",
        "Leases by state, as far as this process knows: those of its tunnels, and those that linger.",
    );
    samples.put(&[("state", "claimed")], (held.len() - live) as f64);
    samples.put(&[("state", "live")], live as f64);
    samples.put(&[("state", "lingering")], f64::from(lingering));
}
