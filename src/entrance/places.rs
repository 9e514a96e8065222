//! So many connections at a time. Where all places are taken, whoever has been
//! there longest without showing what it is there for gives its place up: a
//! flood of idle connections keeps nobody out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often it is said that places are given up.
const SAYING: Duration = Duration::from_secs(60);

/// What becomes of the next one where every place is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// It waits, and whoever comes after it waits in the system's queue.
    Wait,
    /// It is closed without a word, and counted.
    Close,
}

/// The places behind one door, or behind several together.
#[derive(Debug)]
pub struct Places {
    door: &'static str,
    most: usize,
    beyond: Beyond,
    state: Mutex<State>,
    /// Told whenever a place is left.
    left: Notify,
    /// Connections that were closed for want of a place.
    closed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    next: u64,
    /// Who keeps no place yet, by when they came. At most `most`.
    idle: BTreeMap<u64, CancellationToken>,
    /// When it was last said that one was given up.
    said: Option<Instant>,
}

/// A place; left when it and every pass for it are dropped.
#[derive(Debug)]
pub struct Place {
    pass: Pass,
    /// Cancelled when it is to be given up.
    wanted: CancellationToken,
}

/// The way to keep a place, once somebody has shown what it is there for.
#[derive(Debug, Clone)]
pub struct Pass(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// So many places, at least one; `door` names them in the log.
    pub fn new(door: &'static str, most: usize, beyond: Beyond) -> Arc<Self> {
        Arc::new(Self {
            door,
            most: most.max(1),
            beyond,
            state: Mutex::default(),
            left: Notify::new(),
            closed: AtomicU64::new(0),
        })
    }

    /// How many there are.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Connections closed so far for want of a place, those among them that
    /// had one and gave it up.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// A place; where all are taken that of the longest idle one, as soon as it
    /// has left. `None`: every place is kept, and nobody is to wait.
    pub async fn take(self: &Arc<Self>) -> Option<Place> {
        loop {
            // Before the look, or a place left in between would go unnoticed.
            let left = self.left.notified();
            {
                let mut state = self.lock();
                if state.taken < self.most {
                    return Some(self.place(&mut state));
                }
                let idle = state.idle.pop_first();
                if idle.is_some() || self.beyond == Beyond::Close {
                    self.closed.fetch_add(1, Ordering::Relaxed);
                    self.say(&mut state);
                }
                match (idle, self.beyond) {
                    (Some((_, wanted)), _) => wanted.cancel(),
                    (None, Beyond::Wait) => {}
                    (None, Beyond::Close) => return None,
                }
            }
            left.await;
        }
    }

    fn place(self: &Arc<Self>, state: &mut State) -> Place {
        let (number, wanted) = (state.next, CancellationToken::new());
        state.next += 1;
        state.taken += 1;
        state.idle.insert(number, wanted.clone());
        let taken = Taken {
            places: Arc::clone(self),
            number,
        };
        Place {
            pass: Pass(Arc::new(taken)),
            wanted,
        }
    }

    fn say(&self, state: &mut State) {
        let now = Instant::now();
        if state.said.is_none_or(|said| now - said >= SAYING) {
            state.said = Some(now);
            warn!(
                door = self.door,
                places = self.most,
                closed = self.closed(),
                "Every place is taken, connections are closed: idle ones first"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole behind a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The way to keep it.
    pub fn pass(&self) -> Pass {
        self.pass.clone()
    }

    /// Runs what the place was taken for, to its end or until the place is
    /// given up.
    pub async fn hold(self, serving: impl Future<Output = ()>) {
        // Gone before the place is left: whoever comes next finds its room.
        let _ = self.wanted.run_until_cancelled(serving).await;
    }
}

impl Pass {
    /// From here on the place is given up for nobody. Who goes on after what
    /// the place was taken for has ended takes the pass along.
    pub fn keep(&self) {
        let Self(taken) = self;
        taken.places.lock().idle.remove(&taken.number);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.idle.remove(&self.number);
        state.taken -= 1;
        drop(state);
        self.places.left.notify_waiters();
    }
}
