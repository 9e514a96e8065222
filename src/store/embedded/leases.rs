//! The leases' table and the calls on it.

use std::ops::Bound;

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::feed::{Feed, Item};
use super::journal::{Journal, Row};
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
}

impl Call {
    pub(super) fn needs(&self) -> Commit {
        match self {
            Self::Replace { .. } => Commit::Now,
            Self::Read { .. } => Commit::Nothing,
        }
    }

    /// Answers a reader at once, a writer by what waits for the disk.
    pub(super) fn apply(
        self,
        leases: &impl ReadableTable<&'static str, (u64, &'static [u8])>,
        (journal, feed): (&mut Journal, &mut Feed),
        pending: &mut Vec<Pending>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Read { key, answer } => {
                let found = match journal.find(&key) {
                    Some(row) if row.json.is_empty() => Ok(Versioned::default()),
                    Some(row) => decode(row.version, &row.json),
                    None => read(leases, key.as_str()),
                };
                let looked = found.as_ref().map(drop).map_err(Clone::clone);
                // Nobody waits any more: a deadline passed, which is no fault here.
                let _ = answer.send(found);
                looked
            }
            Self::Replace {
                key,
                expected,
                record,
                footing,
                answer,
            } => {
                let to = (journal, feed);
                let done = replace(leases, to, (key, expected), (&record, footing));
                later(done, answer, pending)
            }
        }
    }

    pub(super) fn refuse(self, error: StoreError) {
        // A caller that left needs no answer.
        match self {
            Self::Read { answer, .. } => drop(answer.send(Err(error))),
            Self::Replace { answer, .. } => drop(answer.send(Err(error))),
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
    leases: &impl ReadableTable<&'static str, (u64, &'static [u8])>,
    (journal, feed): (&mut Journal, &mut Feed),
    (key, expected): (LeaseKey, Version),
    (record, footing): (&LeaseRecord, Option<(Footing, Writer)>),
) -> Result<Replaced, StoreError> {
    let stored = match journal.find(&key) {
        Some(row) if row.json.is_empty() => 0,
        Some(row) => row.version,
        None => {
            let stored = leases.get(key.as_str()).map_err(failed)?;
            stored.map_or(0, |stored| stored.value().0)
        }
    };
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
    let version = feed.versions.take();
    let version = version.ok_or_else(|| failed("no version is left"))?;
    let json = match record.is_empty() {
        true => Vec::new(),
        false => serde_json::to_vec(record).map_err(failed)?,
    };
    feed.wrote(Item::Lease(key.clone()), Version(version));
    journal.note(key, Row { version, json })?;
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

/// At most so many whose keys come after this one.
pub(super) fn after(
    transaction: &WriteTransaction,
    key: Option<&LeaseKey>,
    most: usize,
) -> Result<Vec<(LeaseKey, Versioned)>, StoreError> {
    let key = key.map(LeaseKey::as_str);
    let from = key.map_or(Bound::Unbounded, Bound::Excluded);
    some(transaction, from, most)
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
