//! The default store: one redb file and a journal beside it, nothing to install.
//!
//! One thread owns both. It takes whatever calls have queued up, does them
//! together and answers once they are on disk, so a burst of logons costs one
//! sync and not one each. The files belong to one process; a second one is told
//! so.

mod decisions;
mod documents;
mod feed;
mod file;
mod journal;
mod leases;
mod versions;
mod worker;

use std::path::Path;
use std::thread;

#[cfg(test)]
use redb::Database;
use redb::TableDefinition;
use tokio::sync::{mpsc, oneshot};

use super::{
    Answer, Archive, Bounds, Changed, Changes, Document, Documents, Edit, Edited, Footing, Kept,
    Kind, Mark, Replaced, Store, StoreError, Version, Versioned,
};
use crate::placement::{LeaseKey, LeaseRecord};
use worker::{Commit, Files, Opened, Pending, later, work};

/// Names to numbers: the schema, and the last version given out.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const SCHEMA: u64 = 1;
const SCHEMA_KEY: &str = "schema";

/// Calls that may wait; more wait with their caller, within its deadline.
const QUEUE: usize = 1024;
/// A lease store in one file. Cheap to call from any task.
#[derive(Debug)]
pub struct Embedded {
    // INVARIANT: `Some` until dropped.
    calls: Option<mpsc::Sender<Call>>,
    worker: Option<thread::JoinHandle<()>>,
}

enum Call {
    Leases(leases::Call),
    Archive(decisions::Call),
    Documents(documents::Call),
    /// At most so many records whose keys come after this one.
    After {
        key: Option<LeaseKey>,
        most: usize,
        answer: Reply<Vec<(LeaseKey, Versioned)>>,
    },
    /// What was written since.
    Changes {
        since: Mark,
        answer: Reply<Changed>,
    },
}

/// One of the processes that write to one file through its owner; the owner is 0.
pub(super) type Writer = u64;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl Call {
    fn needs(&self) -> Commit {
        match self {
            Self::Leases(call) => call.needs(),
            Self::Archive(call) => call.needs(),
            Self::Documents(call) => call.needs(),
            Self::After { .. } | Self::Changes { .. } => Commit::Nothing,
        }
    }

    /// Whether it has to have all leases in one place.
    fn looks_through_leases(&self) -> bool {
        matches!(self, Self::After { .. } | Self::Changes { .. })
    }
}

impl Embedded {
    /// Opens the file, making it and its folder where they are missing.
    ///
    /// # Errors
    /// The file is in use, cannot be opened, or is of a newer schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| file::cannot_open(path, e))?;
        }
        let path = path.to_owned();
        Self::with(move || file::guarded(&path, || file::open(&path).and_then(Opened::of)))
    }

    /// A store on whatever `open` opens; it is asked again after a failure.
    fn with(
        open: impl Fn() -> Result<Opened, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let opened = open()?;
        let (calls, queue) = mpsc::channel(QUEUE);
        let worker = thread::Builder::new().name("store".to_owned());
        let worker = worker.spawn(move || work(opened, &open, queue));
        Ok(Self {
            calls: Some(calls),
            worker: Some(worker.map_err(failed)?),
        })
    }

    async fn call<T>(&self, make: impl FnOnce(Reply<T>) -> Call) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let calls = self.calls.as_ref().ok_or(StoreError::Closed)?;
        let sent = calls.send(make(answer)).await;
        sent.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

/// Waits until the file is closed, so that whoever comes next can open it. By
/// then nobody is left to call, so the wait is for one commit at the most.
impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.calls.take());
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has closed the file as well.
            let _ = worker.join();
        }
    }
}

impl Store for Embedded {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned> {
        let key = key.clone();
        Box::pin(self.call(|answer| Call::Leases(leases::Call::Read { key, answer })))
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced> {
        Box::pin(self.replace_as(0, key.clone(), expected, (record, footing)))
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>> {
        let key = key.cloned();
        Box::pin(self.call(move |answer| Call::After { key, most, answer }))
    }
}

impl Changes for Embedded {
    fn changes(&self, since: Mark) -> Answer<'_, Changed> {
        Box::pin(self.call(move |answer| Call::Changes { since, answer }))
    }
}

impl Archive for Embedded {
    fn keep(&self, decisions: Vec<Kept>, sync: bool) -> Answer<'_, ()> {
        Box::pin(self.call(move |answer| {
            Call::Archive(decisions::Call::Keep {
                decisions,
                sync,
                answer,
            })
        }))
    }

    fn decision(&self, id: u128) -> Answer<'_, Option<String>> {
        Box::pin(self.call(move |answer| Call::Archive(decisions::Call::One { id, answer })))
    }

    fn decisions<'a>(&'a self, name: Option<&'a str>, most: usize) -> Answer<'a, Vec<String>> {
        let name = name.map(str::to_owned);
        Box::pin(
            self.call(move |answer| Call::Archive(decisions::Call::Newest { name, most, answer })),
        )
    }

    fn prune(&self, bounds: Bounds) -> Answer<'_, usize> {
        Box::pin(self.call(move |answer| Call::Archive(decisions::Call::Prune { bounds, answer })))
    }
}

impl Documents for Embedded {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        Box::pin(self.call(move |answer| Call::Documents(documents::Call::All { kind, answer })))
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        let id = id.to_owned();
        Box::pin(
            self.call(move |answer| Call::Documents(documents::Call::One { kind, id, answer })),
        )
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> Answer<'_, Edited> {
        Box::pin(self.edit_as(0, edits, sync))
    }
}

/// What one of several writers writes.
impl Embedded {
    pub(super) async fn replace_as(
        &self,
        writer: Writer,
        key: LeaseKey,
        expected: Version,
        (record, footing): (LeaseRecord, Option<Footing>),
    ) -> Result<Replaced, StoreError> {
        self.call(move |answer| {
            Call::Leases(leases::Call::Replace {
                key,
                expected,
                record,
                footing: footing.map(|footing| (footing, writer)),
                answer,
            })
        })
        .await
    }

    pub(super) async fn edit_as(
        &self,
        writer: Writer,
        edits: Vec<Edit>,
        sync: bool,
    ) -> Result<Edited, StoreError> {
        self.call(move |answer| {
            Call::Documents(documents::Call::Edit {
                edits,
                sync,
                writer,
                answer,
            })
        })
        .await
    }
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Failed {
        reason: error.to_string(),
    }
}

/// Writes a file as a release with this schema would have left it.
#[cfg(test)]
pub(super) fn write_schema(path: &Path, schema: u64) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut meta = transaction.open_table(META).unwrap();
    meta.insert(SCHEMA_KEY, schema).unwrap();
    drop(meta);
    transaction.commit().unwrap();
}

/// Changes a file as a release that knows of no journal would have.
#[cfg(test)]
pub(super) fn set_another_version_aside(path: &Path) {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut versions = versions::Versions::default();
    versions.set_aside(&transaction).unwrap();
    transaction.commit().unwrap();
}

#[cfg(test)]
pub(super) use file::beside;

#[cfg(test)]
pub(crate) mod counted;

/// A store whose disk can be made to fail and to come back.
#[cfg(test)]
pub(super) fn on_a_disk_that_fails() -> (Embedded, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    let full = std::sync::Arc::default();
    (on_disks_that_fail(&full, &full), full)
}

/// The same with a disk each for the database and the journal.
#[cfg(test)]
pub(super) fn on_disks_that_fail(
    database: &std::sync::Arc<std::sync::atomic::AtomicBool>,
    journal: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Embedded {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug, Clone)]
    struct Disk {
        inner: Arc<redb::backends::InMemoryBackend>,
        full: Arc<AtomicBool>,
    }

    impl Disk {
        fn check(&self) -> io::Result<()> {
            match self.full.load(Ordering::SeqCst) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        }
    }

    impl redb::StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.inner.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.inner.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.check()?;
            self.inner.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.check()?;
            self.inner.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.check()?;
            self.inner.write(offset, data)
        }
    }

    let disk = |full| Disk {
        inner: Arc::default(),
        full: Arc::clone(full),
    };
    let (database, journal) = (disk(database), disk(journal));
    Embedded::with(move || opened_in_memory(database.clone(), journal.clone())).unwrap()
}

/// What is on such disks, opened as files are.
#[cfg(test)]
fn opened_in_memory(
    database: impl redb::StorageBackend,
    journal: impl redb::StorageBackend,
) -> Result<Opened, StoreError> {
    let database = Database::builder().create_with_backend(database);
    let database = database.map_err(failed)?;
    file::check_schema(&database, Path::new("memory"))?;
    let journal = Box::new(journal);
    Opened::of(Files { database, journal })
}
