//! The store that the configuration names.

use std::path::Path;

use super::{
    Answer, Archive, Bounds, Changed, Changes, Connections, Document, Documents, Edit, Edited,
    Footing, Kept, Kind, Losses, Mark, Movable, Postgres, Replaced, Store, StoreError, Version,
    Versioned,
};
use crate::clock::Clock;
use crate::config::{StoreKind, StoreSettings};
use crate::placement::{LeaseKey, LeaseRecord};
use crate::tls::Connector;

/// One of the stores there are.
#[derive(Debug)]
pub enum Opened {
    /// A file that one process has at a time.
    Embedded(Movable),
    /// A database that replicas share.
    Postgres(Postgres),
}

/// Opens it. `tls` is what the certificate of a database is judged by.
///
/// # Errors
/// It cannot be opened, or is of a newer release.
pub async fn open(
    settings: &StoreSettings,
    tls: Option<Connector>,
    clock: Clock,
) -> Result<Opened, StoreError> {
    match settings.kind {
        StoreKind::Embedded => Movable::open(&settings.path).map(Opened::Embedded),
        StoreKind::Postgres => {
            // The admin socket is beside the embedded store's file, used or not.
            if let Some(folder) = settings
                .path
                .parent()
                .filter(|folder| *folder != Path::new(""))
            {
                let _ = std::fs::create_dir_all(folder);
            }
            let opened = Postgres::open(&settings.postgres, tls, clock).await;
            opened.map(Opened::Postgres)
        }
    }
}

impl Opened {
    /// The embedded store, for whoever hands it to another process.
    pub fn movable(&self) -> Option<Movable> {
        match self {
            Self::Embedded(store) => Some(store.clone()),
            Self::Postgres(_) => None,
        }
    }
}

/// Hands the call to the store it is.
macro_rules! whichever {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Opened::Embedded($store) => $call,
            Opened::Postgres($store) => $call,
        }
    };
}

impl Store for Opened {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned> {
        whichever!(self, store => store.read(key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced> {
        whichever!(self, store => store.replace(key, expected, record, footing))
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>> {
        whichever!(self, store => store.after(key, most))
    }

    fn is_shared(&self) -> bool {
        whichever!(self, store => store.is_shared())
    }

    fn is_far(&self) -> bool {
        whichever!(self, store => store.is_far())
    }

    fn losses(&self) -> Losses {
        whichever!(self, store => store.losses())
    }

    fn connections(&self) -> Option<Connections> {
        whichever!(self, store => store.connections())
    }
}

impl Changes for Opened {
    fn changes(&self, since: Mark) -> Answer<'_, Changed> {
        whichever!(self, store => store.changes(since))
    }
}

impl Archive for Opened {
    fn keep(&self, decisions: Vec<Kept>, sync: bool) -> Answer<'_, ()> {
        whichever!(self, store => store.keep(decisions, sync))
    }

    fn decision(&self, id: u128) -> Answer<'_, Option<String>> {
        whichever!(self, store => store.decision(id))
    }

    fn decisions<'a>(&'a self, name: Option<&'a str>, most: usize) -> Answer<'a, Vec<String>> {
        whichever!(self, store => store.decisions(name, most))
    }

    fn prune(&self, bounds: Bounds) -> Answer<'_, usize> {
        whichever!(self, store => store.prune(bounds))
    }
}

impl Documents for Opened {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        whichever!(self, store => store.documents(kind))
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        whichever!(self, store => store.document(kind, id))
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> Answer<'_, Edited> {
        whichever!(self, store => store.edit(edits, sync))
    }
}
