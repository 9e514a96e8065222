//! The laws of keys, over the real store.

mod changes;
mod enrollment;
mod laws;
mod requests;
mod rotation;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::{CreateRequest, Created, Keyring, Rejected, Role, State, Uses};
use crate::clock::Clock;
use crate::config::{Secrets, load_text};
use crate::placement::{Actor, Directory, HostId};
use crate::store::{Answer, Document, Documents, Edit, Edited, Embedded, Kind, StoreError};

const ADMIN: Actor = Actor::User {
    uid: Some(0),
    name: None,
};

/// A store that can be made to fail.
struct Disk {
    store: Embedded,
    broken: AtomicBool,
}

impl Disk {
    fn broken<T: Send + 'static>(&self) -> Option<Answer<'_, T>> {
        self.broken.load(Ordering::Relaxed).then(|| {
            let reason = "out of order".to_owned();
            let answer: Answer<'_, T> = Box::pin(async { Err(StoreError::Failed { reason }) });
            answer
        })
    }
}

impl Documents for Disk {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        self.broken().unwrap_or_else(|| self.store.documents(kind))
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        self.broken()
            .unwrap_or_else(|| self.store.document(kind, id))
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> Answer<'_, Edited> {
        self.broken()
            .unwrap_or_else(|| self.store.edit(edits, sync))
    }
}

/// A keyring over a store of its own.
struct Room {
    _folder: TempDir,
    disk: Arc<Disk>,
    clock: Clock,
    keyring: Keyring,
    uses: Uses,
    directory: Arc<Directory>,
}

impl Room {
    async fn new() -> Self {
        Self::with(Secrets::default()).await
    }

    async fn with(secrets: Secrets) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("store.redb")).unwrap();
        let disk = Arc::new(Disk {
            store,
            broken: AtomicBool::new(false),
        });
        let clock = Clock::start();
        let (keyring, uses) = Keyring::open(disk.clone(), &secrets, None, clock)
            .await
            .unwrap();
        let text = "[[hosts]]\nid = \"rds1\"\naddress = \"10.0.0.1\"\n";
        let directory = load_text("a.toml", text).unwrap().config.directory;
        Self {
            _folder: folder,
            disk,
            clock,
            keyring,
            uses,
            directory,
        }
    }

    /// Another keyring over the same store: a restart, or a second replica.
    async fn again(&self) -> Keyring {
        self.again_with(&Secrets::default()).await
    }

    async fn again_with(&self, secrets: &Secrets) -> Keyring {
        let opened = Keyring::open(self.disk.clone(), secrets, None, self.clock).await;
        opened.unwrap().0
    }

    fn breaks(&self, broken: bool) {
        self.disk.broken.store(broken, Ordering::Relaxed);
    }

    async fn create(&self, role: &str, host: Option<&str>) -> Created {
        let request = CreateRequest {
            host: host.map(str::to_owned),
            ..wanted(role)
        };
        self.keyring
            .create(request, ADMIN, &self.directory)
            .await
            .unwrap()
    }

    async fn agent(&self) -> Created {
        self.create("agent", Some("rds1")).await
    }

    async fn token(&self) -> Created {
        self.create("enrollment", Some("rds1")).await
    }

    fn accepts(&self, created: &Created) -> bool {
        accepts(&self.keyring, created)
    }

    fn state(&self, created: &Created) -> State {
        let listed = self.keyring.list();
        listed
            .iter()
            .find(|key| key.id == created.id)
            .unwrap()
            .state
    }
}

fn wanted(role: &str) -> CreateRequest {
    CreateRequest {
        role: role.to_owned(),
        ..CreateRequest::default()
    }
}

fn accepts(keyring: &Keyring, created: &Created) -> bool {
    match keyring.verify(created.key.expose()) {
        Ok(identity) => {
            assert_eq!(
                (&identity.key, &identity.role),
                (&created.id, &created.role)
            );
            true
        }
        Err(Rejected) => false,
    }
}

fn rds1() -> HostId {
    HostId::from("rds1")
}

async fn after(span: Duration) {
    tokio::time::advance(span).await;
}

/// For what is expected to happen, by the real clock.
const PATIENCE: Duration = Duration::from_secs(25);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
