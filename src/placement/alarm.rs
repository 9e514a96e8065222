//! What somebody should look into, as plain facts: whoever watches says it once
//! when it begins and once when it is over.

use std::collections::BTreeSet;
use std::fmt;

use super::ids::FarmId;
use super::reach::{Reach, Silence};
use super::snapshot::Snapshot;
use super::time::Timestamp;

/// One such fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// Not a single agent of the farm is heard while its hosts answer: placed
    /// is on what was known last.
    AgentsSilent(FarmId),
}

/// Everything that should be looked into at this moment.
pub fn alarms(snapshot: &Snapshot, now: Timestamp) -> BTreeSet<Alarm> {
    let rules = snapshot.directory.rules();
    // Before that, silence says nothing.
    if now.since(snapshot.started) < rules.offline_after {
        return BTreeSet::new();
    }
    let farms = snapshot.directory.farms();
    let silent = farms.filter(|farm| {
        let silence = Silence::of(snapshot, &farm.id, now);
        let mut hosts = snapshot.directory.members(&farm.id);
        hosts.any(|id| {
            let view = snapshot.hosts.get(id);
            view.is_some_and(|view| view.reach_amid(silence, now) == Reach::LastKnown)
        })
    });
    silent
        .map(|farm| Alarm::AgentsSilent(farm.id.clone()))
        .collect()
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgentsSilent(farm) => write!(
                f,
                "no agent of farm {farm} is heard while its hosts answer: placing on what was \
                 known last"
            ),
        }
    }
}
