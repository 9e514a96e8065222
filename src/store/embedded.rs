//! The default store: one redb file, nothing to install.
//!
//! One thread owns the database. It takes whatever calls have queued up, does
//! them in one transaction and answers after the commit, so a burst of logons
//! costs one sync to disk and not one each. The file belongs to one process; a
//! second one is told so.

mod decisions;
mod documents;
mod feed;
mod file;
mod leases;
mod versions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;
use std::time::Duration;

use leases::LEASES;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::{
    Answer, Archive, Bounds, Changed, Changes, Document, Documents, Edit, Edited, Footing, Kept,
    Kind, Mark, Replaced, Store, StoreError, Version, Versioned,
};
use crate::placement::{LeaseKey, LeaseRecord};
use feed::Feed;

/// Names to numbers: the schema, and the last version given out.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const SCHEMA: u64 = 1;
const SCHEMA_KEY: &str = "schema";

/// Calls that may wait; more wait with their caller, within its deadline.
const QUEUE: usize = 1024;
/// Calls done in one transaction at most.
const BATCH: usize = 256;
/// How long writers that come in company wait for others, so that a crowd of logons
/// shares a commit, which costs more than all else about a claim. Who comes alone
/// does not wait.
const GATHER: Duration = Duration::from_millis(1);

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
    /// What was written since.
    Changes {
        since: Mark,
        answer: Reply<Changed>,
    },
}

/// One of the processes that write to one file through its owner; the owner is 0.
pub(super) type Writer = u64;

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
            std::fs::create_dir_all(folder).map_err(|e| file::cannot_open(path, e))?;
        }
        let path = path.to_owned();
        Self::with(move || file::open(&path))
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
        Box::pin(self.call(move |answer| Call::Leases(leases::Call::After { key, most, answer })))
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
    let mut feed = Feed::new();
    let mut calls = Vec::with_capacity(BATCH);
    let mut is_crowded = false;
    while queue.blocking_recv_many(&mut calls, BATCH) > 0 {
        if is_crowded && writers(&calls) > 0 {
            thread::sleep(GATHER);
            while calls.len() < BATCH
                && let Ok(call) = queue.try_recv()
            {
                calls.push(call);
            }
        }
        is_crowded = match writers(&calls) {
            0 => is_crowded,
            count => count > 1,
        };
        let mut pending: Vec<Pending> = Vec::with_capacity(calls.len());
        let opened = match database.take() {
            Some(database) => Ok(database),
            None => open(),
        };
        let done = match opened {
            Ok(opened) => {
                let need = calls.iter().map(Call::needs).max();
                let need = need.unwrap_or(Commit::Nothing);
                let are_reads = calls.iter().all(Call::reads_a_lease);
                let calls = calls.drain(..);
                let work = AssertUnwindSafe(|| match are_reads {
                    true => look(&opened, calls),
                    false => transact(&opened, need, calls, (&mut pending, &mut feed)),
                });
                let panicked = |_| Err(failed("the database panicked"));
                let done = catch_unwind(work).unwrap_or_else(panicked);
                database = done.is_ok().then_some(opened);
                if done.is_err() {
                    // It may tell of what was not written.
                    feed = Feed::new();
                }
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

/// How many of them wait for the disk.
fn writers(calls: &[Call]) -> usize {
    calls
        .iter()
        .filter(|call| call.needs() == Commit::Now)
        .count()
}

/// What must become of a transaction; of several calls the most demanding rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Commit {
    /// Nothing was written, so there is nothing to wait for.
    Nothing,
    /// It reaches the disk with the next one that must.
    Later,
    /// It is on disk before anybody is answered.
    Now,
}

impl Call {
    fn needs(&self) -> Commit {
        match self {
            Self::Leases(call) => call.needs(),
            Self::Archive(call) => call.needs(),
            Self::Documents(call) => call.needs(),
            Self::Changes { .. } => Commit::Nothing,
        }
    }

    fn reads_a_lease(&self) -> bool {
        matches!(self, Self::Leases(leases::Call::Read { .. }))
    }
}

/// Reads records for these calls and nothing else. Placements do most of the
/// time, and a transaction that might write costs several times as much.
fn look(database: &Database, calls: impl Iterator<Item = Call>) -> Result<(), StoreError> {
    let begun = database.begin_read().map_err(failed);
    let leases = begun.and_then(|begun| begun.open_table(LEASES).map_err(failed));
    let mut looked = Ok(());
    for call in calls {
        match (&leases, call) {
            (Ok(leases), Call::Leases(call)) => looked = looked.and(call.look(leases)),
            (Ok(_), call) => refuse(call, StoreError::Closed),
            (Err(error), call) => refuse(call, error.clone()),
        }
    }
    leases.map(drop).and(looked)
}

/// Does the calls in one transaction. Answers wait in `pending` until it is
/// known whether the commit held; a call that fails by itself fails them all,
/// since the file is then not to be trusted.
fn transact(
    database: &Database,
    need: Commit,
    calls: impl Iterator<Item = Call>,
    (pending, feed): (&mut Vec<Pending>, &mut Feed),
) -> Result<(), StoreError> {
    let mut begun = begin(database, need);
    for call in calls {
        let done = match &begun {
            Ok(transaction) => apply(transaction, call, pending, feed),
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
    match need {
        Commit::Nothing => transaction.abort().map_err(failed),
        Commit::Later | Commit::Now => transaction.commit().map_err(failed),
    }
}

fn begin(database: &Database, need: Commit) -> Result<WriteTransaction, StoreError> {
    let mut transaction = database.begin_write().map_err(failed)?;
    if need == Commit::Later {
        transaction
            .set_durability(Durability::None)
            .map_err(failed)?;
    }
    Ok(transaction)
}

fn apply(
    transaction: &WriteTransaction,
    call: Call,
    pending: &mut Vec<Pending>,
    feed: &mut Feed,
) -> Result<(), StoreError> {
    match call {
        Call::Leases(call) => call.apply(transaction, pending, feed),
        Call::Archive(call) => call.apply(transaction, pending),
        Call::Documents(call) => call.apply(transaction, pending, feed),
        Call::Changes { since, answer } => later(feed.since(transaction, since), answer, pending),
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
    match call {
        Call::Leases(call) => call.refuse(error),
        Call::Archive(call) => call.refuse(error),
        Call::Documents(call) => call.refuse(error),
        // A caller that left needs no answer.
        Call::Changes { answer, .. } => drop(answer.send(Err(error))),
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

#[cfg(test)]
pub(crate) mod counted;

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
        file::check_schema(&database, Path::new("memory"))?;
        Ok(database)
    };
    (Embedded::with(open).unwrap(), full)
}
