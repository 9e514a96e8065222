//! Lease records as they are written: by whoever was first, and told to the
//! fleet.

use std::fmt;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::Leases;
use crate::placement::{LeaseKey, LeaseRecord, Timestamp};
use crate::store::{Footing, Replaced, StoreError, Version, Versioned};

/// Records that are read at a time where all are.
const PAGE: usize = 1_024;

/// Records that are changed at a time where many are: the embedded store writes
/// those together.
const AT_ONCE: usize = 256;

/// The same where the store has few connections, which those who log on wait for.
const AT_ONCE_AFAR: usize = 2;

impl Leases {
    /// The record of a key as it is in the store.
    pub(super) async fn read(&self, key: &LeaseKey) -> Result<Versioned, StoreError> {
        let cache = &self.cache;
        let before = cache.before(key, self.gate.losses());
        let found = self.store.read(key).await?;
        Ok(cache.read(key, before, found, self.clock.now()))
    }

    /// What is known of a key's record since the store was lost last: enough to
    /// claim by, and not to refuse by. `None` where the store has to be asked. Who
    /// was never here has none, as far as we know; a claim by that is not written
    /// where it is wrong.
    pub(super) fn known(&self, key: &LeaseKey) -> Option<Versioned> {
        let known = self.cache.current(key, self.gate.losses());
        known.or_else(|| {
            let is_new = || self.fleet.snapshot().people.is_new(&key.user());
            (!self.store.is_far() && is_new()).then(Versioned::default)
        })
    }

    /// To be told of every record that others wrote, as it is heard of: by
    /// whoever follows what changes in the store. One that was removed is empty,
    /// and has the version of its removal. What is older than what is known
    /// changes nothing.
    pub(super) fn heard(&self, key: &LeaseKey, record: Versioned) {
        let now = self.clock.now();
        self.cache.heard(key, self.gate.losses(), record, now);
    }

    pub(super) async fn write(
        &self,
        key: &LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Result<Replaced, StoreError> {
        let losses = self.gate.losses();
        let written = record.clone();
        let replaced = self.store.replace(key, expected, written, footing);
        let replaced = replaced.await?;
        if let Replaced::Done(version) = replaced {
            let known = Versioned { version, record };
            let now = self.clock.now();
            self.fleet.note_leases(key, &known, now);
            self.cache.heard(key, losses, known, now);
        }
        Ok(replaced)
    }

    /// Changes a record, as often as it takes to be the one who did.
    pub(super) async fn update(
        &self,
        key: &LeaseKey,
        change: impl Fn(&mut LeaseRecord),
    ) -> Result<(), StoreError> {
        let changed = self.update_if(key, |record| {
            change(record);
            true
        });
        changed.await.map(|_| ())
    }

    /// The same where `change` says that it is to be written; returns that.
    pub(super) async fn update_if(
        &self,
        key: &LeaseKey,
        change: impl Fn(&mut LeaseRecord) -> bool,
    ) -> Result<bool, StoreError> {
        let mut cached = self.known(key).filter(|known| !known.record.is_empty());
        loop {
            let is_cached = cached.is_some();
            let known = match cached.take() {
                Some(known) => known,
                None => self.read(key).await?,
            };
            let mut record = known.record.clone();
            let wanted = change(&mut record);
            if !wanted || record == known.record {
                // Nothing is left undone by what may have changed.
                match is_cached {
                    true => continue,
                    false => return Ok(wanted),
                }
            }
            match self.write(key, known.version, record, None).await {
                Ok(replaced) if replaced.is_done() => return Ok(true),
                // What became of it the next look tells.
                Ok(_) | Err(StoreError::InDoubt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The same of many records, of which the store writes those together that
    /// come together.
    pub(super) async fn update_all(
        &self,
        keys: impl IntoIterator<Item = LeaseKey>,
        change: impl Fn(&mut LeaseRecord),
    ) -> Result<(), StoreError> {
        let changes = stream::iter(keys).map(|key| {
            let change = &change;
            async move { self.update(&key, change).await }
        });
        changes
            .buffer_unordered(self.at_once())
            .fold(Ok(()), async |before, changed| before.and(changed))
            .await
    }

    /// Takes over what an earlier life of this process left behind. In a store
    /// that others write to, a tunnel may be open at another replica: there what
    /// a replica left behind runs out, unrenewed.
    pub(super) async fn adopt(&self) -> Result<(), StoreError> {
        let mut pages = self.pages();
        while let Some(page) = pages.next(self).await? {
            let now = self.clock.now();
            let (mut stays, mut left_behind) = (Vec::new(), Vec::new());
            for (key, known) in page {
                match self.orphaned(&known.record, now) {
                    Some(record) => left_behind.push((key, known.version, record)),
                    None => stays.push((key, known)),
                }
            }
            self.fleet.note_stored_leases(&stays, now);
            for (key, known) in stays {
                self.heard(&key, known);
            }
            stream::iter(left_behind)
                .map(async |(key, version, record)| self.write(&key, version, record, None).await)
                .buffer_unordered(self.at_once())
                .try_for_each(async |_| Ok(()))
                .await?;
        }
        Ok(())
    }

    /// A record as it is to be once the tunnels that wrote it are gone; `None`
    /// where it stays as it is.
    fn orphaned(&self, found: &LeaseRecord, now: Timestamp) -> Option<LeaseRecord> {
        if self.store.is_shared() {
            return None;
        }
        changed(found, |record| record.orphan(now))
    }

    fn at_once(&self) -> usize {
        match self.store.is_far() {
            true => AT_ONCE_AFAR,
            false => AT_ONCE,
        }
    }

    /// All that is stored, a page after the other.
    pub(super) fn pages(&self) -> Pages {
        Pages { last: None }
    }
}

/// A record as a change leaves it; `None` where that is as it was.
pub(super) fn changed(
    found: &LeaseRecord,
    change: impl FnOnce(&mut LeaseRecord),
) -> Option<LeaseRecord> {
    let mut record = found.clone();
    change(&mut record);
    (record != *found).then_some(record)
}

/// How far somebody has read all records. One that is written meanwhile may be
/// among them or not.
pub(super) struct Pages {
    last: Option<LeaseKey>,
}

impl Pages {
    /// The next records in key order; `None` where there are no more.
    pub(super) async fn next(
        &mut self,
        of: &Leases,
    ) -> Result<Option<Vec<(LeaseKey, Versioned)>>, StoreError> {
        let page = of.store.after(self.last.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(None);
        };
        self.last = Some(last.clone());
        Ok(Some(page))
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}
