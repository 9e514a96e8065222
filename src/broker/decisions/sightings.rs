//! What connections named since the start: which resources were matched, and
//! which host names led to none. Tells an administrator what nobody uses and
//! what was forgotten.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::record::{Act, Record};
use crate::placement::{Outcome, ResourceId, Timestamp};

/// Host names kept; the one seen longest ago makes room for a new one.
const HOSTNAMES: usize = 100;

/// What was named since the start.
#[derive(Debug, Default)]
pub struct Sightings(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    resources: BTreeMap<ResourceId, Sighting>,
    hostnames: BTreeMap<String, Sighting>,
}

/// How often something was named, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// How often since the start.
    pub times: u64,
    /// When last.
    pub last: Timestamp,
}

impl Sightings {
    /// Takes note of a decision; a dry run is none of a connection.
    pub(super) fn see(&self, record: &Record) {
        let Some(decision) = record.decision.as_ref() else {
            return;
        };
        if record.act == Act::DryRun {
            return;
        }
        let mut seen = self.lock();
        if let Some(resource) = &decision.resource {
            note(&mut seen.resources, resource.clone(), record.at);
        }
        let hostname = record.asked.hostname.trim().trim_end_matches('.');
        let hostname = hostname.to_lowercase();
        if decision.outcome == Outcome::Unmatched && !hostname.is_empty() {
            note(&mut seen.hostnames, hostname, record.at);
            if seen.hostnames.len() > HOSTNAMES {
                let oldest = seen.hostnames.iter().min_by_key(|(_, seen)| seen.last);
                let oldest = oldest.map(|(name, _)| name.clone());
                oldest.and_then(|name| seen.hostnames.remove(&name));
            }
        }
    }

    /// How often a resource was matched; `None`: never.
    pub fn of_resource(&self, id: &ResourceId) -> Option<Sighting> {
        self.lock().resources.get(id).copied()
    }

    /// Host names that led to no resource, in lower case and order; the hundred
    /// seen last.
    pub fn unmatched_hostnames(&self) -> Vec<(String, Sighting)> {
        let seen = self.lock();
        let hostnames = seen.hostnames.iter();
        hostnames.map(|(name, s)| (name.clone(), *s)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Counters; none is half done behind a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note<K: Ord>(seen: &mut BTreeMap<K, Sighting>, what: K, at: Timestamp) {
    let sighting = seen.entry(what).or_insert(Sighting { times: 0, last: at });
    sighting.times = sighting.times.saturating_add(1);
    sighting.last = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Asked, DecisionId};
    use crate::placement::{Decision, Trust};

    fn record(act: Act, resource: Option<&str>, hostname: &str, at: u64) -> Record {
        let asked = Asked {
            hostname: hostname.to_owned(),
            ..Asked::default()
        };
        let at = Timestamp::from_millis(at);
        let outcome = match resource {
            Some(_) => Outcome::Refused(crate::placement::Refusal::TooManyTunnels),
            None => Outcome::Unmatched,
        };
        Record {
            decision: Some(Decision {
                generation: 1,
                configuration: 1,
                resource: resource.map(ResourceId::from),
                farm: None,
                user: None,
                trust: Trust::Plain,
                key: None,
                outcome,
                candidates: Vec::new(),
            }),
            ..Record::bare(DecisionId::mint(), act, asked, at)
        }
    }

    #[test]
    fn what_connections_named_is_counted_and_a_dry_run_is_none() {
        let sightings = Sightings::default();
        for (act, at) in [(Act::Placement, 1), (Act::Observation, 2), (Act::DryRun, 3)] {
            sightings.see(&record(act, Some("office"), "office.example", at));
            sightings.see(&record(act, None, " Old.Example. ", at));
        }
        let seen = sightings.of_resource(&"office".into()).unwrap();
        assert_eq!((seen.times, seen.last.as_millis()), (2, 2));
        assert_eq!(sightings.of_resource(&"sage".into()), None);
        let hostnames = sightings.unmatched_hostnames();
        assert_eq!(hostnames.len(), 1);
        assert_eq!(
            (hostnames[0].0.as_str(), hostnames[0].1.times),
            ("old.example", 2)
        );
    }

    #[test]
    fn a_flood_of_host_names_keeps_the_latest() {
        let sightings = Sightings::default();
        for at in 0..250 {
            let name = format!("host-{at}.example");
            sightings.see(&record(Act::Placement, None, &name, at));
        }
        let hostnames = sightings.unmatched_hostnames();
        assert_eq!(hostnames.len(), HOSTNAMES);
        assert!(
            hostnames
                .iter()
                .all(|(_, seen)| seen.last.as_millis() >= 150)
        );
    }
}
