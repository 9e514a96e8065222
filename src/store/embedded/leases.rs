//! The leases' table and the calls on it.

use std::ops::Bound;

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::feed::{Feed, Item};
use super::{Commit, Pending, Reply, Writer, failed, later};
use crate::placement::{LeaseKey, LeaseRecord};
use crate::store::{Footing, Replaced, StoreError, Version, Versioned};

/// Key text to version and record as JSON.
pub(super) const LEASES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("leases");

pub(super) enum Call {
    Read {
        key: LeaseKey,
        answer: Reply<Versioned>,
    },
    Replace {
        key: LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<(Footing, Writer)>,
        answer: Reply<Replaced>,
    },
    After {
        key: Option<LeaseKey>,
        most: usize,
        answer: Reply<Vec<(LeaseKey, Versioned)>>,
    },
}

impl Call {
    pub(super) fn needs(&self) -> Commit {
        match self {
            Self::Replace { .. } => Commit::Now,
            Self::Read { .. } | Self::After { .. } => Commit::Nothing,
        }
    }

    pub(super) fn apply(
        self,
        transaction: &WriteTransaction,
        pending: &mut Vec<Pending>,
        feed: &mut Feed,
    ) -> Result<(), StoreError> {
        match self {
            Self::Read { key, answer } => {
                let leases = transaction.open_table(LEASES).map_err(failed);
                let found = leases.and_then(|leases| read(&leases, key.as_str()));
                later(found, answer, pending)
            }
            Self::Replace {
                key,
                expected,
                record,
                footing,
                answer,
            } => {
                let done = replace(transaction, feed, (key, expected), (&record, footing));
                later(done, answer, pending)
            }
            Self::After { key, most, answer } => {
                let key = key.as_ref().map(LeaseKey::as_str);
                let from = key.map_or(Bound::Unbounded, Bound::Excluded);
                later(some(transaction, from, most), answer, pending)
            }
        }
    }

    /// Answers at once; what is not to be read so is not answered.
    pub(super) fn look(
        self,
        leases: &impl ReadableTable<&'static str, (u64, &'static [u8])>,
    ) -> Result<(), StoreError> {
        let Self::Read { key, answer } = self else {
            return Ok(());
        };
        let found = read(leases, key.as_str());
        let looked = found.as_ref().map(drop).map_err(Clone::clone);
        // Nobody waits any more: a deadline passed, which is no fault here.
        let _ = answer.send(found);
        looked
    }

    pub(super) fn refuse(self, error: StoreError) {
        // A caller that left needs no answer.
        match self {
            Self::Read { answer, .. } => drop(answer.send(Err(error))),
            Self::Replace { answer, .. } => drop(answer.send(Err(error))),
            Self::After { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

pub(super) fn read(
    leases: &impl ReadableTable<&'static str, (u64, &'static [u8])>,
    key: &str,
) -> Result<Versioned, StoreError> {
    match leases.get(key).map_err(failed)? {
        Some(stored) => {
            let (version, json) = stored.value();
            decode(version, json)
        }
        None => Ok(Versioned::default()),
    }
}

fn replace(
    transaction: &WriteTransaction,
    feed: &mut Feed,
    (key, expected): (LeaseKey, Version),
    (record, footing): (&LeaseRecord, Option<(Footing, Writer)>),
) -> Result<Replaced, StoreError> {
    let mut leases = transaction.open_table(LEASES).map_err(failed)?;
    let stored = leases.get(key.as_str()).map_err(failed)?;
    let stored = stored.map_or(0, |stored| stored.value().0);
    if stored != expected.0 {
        return Ok(Replaced::Conflict);
    }
    if let Some((footing, writer)) = &footing {
        if feed.is_behind(footing, *writer) {
            return Ok(Replaced::Behind);
        }
        feed.claimed(&footing.host, *writer);
    }
    if record.is_empty() && stored == 0 {
        return Ok(Replaced::Done(Version::ABSENT));
    }
    // A removal has a version, too, for others who must see that it is newer.
    let version = feed.versions.next(transaction)?;
    if record.is_empty() {
        leases.remove(key.as_str()).map_err(failed)?;
    } else {
        let json = serde_json::to_vec(record).map_err(failed)?;
        leases
            .insert(key.as_str(), (version, json.as_slice()))
            .map_err(failed)?;
    }
    feed.wrote(Item::Lease(key), Version(version));
    Ok(Replaced::Done(match record.is_empty() {
        true => Version::ABSENT,
        false => Version(version),
    }))
}

pub(super) fn all(
    transaction: &WriteTransaction,
) -> Result<Vec<(LeaseKey, Versioned)>, StoreError> {
    some(transaction, Bound::Unbounded, usize::MAX)
}

/// Reads them all, and keeps none: there may be very many.
pub(super) fn check(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let leases = transaction.open_table(LEASES).map_err(failed)?;
    for row in leases.iter().map_err(failed)? {
        let (_, stored) = row.map_err(failed)?;
        let (version, json) = stored.value();
        decode(version, json)?;
    }
    Ok(())
}

fn some(
    transaction: &WriteTransaction,
    from: Bound<&str>,
    most: usize,
) -> Result<Vec<(LeaseKey, Versioned)>, StoreError> {
    let leases = transaction.open_table(LEASES).map_err(failed)?;
    let rows = leases.range::<&str>((from, Bound::Unbounded));
    let rows = rows.map_err(failed)?.take(most);
    rows.map(|row| {
        let (key, stored) = row.map_err(failed)?;
        let (version, json) = stored.value();
        let key = LeaseKey::from_stored(key.value().to_owned());
        Ok((key, decode(version, json)?))
    })
    .collect()
}

fn decode(version: u64, json: &[u8]) -> Result<Versioned, StoreError> {
    Ok(Versioned {
        version: Version(version),
        record: serde_json::from_slice(json).map_err(failed)?,
    })
}
