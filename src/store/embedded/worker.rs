//! The thread that owns the files. What happens to leases it writes to the journal,
//! all else to the database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use redb::{Database, Durability, ReadableDatabase, StorageBackend, WriteTransaction};
use tokio::sync::mpsc;

use super::feed::Feed;
use super::journal::Journal;
use super::leases::LEASES;
use super::{Call, Reply, failed, leases, versions};
use crate::store::StoreError;

/// Calls done together at most.
pub(super) const BATCH: usize = 256;
/// How long writers that come in company wait for others, so that a crowd of logons
/// shares a sync, which costs more than all else about a claim. Who comes alone
/// does not wait.
const GATHER: Duration = Duration::from_millis(1);

/// An answer that waits for the disk.
pub(super) type Pending = Box<dyn FnOnce(Result<(), StoreError>)>;

/// What a store is kept in.
pub(super) struct Files {
    pub(super) database: Database,
    pub(super) journal: Box<dyn StorageBackend>,
}

/// The files in use.
pub(super) struct Opened {
    database: Database,
    journal: Journal,
    feed: Feed,
}

/// What must become of a transaction; of several calls the most demanding rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Commit {
    /// Nothing was written, so there is nothing to wait for.
    Nothing,
    /// It reaches the disk with the next one that must.
    Later,
    /// It is on disk before anybody is answered.
    Now,
}

/// Ends when the last [`super::Embedded`] is dropped.
///
/// A database that failed once (a full disk, say) refuses everything from then
/// on, so it is closed and opened again before the next calls are done.
pub(super) fn work(
    opened: Opened,
    open: &dyn Fn() -> Result<Opened, StoreError>,
    mut queue: mpsc::Receiver<Call>,
) {
    let mut opened = Some(opened);
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
        let ready = match opened.take() {
            Some(opened) => Ok(opened),
            None => open(),
        };
        match ready {
            Ok(mut ready) => {
                let mut pending = Vec::with_capacity(calls.len());
                let work = AssertUnwindSafe(|| ready.serve(calls.drain(..), &mut pending));
                let panicked = |_| Err(failed("the database panicked"));
                let done = catch_unwind(work).unwrap_or_else(panicked);
                // What is in memory may tell of what was not written.
                opened = done.is_ok().then_some(ready);
                answer_all(&mut pending, &done);
            }
            Err(error) => calls.drain(..).for_each(|call| refuse(call, error.clone())),
        }
    }
    if let Some(mut opened) = opened {
        // What is left in the journal the next opening takes along.
        let _ = opened.close();
    }
}

/// How many of them wait for the disk.
fn writers(calls: &[Call]) -> usize {
    calls
        .iter()
        .filter(|call| call.needs() == Commit::Now)
        .count()
}

impl Opened {
    /// Takes along what an earlier opening left in the journal.
    pub(super) fn of(Files { database, journal }: Files) -> Result<Self, StoreError> {
        let mut feed = Feed::new();
        let transaction = database.begin_write().map_err(failed)?;
        let mut journal = Journal::read(journal, versions::known(&transaction)?)?;
        feed.versions.was_given(journal.last());
        journal.move_into(&transaction)?;
        feed.versions.set_aside(&transaction)?;
        transaction.commit().map_err(failed)?;
        journal.begin(feed.versions.aside());
        Ok(Self {
            database,
            journal,
            feed,
        })
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if !self.journal.is_empty() {
            self.transact(Commit::Now, Vec::new(), &mut Vec::new())?;
        }
        self.journal.empty()
    }

    fn serve(
        &mut self,
        calls: impl Iterator<Item = Call>,
        pending: &mut Vec<Pending>,
    ) -> Result<(), StoreError> {
        let (mut reads, mut changes, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for call in calls {
            match call {
                Call::Leases(call) if call.needs() == Commit::Nothing => reads.push(call),
                Call::Leases(call) => changes.push(call),
                other => others.push(other),
            }
        }
        let mut done = Ok(());
        if !changes.is_empty() {
            done = self.make_room();
        }
        if done.is_ok() && !(reads.is_empty() && changes.is_empty()) {
            done = self.leases(reads.into_iter().chain(changes), pending);
        } else if let Err(error) = &done {
            for call in reads.into_iter().chain(changes) {
                call.refuse(error.clone());
            }
        }
        answer_all(pending, &done);
        if let Err(error) = done {
            others
                .drain(..)
                .for_each(|call| refuse(call, error.clone()));
            return Err(error);
        }
        match others.iter().map(Call::needs).max() {
            Some(need) => self.transact(need, others, pending),
            None => Ok(()),
        }
    }

    /// Sees that as many leases can be changed as are at a time.
    fn make_room(&mut self) -> Result<(), StoreError> {
        if self.is_short() || self.journal.is_full() {
            self.transact(Commit::Now, Vec::new(), &mut Vec::new())?;
        }
        Ok(())
    }

    /// Whether there may be fewer versions than are wanted at a time.
    fn is_short(&self) -> bool {
        usize::try_from(self.feed.versions.left()).is_ok_and(|left| left < BATCH)
    }

    /// Does calls on single leases. A transaction that might write costs several
    /// times what one that reads does, and a commit much more.
    fn leases(
        &mut self,
        calls: impl Iterator<Item = leases::Call>,
        pending: &mut Vec<Pending>,
    ) -> Result<(), StoreError> {
        let begun = self.database.begin_read().map_err(failed);
        let mut stored = begun.and_then(|begun| begun.open_table(LEASES).map_err(failed));
        for call in calls {
            let done = match &stored {
                Ok(stored) => call.apply(stored, (&mut self.journal, &mut self.feed), pending),
                Err(error) => {
                    call.refuse(error.clone());
                    continue;
                }
            };
            if let Err(error) = done {
                stored = Err(error);
            }
        }
        stored?;
        self.journal.sync()
    }

    /// Does the calls in one transaction. Answers wait in `pending` until it is
    /// known whether the commit held; a call that fails by itself fails them all,
    /// since the file is then not to be trusted.
    fn transact(
        &mut self,
        mut need: Commit,
        calls: Vec<Call>,
        pending: &mut Vec<Pending>,
    ) -> Result<(), StoreError> {
        if !self.journal.is_empty() && calls.iter().any(Call::looks_through_leases) {
            need = Commit::Now;
        }
        let aside = self.feed.versions.aside();
        let mut begun = self.begin(need);
        for call in calls {
            let done = match &begun {
                Ok(transaction) => apply(transaction, call, pending, &mut self.feed),
                Err(error) => {
                    refuse(call, error.clone());
                    continue;
                }
            };
            if let Err(error) = done {
                begun = Err(error);
            }
        }
        let mut transaction = begun?;
        if need == Commit::Later && self.feed.versions.aside() != aside {
            // What a row names and what is set aside reach the disk together: closing
            // the database would make the latter last alone.
            transaction
                .set_durability(Durability::Immediate)
                .map_err(failed)?;
            self.journal.move_into(&transaction)?;
            need = Commit::Now;
        }
        match need {
            Commit::Nothing => transaction.abort().map_err(failed)?,
            Commit::Later | Commit::Now => transaction.commit().map_err(failed)?,
        }
        if need == Commit::Now {
            self.journal.begin(self.feed.versions.aside());
        }
        Ok(())
    }

    fn begin(&mut self, need: Commit) -> Result<WriteTransaction, StoreError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        match need {
            Commit::Now if !self.journal.is_empty() || self.is_short() => {
                self.journal.move_into(&transaction)?;
                self.feed.versions.set_aside(&transaction)?;
            }
            Commit::Later => transaction
                .set_durability(Durability::None)
                .map_err(failed)?,
            Commit::Now | Commit::Nothing => {}
        }
        Ok(transaction)
    }
}

fn apply(
    transaction: &WriteTransaction,
    call: Call,
    pending: &mut Vec<Pending>,
    feed: &mut Feed,
) -> Result<(), StoreError> {
    match call {
        // Those are done before.
        Call::Leases(call) => call.refuse(StoreError::Closed),
        Call::Archive(call) => return call.apply(transaction, pending),
        Call::Documents(call) => return call.apply(transaction, pending, feed),
        Call::After { key, most, answer } => {
            let found = leases::after(transaction, key.as_ref(), most);
            return later(found, answer, pending);
        }
        Call::Changes { since, answer } => {
            return later(feed.since(transaction, since), answer, pending);
        }
    }
    Ok(())
}

fn answer_all(pending: &mut Vec<Pending>, done: &Result<(), StoreError>) {
    for answer in pending.drain(..) {
        answer(done.clone());
    }
}

/// Keeps a good answer until the commit; gives a bad one at once.
pub(super) fn later<T: 'static>(
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
    // A caller that left needs no answer.
    match call {
        Call::Leases(call) => call.refuse(error),
        Call::Archive(call) => call.refuse(error),
        Call::Documents(call) => call.refuse(error),
        Call::After { answer, .. } => drop(answer.send(Err(error))),
        Call::Changes { answer, .. } => drop(answer.send(Err(error))),
    }
}
