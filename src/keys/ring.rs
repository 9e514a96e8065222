//! All stored keys, as they are at one moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::listed::{Listed, State};
use super::record::Record;
use super::{GRACE, KeyId, Role};
use crate::placement::{HostId, Timestamp};

/// How exactly the last use is known.
const COARSE: u64 = 60_000;

/// A stored key and its uses.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: KeyId,
    pub(super) record: Record,
    uses: Arc<Moments>,
}

/// Milliseconds since the Unix epoch; 0 for never.
#[derive(Debug, Default)]
struct Moments {
    first: AtomicU64,
    last: AtomicU64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Ring {
    keys: HashMap<KeyId, Arc<Entry>>,
    /// The keys of each host's agent, the older before the newer.
    agents: HashMap<HostId, Vec<Arc<Entry>>>,
}

impl Entry {
    fn new(id: KeyId, record: Record) -> Self {
        let uses = Moments::default();
        let first = record.used_at.map_or(0, Timestamp::as_millis);
        uses.first.store(first, Ordering::Relaxed);
        Self {
            id,
            record,
            uses: Arc::new(uses),
        }
    }

    /// Notes a use; true for the first one ever.
    pub(super) fn use_at(&self, now: Timestamp) -> bool {
        let now = now.as_millis();
        let last = self.uses.last.load(Ordering::Relaxed);
        if last / COARSE != now / COARSE {
            self.uses
                .last
                .store(now / COARSE * COARSE, Ordering::Relaxed);
        }
        let first = &self.uses.first;
        first.load(Ordering::Relaxed) == 0
            && first
                .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// It was used before, perhaps at another replica.
    fn note_first_use(&self) {
        if let Some(at) = self.record.used_at {
            let at = at.as_millis();
            let _ = self
                .uses
                .first
                .compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(super) fn first_used(&self) -> Option<Timestamp> {
        moment(&self.uses.first)
    }

    pub(super) fn last_used(&self) -> Option<Timestamp> {
        moment(&self.uses.last)
    }

    /// An agent's key whose first use is not written down yet.
    pub(super) fn is_fresh(&self) -> bool {
        let agents = matches!(self.record.role, Role::Agent(_));
        agents && self.record.used_at.is_none() && self.first_used().is_some()
    }

    fn is_older_than(&self, other: &Self) -> bool {
        (self.record.created_at, &self.id) < (other.record.created_at, &other.id)
    }
}

fn moment(cell: &AtomicU64) -> Option<Timestamp> {
    Some(cell.load(Ordering::Relaxed))
        .filter(|at| *at != 0)
        .map(Timestamp::from_millis)
}

impl FromIterator<(KeyId, Record)> for Ring {
    fn from_iter<I: IntoIterator<Item = (KeyId, Record)>>(records: I) -> Self {
        let mut ring = Self::default();
        for (id, record) in records {
            ring.put(Entry::new(id, record));
        }
        ring
    }
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Entry>> {
        self.keys.get(id)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.keys.values()
    }

    /// The keys of a host's agent that are good now, the older first.
    pub(super) fn good_of(&self, host: &HostId, now: Timestamp) -> Vec<&Arc<Entry>> {
        let keys = self.agents.get(host).into_iter().flatten();
        keys.filter(|entry| self.state(entry, now).is_good())
            .collect()
    }

    /// When the newest key of a host was made.
    pub(super) fn newest_of(&self, host: &HostId) -> Option<Timestamp> {
        let newest = self.agents.get(host)?.last()?;
        Some(newest.record.created_at)
    }

    /// This ring with these records in it, new or instead of what was there.
    pub(super) fn with(&self, records: impl IntoIterator<Item = (KeyId, Record)>) -> Self {
        let mut ring = self.clone();
        for (id, record) in records {
            let mut entry = Entry::new(id, record);
            if let Some(before) = ring.keys.get(&entry.id) {
                entry.record.keep_what_happened(&before.record);
                entry.uses = Arc::clone(&before.uses);
                entry.note_first_use();
            }
            ring.put(entry);
        }
        ring
    }

    /// This ring without these keys, which are stored no more.
    pub(super) fn without(&self, ids: &[KeyId]) -> Self {
        let mut ring = self.clone();
        for id in ids {
            ring.keys.remove(id);
            for keys in ring.agents.values_mut() {
                keys.retain(|entry| &entry.id != id);
            }
        }
        ring.agents.retain(|_, keys| !keys.is_empty());
        ring
    }

    fn put(&mut self, entry: Entry) {
        let entry = Arc::new(entry);
        if let Role::Agent(host) = &entry.record.role {
            let keys = self.agents.entry(host.clone()).or_default();
            keys.retain(|other| other.id != entry.id);
            let place = keys.partition_point(|other| other.is_older_than(&entry));
            keys.insert(place, Arc::clone(&entry));
        }
        self.keys.insert(entry.id.clone(), entry);
    }

    pub(super) fn state(&self, entry: &Entry, now: Timestamp) -> State {
        let record = &entry.record;
        if record.revoked_at.is_some() {
            State::Revoked
        } else if record.used_at.is_some() && matches!(record.role, Role::Enrollment(_)) {
            State::Used
        } else if record.expires_at.is_some_and(|end| end <= now) {
            State::Expired
        } else if record.asked_at.is_some() && record.approved_at.is_none() {
            State::Waiting
        } else {
            match self.replaced_at(entry) {
                Some(end) if end <= now => State::Replaced,
                Some(_) => State::Ending,
                None => State::Valid,
            }
        }
    }

    /// When a newer key takes this one's place for good. A newer key that ends
    /// before that leaves it as it was; one that ends later does not bring it
    /// back.
    fn replaced_at(&self, entry: &Entry) -> Option<Timestamp> {
        let Role::Agent(host) = &entry.record.role else {
            return None;
        };
        let keys = self.agents.get(host)?.iter();
        let newer = keys.filter(|other| entry.is_older_than(other));
        let ends = newer.filter_map(|newer| {
            let end = newer.first_used()? + GRACE;
            let stood = newer.record.ended_at().is_none_or(|ended| ended >= end);
            stood.then_some(end)
        });
        ends.min()
    }

    /// Whether nobody needs to know of it any more.
    pub(super) fn is_past(&self, entry: &Entry, now: Timestamp, kept: Duration) -> bool {
        let ends = [entry.record.ended_at(), self.replaced_at(entry)];
        let ended = ends.into_iter().flatten().min();
        ended.is_some_and(|ended| ended + kept <= now)
    }

    pub(super) fn listed(&self, entry: &Entry, now: Timestamp) -> Listed {
        let record = entry.record.clone();
        let ends = [record.expires_at, self.replaced_at(entry)];
        Listed {
            id: entry.id.clone(),
            role: record.role,
            label: record.label,
            state: self.state(entry, now),
            created_by: record.created_by,
            created_at: Some(record.created_at),
            expires_at: ends.into_iter().flatten().min(),
            revoked_at: record.revoked_at,
            revoked_by: record.revoked_by,
            last_used: entry.last_used(),
        }
    }
}
