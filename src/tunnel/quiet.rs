//! Threads for relays that have little to move at a time, however often.
//!
//! Threads that share their tasks wake one another as soon as there are two of
//! them, which costs more than so few bytes do. A quiet thread shares nothing, and
//! carries as many relays as it can with ease, so that each of its looks finds
//! many that are ready. Who moves much is loud.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::loud::keep;

/// Relays on a thread before another is started: of desktops in use so many take
/// about a third of a processor.
const WITH_EASE: usize = 256;

/// The quiet threads, started as they are needed, one for each processor at most.
#[derive(Debug)]
pub struct Quiet {
    threads: Mutex<Threads>,
    end: CancellationToken,
    _ends: DropGuard,
}

#[derive(Debug)]
struct Threads {
    started: Vec<Thread>,
    /// More are not started: none is there, or the system gave none.
    most: usize,
}

#[derive(Debug)]
struct Thread {
    handle: Handle,
    /// One more for each seat that is taken.
    seats: Arc<()>,
}

/// A relay's seat on a quiet thread, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    _taken: Arc<()>,
}

impl Default for Quiet {
    fn default() -> Self {
        Self::at_most(thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Quiet {
    fn at_most(most: usize) -> Self {
        let end = CancellationToken::new();
        Self {
            threads: Mutex::new(Threads {
                started: Vec::new(),
                most,
            }),
            _ends: end.clone().drop_guard(),
            end,
        }
    }

    /// A seat for a relay, and the runtime of that seat; `None` where the system has
    /// no thread for it.
    pub(super) fn seat(&self) -> Option<(Seat, Handle)> {
        let mut threads = self.lock();
        let Threads { started, most } = &mut *threads;
        let has_ease = started.iter().any(|thread| thread.taken() < WITH_EASE);
        if !has_ease && started.len() < *most {
            match self.start() {
                Ok(thread) => started.push(thread),
                Err(error) => {
                    warn!(%error, "No thread can be started for quiet relays");
                    // Else each of them tried again, a few times a second.
                    *most = started.len();
                }
            }
        }
        // The first one that carries it with ease: many together cost less.
        let first = started.iter().find(|thread| thread.taken() < WITH_EASE);
        let thread = first.or_else(|| started.iter().min_by_key(|thread| thread.taken()))?;
        let seat = Seat {
            _taken: Arc::clone(&thread.seats),
        };
        Some((seat, thread.handle.clone()))
    }

    /// Returns once every thread has done something. Where one is stuck: never.
    pub async fn answers(&self) {
        let threads: Vec<_> = {
            let threads = self.lock();
            threads.started.iter().map(|it| it.handle.clone()).collect()
        };
        for thread in threads {
            // It cannot fail, and ends early only with the thread.
            let _ = thread.spawn(async {}).await;
        }
    }

    /// Ends the threads, and whatever they still carry.
    pub fn end(&self) {
        self.end.cancel();
    }

    fn start(&self) -> io::Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = keep("quiet-relays", runtime, self.end.clone())?;
        Ok(Thread {
            handle,
            seats: Arc::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        // A list that only grows, whole behind a panic.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    fn taken(&self) -> usize {
        Arc::strong_count(&self.seats) - 1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn taken(quiet: &Quiet) -> Vec<usize> {
        quiet.lock().started.iter().map(Thread::taken).collect()
    }

    #[tokio::test]
    async fn a_thread_is_filled_before_another_is_started_and_then_all_alike() {
        let quiet = Quiet::at_most(2);
        assert_eq!(taken(&quiet), [0; 0]);
        let mut seats: Vec<_> = (0..WITH_EASE).map(|_| quiet.seat().unwrap()).collect();
        assert_eq!(taken(&quiet), [WITH_EASE]);
        seats.extend((0..WITH_EASE).map(|_| quiet.seat().unwrap()));
        assert_eq!(taken(&quiet), [WITH_EASE; 2]);
        seats.extend((0..4).map(|_| quiet.seat().unwrap()));
        assert_eq!(taken(&quiet), [WITH_EASE + 2; 2]);
        // Who leaves the first one leaves room there.
        seats.drain(..WITH_EASE);
        assert_eq!(taken(&quiet), [2, WITH_EASE + 2]);
        let _next = quiet.seat().unwrap();
        assert_eq!(taken(&quiet), [3, WITH_EASE + 2]);
    }

    #[tokio::test]
    async fn without_a_thread_there_is_no_seat_and_nothing_that_does_not_answer() {
        let quiet = Quiet::at_most(0);
        assert!(quiet.seat().is_none());
        quiet.answers().await;
    }

    #[tokio::test]
    async fn a_seat_is_on_a_thread_of_its_own_that_answers_and_one_that_is_stuck_does_not() {
        let quiet = Quiet::at_most(1);
        quiet.answers().await;
        let (_seat, there) = quiet.seat().unwrap();
        let name = there.spawn(async { thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.unwrap().as_deref(), Some("quiet-relays"));
        quiet.answers().await;
        let (free, stuck) = std::sync::mpsc::channel::<()>();
        there.spawn(async move { stuck.recv() });
        let answers = timeout(Duration::from_millis(50), quiet.answers());
        assert!(answers.await.is_err());
        drop(free);
        quiet.answers().await;
    }
}
