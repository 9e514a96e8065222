//! The leases' table and the calls on it.

use std::ops::Bound;

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::{Commit, Pending, Reply, failed, later, next_version};
use crate::placement::{LeaseKey, LeaseRecord};
use crate::store::{Replaced, StoreError, Version, Versioned};

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
        answer: Reply<Replaced>,
    },
    After {
        key: Option<LeaseKey>,
        most: usize,
        answer: Reply<Vec<(LeaseKey, Versioned)>>,
    },
    All {
        answer: Reply<Vec<(LeaseKey, Versioned)>>,
    },
}

impl Call {
    pub(super) fn needs(&self) -> Commit {
        match self {
            Self::Replace { .. } => Commit::Now,
            Self::Read { .. } | Self::After { .. } | Self::All { .. } => Commit::Nothing,
        }
    }

    pub(super) fn apply(
        self,
        transaction: &WriteTransaction,
        pending: &mut Vec<Pending>,
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
                answer,
            } => {
                let done = replace(transaction, key.as_str(), expected, &record);
                later(done, answer, pending)
            }
            Self::After { key, most, answer } => {
                let key = key.as_ref().map(LeaseKey::as_str);
                let from = key.map_or(Bound::Unbounded, Bound::Excluded);
                later(some(transaction, from, most), answer, pending)
            }
            Self::All { answer } => later(all(transaction), answer, pending),
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
            Self::After { answer, .. } | Self::All { answer } => drop(answer.send(Err(error))),
        }
    }
}

fn read(
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
    key: &str,
    expected: Version,
    record: &LeaseRecord,
) -> Result<Replaced, StoreError> {
    let mut leases = transaction.open_table(LEASES).map_err(failed)?;
    let stored = leases.get(key).map_err(failed)?.map_or(0, |s| s.value().0);
    if stored != expected.0 {
        return Ok(Replaced::Conflict);
    }
    if record.is_empty() {
        leases.remove(key).map_err(failed)?;
        return Ok(Replaced::Done(Version::ABSENT));
    }
    let json = serde_json::to_vec(record).map_err(failed)?;
    let version = next_version(transaction)?;
    leases
        .insert(key, (version, json.as_slice()))
        .map_err(failed)?;
    Ok(Replaced::Done(Version(version)))
}

pub(super) fn all(
    transaction: &WriteTransaction,
) -> Result<Vec<(LeaseKey, Versioned)>, StoreError> {
    some(transaction, Bound::Unbounded, usize::MAX)
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
