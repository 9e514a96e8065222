//! The store that replicas share: a PostgreSQL database, by itself or behind a
//! pooler in transaction mode.
//!
//! Nothing here outlives a statement: no session's lock, no prepared statement
//! with a name, no setting. Every change is one statement that commits by
//! itself, conditional on the version that was read. Where the connection is
//! lost after one was sent, it is sent again under the same write id, and the
//! row tells whose it is.
//!
//! A claim is conditional on its host as well: the database refuses it where
//! another replica has claimed there, or given an order, which this one had not
//! heard of when it decided. What it hears of comes as of one snapshot, so that
//! to have heard of a host's version is to have heard of all that led to it.
//!
//! ```text
//! leases | documents | decisions | changes  one statement each
//!                 asking                    deadlines, repeats, what an error means
//!                 pool                      a link that is known to be good
//!                 dial                      TCP, TLS, login, takes writes
//! ```

mod arrivals;
mod asking;
mod carried;
mod changes;
mod decisions;
mod dial;
mod documents;
mod error;
mod leases;
mod offset;
mod pool;
mod schema;
#[cfg(test)]
mod staged;

use uuid::Uuid;

use crate::clock::Clock;
use crate::config::PostgresSettings;
use crate::placement::{LeaseKey, LeaseRecord};
use crate::tls::Connector;

use super::{
    Answer, Archive, Bounds, Changed, Changes, Connections, Document, Documents, Edit, Edited,
    Footing, Kept, Kind, Losses, Mark, Replaced, Store, StoreError, Version, Versioned,
};
use asking::Asking;
use offset::Offset;

/// Leases, documents and decisions in a database that others write to as well.
/// Cheap to call from any task.
#[derive(Debug)]
pub struct Postgres {
    asking: Asking,
    /// How far the database's clock is ahead of ours. Leases are dated by its
    /// clock in the database, and by ours where they are used.
    offset: Offset,
    /// Who writes: nobody else, in any life.
    replica: Uuid,
}

impl Postgres {
    /// Connects, and brings the database's schema up to date. `tls` is what its
    /// certificate is judged by; `None`: it speaks plain text.
    ///
    /// # Errors
    /// The database cannot be used, or a newer release has changed its schema.
    pub async fn open(
        settings: &PostgresSettings,
        tls: Option<Connector>,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let asking = Asking::new(settings.clone(), tls, clock)?;
        schema::bring_up_to_date(&asking).await?;
        let store = Self {
            asking,
            offset: Offset::default(),
            replica: Uuid::new_v4(),
        };
        store.read_clock().await?;
        Ok(store)
    }
}

impl Store for Postgres {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned> {
        Box::pin(self.read_lease(key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced> {
        Box::pin(self.replace_lease(key, expected, record, footing))
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>> {
        Box::pin(self.leases_after(key, most))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn losses(&self) -> Losses {
        self.asking.losses().clone()
    }

    fn connections(&self) -> Option<Connections> {
        Some(self.asking.connections())
    }
}

impl Changes for Postgres {
    fn changes(&self, since: Mark) -> Answer<'_, Changed> {
        Box::pin(self.read_changes(since))
    }
}

impl Documents for Postgres {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        Box::pin(self.documents_of(kind))
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        Box::pin(self.read_document(kind, id))
    }

    fn edit(&self, edits: Vec<Edit>, _sync: bool) -> Answer<'_, Edited> {
        Box::pin(self.edit_documents(edits))
    }
}

impl Archive for Postgres {
    fn keep(&self, decisions: Vec<Kept>, _sync: bool) -> Answer<'_, ()> {
        Box::pin(self.keep_decisions(decisions))
    }

    fn decision(&self, id: u128) -> Answer<'_, Option<String>> {
        Box::pin(self.read_decision(id))
    }

    fn decisions<'a>(&'a self, name: Option<&'a str>, most: usize) -> Answer<'a, Vec<String>> {
        Box::pin(self.newest_decisions(name, most))
    }

    fn prune(&self, bounds: Bounds) -> Answer<'_, usize> {
        Box::pin(self.prune_decisions(bounds))
    }
}
