//! Nobody is placed between a loss of a shared store and the moment when it
//! answers again and holds the leases of all our open tunnels: a standby that
//! took over may have lost them, and whoever is placed meanwhile could be given
//! what is taken.
//!
//! The keeper opens it, placements wait before it. A store of one process has
//! nothing that could be lost on the way, and its gate stands open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::PlaceError;
use crate::store::{Losses, StoreError};

/// How long a placement waits for a store that is away: a restart or a failover that takes no
/// longer costs no user more than a slow click.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between a loss of the store and our leases.
#[derive(Debug)]
pub struct Gate {
    losses: Losses,
    state: watch::Sender<State>,
    why: Mutex<Option<StoreError>>,
    openings: AtomicU64,
    elsewhere: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// As of which loss everything is in the store again.
    regained: u64,
    /// Leases could not be written.
    failing: bool,
    /// What was tried last failed.
    is_away: bool,
    /// What is known of the loss that keeps it shut.
    lost: Option<Lost>,
}

/// What is known of a loss.
#[derive(Debug, Clone, Copy)]
struct Lost {
    since: Instant,
    owed: usize,
}

/// It is shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shut {
    /// For how long.
    pub span: Duration,
    /// Open tunnels whose leases are still to be written again.
    pub owed: usize,
}

impl Gate {
    pub(super) fn before(losses: Losses) -> Self {
        let regained = losses.count();
        Self {
            losses,
            state: watch::Sender::new(State {
                regained,
                ..State::default()
            }),
            why: Mutex::default(),
            openings: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
        }
    }

    /// How often the store was lost so far.
    pub(super) fn losses(&self) -> u64 {
        self.losses.count()
    }

    /// Waits for a loss that came after so many.
    pub(super) async fn lost_beyond(&self, losses: u64) {
        self.losses.beyond(losses).await;
    }

    fn keeps_out(&self, state: &State) -> bool {
        state.failing || state.regained < self.losses.count()
    }

    pub(super) fn is_shut(&self) -> bool {
        self.keeps_out(&self.state.borrow())
    }

    /// Whether placements wait, and what for.
    pub fn shut(&self) -> Option<Shut> {
        let state = *self.state.borrow();
        self.keeps_out(&state).then(|| Shut {
            span: state.lost.map_or(Duration::ZERO, |it| it.since.elapsed()),
            owed: state.lost.map_or(0, |it| it.owed),
        })
    }

    /// Passes once it is open, however long leases are being written again.
    ///
    /// # Errors
    /// The store has been away for longer than anybody should wait.
    pub(super) async fn pass(&self) -> Result<(), PlaceError> {
        if self.pass_within(PATIENCE).await.is_ok() {
            return Ok(());
        }
        let mut told = self.state.subscribe();
        // We hold the sender.
        let _ = told
            .wait_for(|state| state.is_away || !self.keeps_out(state))
            .await;
        match self.is_shut() {
            false => Ok(()),
            true => Err(self.refusal()),
        }
    }

    /// Passes once it is open.
    ///
    /// # Errors
    /// It stays shut for so long.
    pub(super) async fn pass_within(&self, patience: Duration) -> Result<(), PlaceError> {
        if !self.is_shut() {
            return Ok(());
        }
        let mut told = self.state.subscribe();
        let opened = told.wait_for(|state| !self.keeps_out(state));
        match timeout(patience, opened).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.refusal()),
        }
    }

    /// Why nobody passes.
    pub(super) fn refusal(&self) -> PlaceError {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().map_or(PlaceError::Away, PlaceError::Store)
    }

    /// So many tunnels' leases are to be written again; who asks is told since
    /// when.
    pub(super) fn owes(&self, owed: usize) {
        self.state.send_modify(|state| {
            let since = state.lost.map_or_else(Instant::now, |lost| lost.since);
            state.lost = Some(Lost { since, owed });
        });
    }

    /// One of them is written: the store is there.
    pub(super) fn progresses(&self, owed: usize) {
        self.state.send_modify(|state| state.is_away = false);
        self.owes(owed);
    }

    /// Leases could not be written, or asked for. What says nothing of the way to the store
    /// keeps nobody waiting: one record that cannot be read, perhaps.
    pub(super) fn fails(&self, error: &StoreError) {
        if !error.is_away() {
            return;
        }
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        self.state.send_modify(|state| {
            state.failing = true;
            state.is_away = true;
            let since = state.lost.map_or_else(Instant::now, |lost| lost.since);
            let owed = state.lost.map_or(0, |lost| lost.owed);
            state.lost = Some(Lost { since, owed });
        });
    }

    /// How often everything was regained so far.
    pub fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// How many tunnels were found so far whose lease another one holds on
    /// another host.
    pub fn elsewhere(&self) -> u64 {
        self.elsewhere.load(Ordering::Relaxed)
    }

    pub(super) fn found_elsewhere(&self) {
        self.elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// As of that loss everything is in the store again. It stays shut where the
    /// store was lost once more since. How long it was shut.
    pub(super) fn open(&self, regained: u64) -> Duration {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.openings.fetch_add(1, Ordering::Relaxed);
        let mut span = Duration::ZERO;
        self.state.send_modify(|state| {
            span = state.lost.map_or(span, |lost| lost.since.elapsed());
            *state = State {
                regained,
                failing: false,
                is_away: false,
                lost: None,
            };
        });
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_passes_once_everything_is_regained_and_not_before() {
        let losses = Losses::default();
        let gate = Gate::before(losses.clone());
        assert_eq!(gate.pass().await, Ok(()));
        losses.note();
        assert!(gate.is_shut());
        assert_eq!(gate.pass_within(PATIENCE).await, Err(PlaceError::Away));
        gate.owes(3);
        assert_eq!(gate.shut().map(|shut| shut.owed), Some(3));
        // Lost once more before it was regained: that counts.
        losses.note();
        gate.open(1);
        assert!(gate.is_shut());
        let (passed, ()) = tokio::join!(gate.pass(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gate.open(2);
        });
        assert_eq!((passed, gate.shut()), (Ok(()), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_takes_no_writes_shuts_it_and_a_record_of_another_release_does_not() {
        let gate = Gate::before(Losses::default());
        gate.fails(&StoreError::Failed {
            reason: "unknown field".to_owned(),
        });
        assert!(!gate.is_shut());
        let full = StoreError::Database {
            address: "db:5432".to_owned(),
            database: "sessionguard".to_owned(),
            reason: "no space left".to_owned(),
            help: "make room on its disk",
        };
        gate.fails(&full);
        assert_eq!(gate.pass().await, Err(PlaceError::Store(full)));
        gate.open(0);
        assert_eq!(gate.pass().await, Ok(()));
    }
}
