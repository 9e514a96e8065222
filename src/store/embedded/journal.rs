//! What became of leases since the database's file was last made to last.
//!
//! A commit of that file writes nine pages all over it. A lease that changes is one
//! short write at the end of this file instead, and is on disk as surely; the next
//! commit that has to reach the disk takes it along into the database, many at a time.
//! ```text
//! change --> journal, synced --> answer
//!               | all of it, with the next commit that lasts
//!               v
//!            database
//! ```
//! Each row names the version that the database had set aside by its last lasting
//! commit. The commit that takes rows along sets aside another one, and by that, at
//! once, they count no more: they are in the database, or in here, never in neither.

use std::collections::BTreeMap;

use redb::{StorageBackend, WriteTransaction};

use super::failed;
use super::leases::LEASES;
use crate::placement::LeaseKey;
use crate::store::StoreError;

/// Bytes in here at most, besides those of the calls that are done together: all of
/// them are in memory as well, and claims wait while they are taken along, a few
/// milliseconds.
const MOST: u64 = 96 << 10;
/// The file grows by so many bytes at a time: a sync costs more where it grew.
const GROWTH: u64 = 64 << 10;

pub(super) struct Journal {
    disk: Box<dyn StorageBackend>,
    /// What the database has set aside, as far as that is on disk.
    aside: u64,
    /// How far the file is written, and how long it is.
    end: u64,
    length: u64,
    unwritten: Vec<u8>,
    rows: BTreeMap<LeaseKey, Row>,
}

/// A lease as it was written last.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) version: u64,
    /// Its record; empty where it was removed.
    pub(super) json: Vec<u8>,
}

impl Journal {
    /// What is in the file of a database that has set `aside` aside; `None`: it is
    /// new, and what is here was another's.
    pub(super) fn read(
        disk: Box<dyn StorageBackend>,
        aside: Option<u64>,
    ) -> Result<Self, StoreError> {
        let length = disk.len().map_err(failed)?;
        let mut journal = Self {
            disk,
            aside: aside.unwrap_or_default(),
            end: 0,
            length,
            unwritten: Vec::new(),
            rows: BTreeMap::new(),
        };
        if aside.is_some() {
            let mut bytes = vec![0; usize::try_from(length).map_err(failed)?];
            journal.disk.read(0, &mut bytes).map_err(failed)?;
            let mut rest = bytes.as_slice();
            while let Some((key, row, after)) = decode(rest, journal.aside) {
                journal.rows.insert(key, row);
                rest = after;
            }
        }
        if journal.rows.is_empty() {
            journal.empty()?;
        }
        Ok(journal)
    }

    pub(super) fn find(&self, key: &LeaseKey) -> Option<&Row> {
        self.rows.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it is time to take everything along.
    pub(super) fn is_full(&self) -> bool {
        self.end >= MOST
    }

    /// The highest version in here.
    pub(super) fn last(&self) -> u64 {
        let versions = self.rows.values().map(|row| row.version);
        versions.max().unwrap_or_default()
    }

    /// Takes a change in. It is on disk after the next [`Self::sync`].
    pub(super) fn note(&mut self, key: LeaseKey, row: Row) -> Result<(), StoreError> {
        encode(&mut self.unwritten, self.aside, &key, &row).map_err(failed)?;
        self.rows.insert(key, row);
        Ok(())
    }

    /// Returns once all that was noted is on disk.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let count = u64::try_from(self.unwritten.len()).map_err(failed)?;
        let end = self.end.saturating_add(count);
        if end > self.length {
            let length = end.next_multiple_of(GROWTH);
            self.disk.set_len(length).map_err(failed)?;
            self.length = length;
        }
        self.disk.write(self.end, &self.unwritten).map_err(failed)?;
        self.disk.sync_data().map_err(failed)?;
        self.end = end;
        self.unwritten.clear();
        Ok(())
    }

    /// Hands everything to a transaction, which must set aside another version and
    /// reach the disk; then [`Self::begin`].
    pub(super) fn move_into(&mut self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut leases = transaction.open_table(LEASES).map_err(failed)?;
        for (key, Row { version, json }) in std::mem::take(&mut self.rows) {
            if json.is_empty() {
                leases.remove(key.as_str()).map_err(failed)?;
            } else {
                let row = (version, json.as_slice());
                leases.insert(key.as_str(), row).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The database has set so many aside, on disk, and has all that was in here.
    pub(super) fn begin(&mut self, aside: u64) {
        self.aside = aside;
        self.end = 0;
    }

    /// Leaves nothing in the file.
    pub(super) fn empty(&mut self) -> Result<(), StoreError> {
        self.disk.set_len(0).map_err(failed)?;
        self.length = 0;
        self.disk.sync_data().map_err(failed)
    }
}

/// A row as it stands in the file: the sum of all that follows, three numbers and the
/// length of the record, then the key and the record.
fn encode(
    into: &mut Vec<u8>,
    aside: u64,
    key: &LeaseKey,
    row: &Row,
) -> Result<(), std::num::TryFromIntError> {
    let mut body = Vec::with_capacity(4 * 8 + key.as_str().len() + row.json.len());
    let lengths = [key.as_str().len(), row.json.len()].map(u64::try_from);
    let [key_length, json_length] = lengths;
    for number in [aside, row.version, key_length?, json_length?] {
        body.extend(number.to_le_bytes());
    }
    body.extend(key.as_str().as_bytes());
    body.extend(&row.json);
    into.extend(sum(&body).to_le_bytes());
    into.extend(body);
    Ok(())
}

/// The first row and what follows it; `None` where that is not whole, or older.
fn decode(bytes: &[u8], aside: u64) -> Option<(LeaseKey, Row, &[u8])> {
    let (stated, body) = number(bytes)?;
    let (of, rest) = number(body)?;
    let (version, rest) = number(rest)?;
    let (key_length, rest) = number(rest)?;
    let (json_length, rest) = number(rest)?;
    let (key, rest) = rest.split_at_checked(usize::try_from(key_length).ok()?)?;
    let (json, rest) = rest.split_at_checked(usize::try_from(json_length).ok()?)?;
    let (whole, _) = body.split_at_checked(body.len().checked_sub(rest.len())?)?;
    if of != aside || stated != sum(whole) {
        return None;
    }
    let key = LeaseKey::from_stored(std::str::from_utf8(key).ok()?.to_owned());
    let json = json.to_vec();
    Some((key, Row { version, json }, rest))
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

/// Tells a row that was written whole from one that a power cut tore: FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
