//! Keys that other replicas made, used and revoked, as the store tells of them.

use std::collections::HashSet;

use tracing::{info, warn};

use super::KeyId;
use super::keyring::Keyring;
use super::record::Record;
use crate::store::{Document, StoreError};

impl Keyring {
    /// Takes over what was written of keys, by whomever; `None`: removed.
    /// `whole`: what is not told of is stored no more.
    ///
    /// # Errors
    /// The store cannot be asked after keys that it told nothing of; they are
    /// good until it can.
    pub async fn follow(
        &self,
        told: Vec<(String, Option<Document>)>,
        whole: bool,
    ) -> Result<(), StoreError> {
        let known = self.inner.ring.load_full();
        let missing: Vec<_> = match whole {
            true => {
                let told: HashSet<_> = told.iter().map(|(id, _)| id.as_str()).collect();
                let ids = known.entries().map(|entry| &entry.id);
                let missing = ids.filter(|id| !told.contains(id.as_str()));
                missing.cloned().collect()
            }
            false => Vec::new(),
        };
        let (mut records, mut gone) = (Vec::new(), Vec::new());
        for (id, document) in told {
            let Some(id) = KeyId::read(&id) else {
                warn!(key = id, "A stored key cannot be read and is not accepted");
                continue;
            };
            match document {
                Some(document) => match Record::read(&document.text) {
                    Some(record) => records.push((id, record)),
                    None => warn!(key = %id, "A stored key cannot be read and is not accepted"),
                },
                None => gone.push(id),
            }
        }
        records.retain(|(id, record)| {
            let before = known.get(id.as_str()).map(|entry| &entry.record);
            let ended = record.revoked_at.is_some();
            if ended && before.is_some_and(|before| before.revoked_at.is_none()) {
                info!(key = %id, role = %record.role, "Key was revoked at another replica");
            }
            before != Some(record)
        });
        if !records.is_empty() {
            self.inner.publish(records);
        }
        for id in missing {
            // It may have been made while we were being told.
            if self.stored(&id).await?.is_none() {
                gone.push(id);
            }
        }
        if !gone.is_empty() {
            self.inner.ring.rcu(|ring| ring.without(&gone));
        }
        Ok(())
    }
}
