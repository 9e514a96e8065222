//! Lease records as they are written: by whoever was first, and told to the
//! fleet.

use std::fmt;

use super::Leases;
use crate::placement::{LeaseKey, LeaseRecord};
use crate::store::{Replaced, Standing, StoreError, Version, Versioned};

impl Leases {
    pub(super) async fn write(
        &self,
        key: &LeaseKey,
        expected: Version,
        record: LeaseRecord,
        standing: Option<Standing>,
    ) -> Result<Replaced, StoreError> {
        let written = record.clone();
        let replaced = self.store.replace(key, expected, written, standing);
        let replaced = replaced.await?;
        if let Replaced::Done(version) = replaced {
            let known = Versioned { version, record };
            self.fleet.note_leases(key, &known, self.clock.now());
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
        loop {
            let known = self.store.read(key).await?;
            let mut record = known.record.clone();
            let wanted = change(&mut record);
            if !wanted || record == known.record {
                return Ok(wanted);
            }
            let written = self.write(key, known.version, record, None).await?;
            if written.is_done() {
                return Ok(true);
            }
        }
    }

    /// Takes over what an earlier life of this process left behind. In a store
    /// that others write to, a tunnel may be open at another replica: there what
    /// a replica left behind runs out, unrenewed.
    pub(super) async fn adopt(&self) -> Result<(), StoreError> {
        for (key, known) in self.store.all().await? {
            let now = self.clock.now();
            let mut record = known.record.clone();
            if !self.store.is_shared() {
                record.orphan(now);
            }
            if record == known.record {
                self.fleet.note_leases(&key, &known, now);
            } else {
                self.write(&key, known.version, record, None).await?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}
