//! Writes down when an agent's key was used for the first time, from which its
//! older one's grace is counted, so that a restart does not begin it anew.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use super::change::edit;
use super::keyring::Inner;
use super::record::Record;
use crate::store::{Edited, Kind, StoreError};

/// After a store that failed.
const PAUSE: Duration = Duration::from_secs(10);

/// The task that does it.
pub struct Uses {
    inner: Arc<Inner>,
}

impl Uses {
    pub(super) fn of(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let mut said = false;
        loop {
            self.inner.fresh.notified().await;
            while let Err(error) = self.write().await {
                if !said {
                    warn!(%error, "The first use of a key cannot be stored: its older one may be good for longer");
                    said = true;
                }
                sleep(PAUSE).await;
            }
            said = false;
        }
    }

    pub(super) async fn write(&self) -> Result<(), StoreError> {
        let _writing = self.inner.writing.lock().await;
        let ring = self.inner.ring.load_full();
        for entry in ring.entries().filter(|entry| entry.is_fresh()) {
            let id = &entry.id;
            let document = self.inner.store.document(Kind::Key, id.as_str()).await?;
            let Some(document) = document else { continue };
            let Some(mut record) = Record::read(&document.text) else {
                continue;
            };
            record.used_at = record.used_at.or(entry.first_used());
            let edits = vec![edit(id, document.version, &record)];
            match self.inner.store.edit(edits, true).await? {
                Edited::Done => self.inner.publish([(id.clone(), record)]),
                // Somebody wrote in between: it is done at the next use of any.
                Edited::Conflict => self.inner.fresh.notify_one(),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uses").finish_non_exhaustive()
    }
}
