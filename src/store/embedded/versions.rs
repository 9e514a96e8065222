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
    pub(super) fn next(&mut self, transaction: &WriteTransaction) -> Result<u64, StoreError> {
        if self.last >= self.aside {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            let known = meta.get(LAST_KEY).map_err(failed)?;
            self.last = known.map_or(0, |number| number.value());
            self.aside = self.last.saturating_add(AHEAD);
            meta.insert(LAST_KEY, self.aside).map_err(failed)?;
        }
        self.last += 1;
        Ok(self.last)
    }
}
