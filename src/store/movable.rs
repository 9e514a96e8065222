//! The embedded store as its process has it: here, or, once a new version took
//! its file over, at that process. Whoever calls notices nothing but that a call
//! takes longer in between.
//!
//! ```text
//! here --release--> between --settle--> there
//!   ^                  |
//!   +---- take back ---+       the new process did not come up
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::spoken::unexpected;
use super::{
    Answer, Archive, Bounds, Call, Changed, Changes, Document, Documents, Edit, Edited, Embedded,
    Errand, Footing, Kept, Kind, Losses, Mark, Replaced, Store, StoreError, Told, Version,
    Versioned,
};
use crate::placement::{LeaseKey, LeaseRecord};

/// How long a call may take at another process.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// How long a call waits for the store to be somewhere.
const BETWEEN: Duration = Duration::from_secs(10);

/// How long calls under way are waited for before the file is closed, and from
/// one look to the next.
const UNDER_WAY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(1));

/// How long the file may still be locked by a process that is ending.
const UNLOCKED: Duration = Duration::from_secs(5);

/// The embedded store, wherever it is; clones are one.
#[derive(Debug, Clone)]
pub struct Movable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    side: watch::Sender<Side>,
    /// Whether another process may write to it as well.
    shared: AtomicBool,
    /// Another process has the file for good.
    parted: AtomicBool,
    losses: Losses,
}

#[derive(Debug, Clone)]
enum Side {
    Here(Arc<Embedded>),
    Between,
    There(mpsc::Sender<Errand>),
}

impl Movable {
    /// Opens the file here.
    ///
    /// # Errors
    /// As for [`Embedded::open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let store = Arc::new(Embedded::open(path)?);
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            side: watch::Sender::new(Side::Here(store)),
            shared: AtomicBool::new(false),
            parted: AtomicBool::new(false),
            losses: Losses::default(),
        })))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// From now on another process may write to it as well.
    pub fn share(&self) {
        self.0.shared.store(true, Ordering::Relaxed);
    }

    /// Closes the file once every call under way is answered; calls that come
    /// now wait.
    ///
    /// # Errors
    /// It is not here, or calls do not end; nothing has changed then.
    pub async fn release(&self) -> Result<(), StoreError> {
        let Side::Here(store) = self.0.side.borrow().clone() else {
            return Err(StoreError::Closed);
        };
        self.0.side.send_replace(Side::Between);
        let by = Instant::now() + UNDER_WAY.0;
        while Arc::strong_count(&store) > 1 && Instant::now() < by {
            sleep(UNDER_WAY.1).await;
        }
        match Arc::try_unwrap(store) {
            Ok(store) => {
                // It waits for its last commit.
                let closed = tokio::task::spawn_blocking(move || drop(store)).await;
                closed.map_err(|_| StoreError::Closed)
            }
            Err(store) => {
                self.0.side.send_replace(Side::Here(store));
                Err(StoreError::Failed {
                    reason: "calls under way do not end".to_owned(),
                })
            }
        }
    }

    /// Opens the file again: whoever was to have it does not.
    ///
    /// # Errors
    /// It cannot be opened; then calls fail until it can.
    pub async fn take_back(&self) -> Result<(), StoreError> {
        let by = Instant::now() + UNLOCKED;
        loop {
            let path = self.0.path.clone();
            let opened = tokio::task::spawn_blocking(move || Embedded::open(&path)).await;
            match opened.map_err(|_| StoreError::Closed)? {
                Ok(store) => {
                    self.0.side.send_replace(Side::Here(Arc::new(store)));
                    return Ok(());
                }
                Err(StoreError::InUse { .. }) if Instant::now() < by => {
                    sleep(UNDER_WAY.1).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Another process has the file for good: nobody is served by us any more.
    pub fn part(&self) {
        self.0.parted.store(true, Ordering::SeqCst);
        // Whoever waits looks again.
        self.0.side.send_modify(|_| {});
    }

    /// It is at another process, which is asked by this way.
    pub fn settle(&self, way: mpsc::Sender<Errand>) {
        self.0.side.send_replace(Side::There(way));
    }

    /// The process that has it was lost, or is another one by now: what was
    /// written last may have gone with it.
    pub fn lost(&self) {
        self.0.losses.note();
    }

    /// The store, where it is here, or will be again.
    pub(super) async fn here(&self) -> Option<Arc<Embedded>> {
        let mut told = self.0.side.subscribe();
        let has_parted = || self.0.parted.load(Ordering::SeqCst);
        let settled = told.wait_for(|side| has_parted() || !matches!(side, Side::Between));
        match &*timeout(BETWEEN, settled).await.ok()?.ok()? {
            Side::Here(store) => Some(Arc::clone(store)),
            Side::Between | Side::There(_) => None,
        }
    }

    async fn side(&self) -> Result<Side, StoreError> {
        let mut told = self.0.side.subscribe();
        let somewhere = told.wait_for(|side| !matches!(side, Side::Between));
        let side = timeout(BETWEEN, somewhere).await;
        let side = side.map_err(|_| StoreError::Successor)?;
        side.map(|side| side.clone())
            .map_err(|_| StoreError::Closed)
    }
}

/// A call that another process makes.
async fn elsewhere<T>(
    way: &mpsc::Sender<Errand>,
    call: Call,
    take: fn(Told) -> Result<T, Told>,
) -> Result<T, StoreError> {
    let (answer, answered) = oneshot::channel();
    let asked = async {
        let sent = way.send(Errand { call, answer }).await;
        sent.map_err(|_| StoreError::Successor)?;
        answered.await.map_err(|_| StoreError::Successor)
    };
    let told = timeout(ELSEWHERE, asked).await;
    let told = told.map_err(|_| StoreError::Successor)??;
    take(told).map_err(unexpected)
}

/// The call made here, or the same in words that can be sent.
macro_rules! wherever {
    ($self:ident, $store:ident => $here:expr, $call:expr, $told:pat => $out:expr) => {
        Box::pin(async move {
            match $self.side().await? {
                Side::Here($store) => $here.await,
                Side::There(way) => {
                    elsewhere(&way, $call, |told| match told {
                        $told => Ok($out),
                        other => Err(other),
                    })
                    .await
                }
                Side::Between => Err(StoreError::Successor),
            }
        })
    };
}

impl Store for Movable {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned> {
        wherever!(self, store => store.read(key),
            Call::Read(key.clone()), Told::Versioned(found) => *found)
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced> {
        wherever!(self, store => store.replace(key, expected, record, footing),
            Call::Replace(key.clone(), expected, record.into(), footing),
            Told::Replaced(replaced) => replaced)
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>> {
        wherever!(self, store => store.after(key, most),
            Call::After(key.cloned(), most), Told::Leases(leases) => leases)
    }

    fn is_shared(&self) -> bool {
        self.0.shared.load(Ordering::Relaxed)
    }

    fn is_far(&self) -> bool {
        false
    }

    fn losses(&self) -> Losses {
        self.0.losses.clone()
    }
}

impl Changes for Movable {
    fn changes(&self, since: Mark) -> Answer<'_, Changed> {
        wherever!(self, store => store.changes(since),
            Call::Changes(since), Told::Changed(changed) => *changed)
    }
}

impl Archive for Movable {
    fn keep(&self, decisions: Vec<Kept>, sync: bool) -> Answer<'_, ()> {
        wherever!(self, store => store.keep(decisions, sync),
            Call::Keep(decisions, sync), Told::Done => ())
    }

    fn decision(&self, id: u128) -> Answer<'_, Option<String>> {
        wherever!(self, store => store.decision(id), Call::Decision(id), Told::Text(text) => text)
    }

    fn decisions<'a>(&'a self, name: Option<&'a str>, most: usize) -> Answer<'a, Vec<String>> {
        wherever!(self, store => store.decisions(name, most),
            Call::Decisions(name.map(str::to_owned), most), Told::Texts(texts) => texts)
    }

    fn prune(&self, bounds: Bounds) -> Answer<'_, usize> {
        wherever!(self, store => store.prune(bounds), Call::Prune(bounds), Told::Count(count) => count)
    }
}

impl Documents for Movable {
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>> {
        wherever!(self, store => store.documents(kind),
            Call::Documents(kind), Told::Documents(documents) => documents)
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>> {
        wherever!(self, store => store.document(kind, id),
            Call::Document(kind, id.to_owned()), Told::Document(document) => document)
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> Answer<'_, Edited> {
        wherever!(self, store => store.edit(edits, sync),
            Call::Edit(edits, sync), Told::Edited(edited) => edited)
    }
}
