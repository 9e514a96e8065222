//! The archive's tables and the calls on them, done on the store's own thread
//! in between the leases: each is small, so that no claim waits long.

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction};

use super::{Commit, META, Pending, Reply, failed, later};
use crate::store::{Bounds, Kept, StoreError};

/// Id to the names it is kept under and its JSON.
pub(super) const DECISIONS: TableDefinition<'_, u128, (Vec<&str>, &[u8])> =
    TableDefinition::new("decisions");
/// Name and id, to find a user's decisions without reading everybody's.
pub(super) const NAMES: TableDefinition<'_, (&str, u128), ()> =
    TableDefinition::new("decision-names");

/// In the table of numbers: bytes of JSON in all.
const BYTES_KEY: &str = "decision-bytes";

/// Decisions forgotten in one call at most: a few milliseconds.
const BATCH: usize = 100;

pub(super) enum Call {
    Keep {
        decisions: Vec<Kept>,
        sync: bool,
        answer: Reply<()>,
    },
    One {
        id: u128,
        answer: Reply<Option<String>>,
    },
    Newest {
        name: Option<String>,
        most: usize,
        answer: Reply<Vec<String>>,
    },
    Prune {
        bounds: Bounds,
        answer: Reply<usize>,
    },
}

impl Call {
    /// A commit that need not reach the disk takes no time from the claims
    /// behind it.
    pub(super) fn needs(&self) -> Commit {
        match self {
            Self::Keep { sync: true, .. } => Commit::Now,
            Self::Keep { .. } | Self::Prune { .. } => Commit::Later,
            Self::One { .. } | Self::Newest { .. } => Commit::Nothing,
        }
    }

    pub(super) fn apply(
        self,
        transaction: &WriteTransaction,
        pending: &mut Vec<Pending>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Keep {
                decisions, answer, ..
            } => later(keep(transaction, &decisions), answer, pending),
            Self::One { id, answer } => later(one(transaction, id), answer, pending),
            Self::Newest { name, most, answer } => {
                let found = newest(transaction, name.as_deref(), most);
                later(found, answer, pending)
            }
            Self::Prune { bounds, answer } => later(prune(transaction, bounds), answer, pending),
        }
    }

    pub(super) fn refuse(self, error: StoreError) {
        // A caller that left needs no answer.
        match self {
            Self::Keep { answer, .. } => drop(answer.send(Err(error))),
            Self::One { answer, .. } => drop(answer.send(Err(error))),
            Self::Newest { answer, .. } => drop(answer.send(Err(error))),
            Self::Prune { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

fn keep(transaction: &WriteTransaction, decisions: &[Kept]) -> Result<(), StoreError> {
    let mut rows = transaction.open_table(DECISIONS).map_err(failed)?;
    let mut names = transaction.open_table(NAMES).map_err(failed)?;
    let mut bytes = Bytes::read(transaction)?;
    for Kept {
        id,
        names: of,
        json,
    } in decisions
    {
        let row = (of.iter().map(String::as_str).collect(), json.as_bytes());
        bytes.add(json.len());
        if let Some(old) = rows.insert(id, row).map_err(failed)? {
            bytes.take(old.value().1.len());
        }
        for name in of {
            names.insert((name.as_str(), *id), ()).map_err(failed)?;
        }
    }
    bytes.write(transaction)
}

fn one(transaction: &WriteTransaction, id: u128) -> Result<Option<String>, StoreError> {
    let rows = transaction.open_table(DECISIONS).map_err(failed)?;
    let row = rows.get(id).map_err(failed)?;
    row.map(|row| text(row.value().1)).transpose()
}

fn newest(
    transaction: &WriteTransaction,
    name: Option<&str>,
    most: usize,
) -> Result<Vec<String>, StoreError> {
    let rows = transaction.open_table(DECISIONS).map_err(failed)?;
    let Some(name) = name else {
        let newest = rows.iter().map_err(failed)?.rev().take(most);
        return newest
            .map(|row| text(row.map_err(failed)?.1.value().1))
            .collect();
    };
    let names = transaction.open_table(NAMES).map_err(failed)?;
    let of_name = names.range((name, 0)..=(name, u128::MAX)).map_err(failed)?;
    let mut found = Vec::new();
    for entry in of_name.rev().take(most) {
        let id = entry.map_err(failed)?.0.value().1;
        if let Some(row) = rows.get(id).map_err(failed)? {
            found.push(text(row.value().1)?);
        }
    }
    Ok(found)
}

fn prune(transaction: &WriteTransaction, bounds: Bounds) -> Result<usize, StoreError> {
    let mut rows = transaction.open_table(DECISIONS).map_err(failed)?;
    let mut names = transaction.open_table(NAMES).map_err(failed)?;
    let mut bytes = Bytes::read(transaction)?;
    // A UUIDv7 begins with 48 bits of milliseconds.
    let since = u128::from(bounds.since.as_millis()) << 80;
    let mut count = 0;
    while count < BATCH {
        let beyond = rows.len().map_err(failed)? > bounds.rows || bytes.0 > bounds.bytes;
        let Some((oldest, _)) = rows.first().map_err(failed)? else {
            break;
        };
        if !beyond && oldest.value() >= since {
            break;
        }
        drop(oldest);
        let Some((id, row)) = rows.pop_first().map_err(failed)? else {
            break;
        };
        let (of, json) = row.value();
        bytes.take(json.len());
        for name in of {
            names.remove((name, id.value())).map_err(failed)?;
        }
        count += 1;
    }
    bytes.write(transaction)?;
    Ok(count)
}

fn text(json: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(json.to_vec()).map_err(failed)
}

/// The bytes of JSON kept, counted along so that nobody has to add them up.
struct Bytes(u64);

impl Bytes {
    fn read(transaction: &WriteTransaction) -> Result<Self, StoreError> {
        let meta = transaction.open_table(META).map_err(failed)?;
        let found = meta.get(BYTES_KEY).map_err(failed)?;
        Ok(Self(found.map_or(0, |bytes| bytes.value())))
    }

    fn add(&mut self, count: usize) {
        self.0 = self
            .0
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }

    fn take(&mut self, count: usize) {
        self.0 = self
            .0
            .saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    }

    fn write(self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut meta = transaction.open_table(META).map_err(failed)?;
        meta.insert(BYTES_KEY, self.0).map_err(failed)?;
        Ok(())
    }
}
