//! The numbers of writings. None is given out twice, not even for a key that was
//! removed and came back: an old reader must not mistake the new record for its own.

use redb::{ReadableTable, WriteTransaction};

use super::{META, failed};
use crate::store::StoreError;

const LAST_KEY: &str = "last-version";

/// Versions that are set aside at a time: one writing in so many has to keep count
/// on disk, and an opening of the file wastes as many at the most.
const AHEAD: u64 = 1024;

/// Counts on from what an earlier opening of the file set aside. Whoever makes a new
/// one after a failed commit loses nothing but numbers.
#[derive(Debug, Default)]
pub(super) struct Versions {
    last: u64,
    /// Up to here they are set aside, by this transaction at the latest.
    aside: u64,
}

impl Versions {
    /// The next one, of a transaction that may have to set more aside.
    pub(super) fn next(&mut self, transaction: &WriteTransaction) -> Result<u64, StoreError> {
        if self.left() == 0 {
            self.set_aside(transaction)?;
        }
        self.take().ok_or_else(|| failed("no version is left"))
    }

    /// The next one of those that are set aside.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.left() == 0 {
            return None;
        }
        self.last += 1;
        Some(self.last)
    }

    /// How many can be taken.
    pub(super) fn left(&self) -> u64 {
        self.aside.saturating_sub(self.last)
    }

    /// What is set aside, once the last transaction that did so was committed.
    pub(super) fn aside(&self) -> u64 {
        self.aside
    }

    /// This one was given out.
    pub(super) fn was_given(&mut self, version: u64) {
        self.last = self.last.max(version);
    }

    pub(super) fn set_aside(&mut self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let known = known(transaction)?;
        let mut meta = transaction.open_table(META).map_err(failed)?;
        self.was_given(known.unwrap_or_default());
        self.aside = self.last.saturating_add(AHEAD);
        meta.insert(LAST_KEY, self.aside).map_err(failed)?;
        Ok(())
    }
}

/// What the file says was set aside; `None`: nothing ever was.
pub(super) fn known(transaction: &WriteTransaction) -> Result<Option<u64>, StoreError> {
    let meta = transaction.open_table(META).map_err(failed)?;
    let known = meta.get(LAST_KEY).map_err(failed)?;
    Ok(known.map(|number| number.value()))
}
