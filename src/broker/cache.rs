//! Lease records as they were last read, written or heard of: to ask the store
//! takes two threads that wake each other, or a way over the network.
//!
//! How stale one may be, and why that does no harm:
//!
//! - for a placement: as old as the last loss of the store. The claim names the
//!   version that was known here and is written only where that is still the
//!   one, so a stale record costs one more round and never a wrong host; nobody
//!   is refused by what is only cached;
//! - with `degraded = "existing-lease"` while the store is away: of any age.
//!   That is the risk the setting takes: the record may have changed elsewhere
//!   since it was last heard of;
//! - for what the keeper and the API change: as for a placement;
//! - for whatever else is read: not used.
//!
//! A newer version is never overwritten by an older one, except across a loss:
//! a standby that took over may have lost the newer one. Where that one had a
//! lease that still runs, it is what we go on with, as a change of the version
//! that is there now; the next write puts it back.

use std::fmt;
use std::sync::Arc;

use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;
use moka::sync::Cache as Map;

use crate::placement::{LeaseKey, LeaseRecord, LeaseState, Timestamp};
use crate::store::{Version, Versioned};

/// Records kept of a store that is far away; beyond that those go that are asked for
/// least.
const FAR: u64 = 65_536;

/// The same of one that is in this process: those of whoever logs on or leaves just
/// now. To ask it for others costs less than to keep them.
const NEAR: u64 = 64;

/// What is known of lease records without asking.
pub(super) struct Cache(Map<LeaseKey, Entry>);

#[derive(Debug, Clone)]
struct Entry {
    /// Of the record, or of its removal.
    version: Version,
    record: Arc<LeaseRecord>,
    /// How often the store had been lost by then.
    losses: u64,
}

/// What was cached before a read began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    version: Option<Version>,
    losses: u64,
}

impl Cache {
    /// Empty, for a store that is far away or in this process.
    pub(super) fn new(is_far: bool) -> Self {
        Self(match is_far {
            true => Map::new(FAR),
            false => Map::builder()
                .max_capacity(NEAR)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
        })
    }

    /// What is known of a key since the last loss.
    pub(super) fn current(&self, key: &LeaseKey, losses: u64) -> Option<Versioned> {
        let entry = self.0.get(key)?;
        (entry.losses == losses).then(|| entry.known())
    }

    /// What was known of a key last, however long ago.
    pub(super) fn last(&self, key: &LeaseKey) -> Option<Arc<LeaseRecord>> {
        self.0.get(key).map(|entry| entry.record)
    }

    /// To be asked for before a read begins.
    pub(super) fn before(&self, key: &LeaseKey, losses: u64) -> Before {
        let version = self.0.get(key).map(|entry| entry.version);
        Before { version, losses }
    }

    /// Takes in what a read found, and gives what to go on with.
    pub(super) fn read(
        &self,
        key: &LeaseKey,
        before: Before,
        found: Versioned,
        now: Timestamp,
    ) -> Versioned {
        let is_absent = found.version == Version::ABSENT;
        self.compute(key, before.losses, found, now, |known| {
            // Of nothing there is no version to compare: it is news where
            // nobody told us anything else meanwhile.
            is_absent && before.version == Some(known)
        })
    }

    /// Takes in a record that was written, or was heard of as written; an empty
    /// one was removed.
    pub(super) fn heard(&self, key: &LeaseKey, losses: u64, found: Versioned, now: Timestamp) {
        self.compute(key, losses, found, now, |_| false);
    }

    fn compute(
        &self,
        key: &LeaseKey,
        losses: u64,
        found: Versioned,
        now: Timestamp,
        replaces: impl Fn(Version) -> bool,
    ) -> Versioned {
        let mut found = Entry {
            version: found.version,
            record: Arc::new(found.record),
            losses,
        };
        let entry = self.0.entry_by_ref(key);
        entry.and_compute_with(|entry| {
            let Some(entry) = entry.map(moka::Entry::into_value) else {
                return Op::Put(found.clone());
            };
            if entry.losses < losses {
                if entry.version > found.version && is_worth_keeping(&entry.record, now) {
                    found.record = entry.record;
                }
                return Op::Put(found.clone());
            }
            let is_news = found.version > entry.version || replaces(entry.version);
            match entry.losses == losses && is_news {
                true => Op::Put(Entry {
                    version: found.version.max(entry.version),
                    ..found.clone()
                }),
                false => Op::Nop,
            }
        });
        // Where more was known already, what was found is what the store had:
        // whoever writes on the strength of it is told.
        found.known()
    }
}

impl Entry {
    fn known(&self) -> Versioned {
        match self.record.is_empty() {
            true => Versioned::default(),
            false => Versioned {
                version: self.version,
                record: LeaseRecord::clone(&self.record),
            },
        }
    }
}

/// Whether a record has a lease that stood and still runs.
pub(super) fn is_worth_keeping(record: &LeaseRecord, now: Timestamp) -> bool {
    record
        .views(now)
        .any(|view| view.state != LeaseState::Claimed)
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("records", &self.0.entry_count())
            .finish_non_exhaustive()
    }
}
