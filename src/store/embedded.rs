//! The default store: one redb file, nothing to install.
//!
//! One thread owns the database. It takes whatever calls have queued up, does
//! them in one transaction and answers after the commit, so a burst of logons
//! costs one sync to disk and not one each. The file belongs to one process; a
//! second one is told so.

use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;

use redb::backends::FileBackend;
use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::{Answer, Replaced, Store, StoreError, Version, Versioned};
use crate::placement::{LeaseKey, LeaseRecord};

/// Key text to version and record as JSON.
const LEASES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("leases");
/// Names to numbers: the schema, and the last version given out.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const SCHEMA: u64 = 1;
const SCHEMA_KEY: &str = "schema";
const VERSION_KEY: &str = "last-version";

/// Calls that may wait; more wait with their caller, within its deadline.
const QUEUE: usize = 1024;
/// Calls done in one transaction at most.
const BATCH: usize = 256;

/// A lease store in one file. Cheap to call from any task.
#[derive(Debug)]
pub struct Embedded {
    // INVARIANT: `Some` until dropped.
    calls: Option<mpsc::Sender<Call>>,
    worker: Option<thread::JoinHandle<()>>,
}

enum Call {
    Read {
        key: LeaseKey,
        answer: Reply<Versioned>,
    },
    Replace {
        key: LeaseKey,
        expected: Version,
        record: LeaseRecord,
        answer: Reply<Replaced>,
    },
    All {
        answer: Reply<Vec<(LeaseKey, Versioned)>>,
    },
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// An answer that waits for the commit.
type Pending = Box<dyn FnOnce(Result<(), StoreError>)>;

impl Embedded {
    /// Opens the file, making it and its folder where they are missing.
    ///
    /// # Errors
    /// The file is in use, cannot be opened, or is of a newer schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| cannot_open(path, e))?;
        }
        let path = path.to_owned();
        Self::with(move || guarded(&path, || open_file(&path)))
    }

    /// A store on whatever `open` opens; it is asked again after a failure.
    fn with(
        open: impl Fn() -> Result<Database, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let database = open()?;
        let (calls, queue) = mpsc::channel(QUEUE);
        let worker = thread::Builder::new().name("store".to_owned());
        let worker = worker.spawn(move || work(database, &open, queue));
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
        Box::pin(self.call(|answer| Call::Read { key, answer }))
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
    ) -> Answer<'a, Replaced> {
        let key = key.clone();
        Box::pin(self.call(move |answer| Call::Replace {
            key,
            expected,
            record,
            answer,
        }))
    }

    fn all(&self) -> Answer<'_, Vec<(LeaseKey, Versioned)>> {
        Box::pin(self.call(|answer| Call::All { answer }))
    }
}

/// Opens the file, readable by its owner alone: it says who works where.
fn open_file(path: &Path) -> Result<Database, StoreError> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| cannot_open(path, error))?;
    let file = FileBackend::new(file);
    let database = file.and_then(|file| Database::builder().create_with_backend(file));
    let database = database.map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => StoreError::InUse {
            path: path.to_owned(),
        },
        other => cannot_open(path, other),
    })?;
    check_schema(&database, path)?;
    // A page that is damaged is found now, not by the first user.
    let transaction = database.begin_write().map_err(failed)?;
    all(&transaction)?;
    transaction.abort().map_err(failed)?;
    Ok(database)
}

/// The database panics on some kinds of damage; that is a file's fault, not
/// the end of the process.
fn guarded<T>(path: &Path, open: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
        Err(cannot_open(
            path,
            "it is damaged; move it away to start without leases, which users only notice \
             as a fresh choice of host",
        ))
    })
}

fn cannot_open(path: &Path, reason: impl std::fmt::Display) -> StoreError {
    StoreError::Open {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn check_schema(database: &Database, path: &Path) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(failed)?;
    let found = {
        transaction.open_table(LEASES).map_err(failed)?;
        let mut meta = transaction.open_table(META).map_err(failed)?;
        let found = meta.get(SCHEMA_KEY).map_err(failed)?.map(|n| n.value());
        if found.is_none() {
            meta.insert(SCHEMA_KEY, SCHEMA).map_err(failed)?;
        }
        found.unwrap_or(SCHEMA)
    };
    if found > SCHEMA {
        return Err(StoreError::Newer {
            path: PathBuf::from(path),
            found,
            known: SCHEMA,
        });
    }
    transaction.commit().map_err(failed)
}

/// The store's thread: ends when the last [`Embedded`] is dropped.
///
/// A database that failed once (a full disk, say) refuses everything from then
/// on, so it is closed and opened again before the next calls are done.
fn work(
    database: Database,
    open: &dyn Fn() -> Result<Database, StoreError>,
    mut queue: mpsc::Receiver<Call>,
) {
    let mut database = Some(database);
    let mut calls = Vec::with_capacity(BATCH);
    while queue.blocking_recv_many(&mut calls, BATCH) > 0 {
        let mut pending: Vec<Pending> = Vec::with_capacity(calls.len());
        let opened = match database.take() {
            Some(database) => Ok(database),
            None => open(),
        };
        let done = match opened {
            Ok(opened) => {
                let calls = calls.drain(..);
                let work = AssertUnwindSafe(|| transact(&opened, calls, &mut pending));
                let panicked = |_| Err(failed("the database panicked"));
                let done = catch_unwind(work).unwrap_or_else(panicked);
                database = done.is_ok().then_some(opened);
                done
            }
            Err(error) => {
                calls.drain(..).for_each(|call| refuse(call, error.clone()));
                Err(error)
            }
        };
        for answer in pending {
            answer(done.clone());
        }
    }
}

/// Does the calls in one transaction. Answers wait in `pending` until it is
/// known whether the commit held; a call that fails by itself fails them all,
/// since the file is then not to be trusted.
fn transact(
    database: &Database,
    calls: impl Iterator<Item = Call>,
    pending: &mut Vec<Pending>,
) -> Result<(), StoreError> {
    let mut begun = database.begin_write().map_err(failed);
    let mut writes = false;
    for call in calls {
        writes |= matches!(call, Call::Replace { .. });
        let done = match &begun {
            Ok(transaction) => apply(transaction, call, pending),
            Err(error) => {
                refuse(call, error.clone());
                continue;
            }
        };
        if let Err(error) = done {
            begun = Err(error);
        }
    }
    let transaction = begun?;
    if writes {
        transaction.commit().map_err(failed)
    } else {
        // Nothing to keep, so nothing to wait for the disk for.
        transaction.abort().map_err(failed)
    }
}

fn apply(
    transaction: &WriteTransaction,
    call: Call,
    pending: &mut Vec<Pending>,
) -> Result<(), StoreError> {
    match call {
        Call::Read { key, answer } => {
            let leases = transaction.open_table(LEASES).map_err(failed);
            let found = leases.and_then(|leases| read(&leases, key.as_str()));
            later(found, answer, pending)
        }
        Call::Replace {
            key,
            expected,
            record,
            answer,
        } => {
            let done = replace(transaction, key.as_str(), expected, &record);
            later(done, answer, pending)
        }
        Call::All { answer } => later(all(transaction), answer, pending),
    }
}

/// Keeps a good answer until the commit; gives a bad one at once.
fn later<T: 'static>(
    result: Result<T, StoreError>,
    answer: Reply<T>,
    pending: &mut Vec<Pending>,
) -> Result<(), StoreError> {
    match result {
        Ok(value) => {
            pending.push(Box::new(move |committed| {
                // Nobody waits any more: a deadline passed, which is no fault here.
                let _ = answer.send(committed.map(|()| value));
            }));
            Ok(())
        }
        Err(error) => {
            let _ = answer.send(Err(error.clone()));
            Err(error)
        }
    }
}

fn refuse(call: Call, error: StoreError) {
    // As above: a caller that left needs no answer.
    match call {
        Call::Read { answer, .. } => drop(answer.send(Err(error))),
        Call::Replace { answer, .. } => drop(answer.send(Err(error))),
        Call::All { answer } => drop(answer.send(Err(error))),
    }
}

fn read(
    leases: &impl ReadableTable<&'static str, (u64, &'static [u8])>,
    key: &str,
) -> Result<Versioned, StoreError> {
    match leases.get(key).map_err(failed)? {
        Some(stored) => {
            let (version, json) = stored.value();
            decode(version, json)
        }
        None => Ok(Versioned::default()),
    }
}

fn replace(
    transaction: &WriteTransaction,
    key: &str,
    expected: Version,
    record: &LeaseRecord,
) -> Result<Replaced, StoreError> {
    let mut leases = transaction.open_table(LEASES).map_err(failed)?;
    let stored = leases.get(key).map_err(failed)?.map_or(0, |s| s.value().0);
    if stored != expected.0 {
        return Ok(Replaced::Conflict);
    }
    if record.is_empty() {
        leases.remove(key).map_err(failed)?;
        return Ok(Replaced::Done);
    }
    // Versions are never given out twice, not even for a key that was removed
    // and came back: an old reader must not mistake the new record for its own.
    let mut meta = transaction.open_table(META).map_err(failed)?;
    let last = meta
        .get(VERSION_KEY)
        .map_err(failed)?
        .map_or(0, |n| n.value());
    meta.insert(VERSION_KEY, last + 1).map_err(failed)?;
    let json = serde_json::to_vec(record).map_err(failed)?;
    let row = (last + 1, json.as_slice());
    leases.insert(key, row).map_err(failed)?;
    Ok(Replaced::Done)
}

fn all(transaction: &WriteTransaction) -> Result<Vec<(LeaseKey, Versioned)>, StoreError> {
    let leases = transaction.open_table(LEASES).map_err(failed)?;
    let rows = leases.iter().map_err(failed)?;
    rows.map(|row| {
        let (key, stored) = row.map_err(failed)?;
        let (version, json) = stored.value();
        let key = LeaseKey::from_stored(key.value().to_owned());
        Ok((key, decode(version, json)?))
    })
    .collect()
}

fn decode(version: u64, json: &[u8]) -> Result<Versioned, StoreError> {
    Ok(Versioned {
        version: Version(version),
        record: serde_json::from_slice(json).map_err(failed)?,
    })
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

/// A store whose disk can be made to fail and to come back.
#[cfg(test)]
pub(super) fn on_a_disk_that_fails() -> (Embedded, std::sync::Arc<std::sync::atomic::AtomicBool>) {
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

    let full = Arc::new(AtomicBool::new(false));
    let disk = Disk {
        inner: Arc::default(),
        full: Arc::clone(&full),
    };
    let open = move || {
        let database = Database::builder().create_with_backend(disk.clone());
        let database = database.map_err(failed)?;
        check_schema(&database, Path::new("memory"))?;
        Ok(database)
    };
    (Embedded::with(open).unwrap(), full)
}
