//! Connections that are on their way. A dial that began is finished even where
//! whoever asked for it has no time left: the next one finds what came of it.
//!
//! Callers wait in line for their turn, so that behind a trouble each of them
//! has little time left when it comes. Were a dial given up with its caller,
//! a line that is long enough would never get a connection again.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::store::StoreError;

/// One dial.
pub(super) type Dial<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Where callers wait for connections.
pub(super) struct Arrivals<T> {
    dial: Box<dyn Fn() -> Dial<T> + Send + Sync>,
    /// Whether one that waited here can still be used.
    is_good: fn(&T) -> bool,
    state: Mutex<State<T>>,
    news: Notify,
}

struct State<T> {
    /// What came of dials; a failure only while somebody waits for it.
    arrived: VecDeque<Result<T, StoreError>>,
    waiting: usize,
    // INVARIANT: never more than have waited at one time.
    dialling: usize,
}

/// A caller that waits; gone when dropped.
struct Waiting<'a, T>(&'a Arrivals<T>);

impl<T: Send + 'static> Arrivals<T> {
    pub(super) fn new(
        dial: impl Fn() -> Dial<T> + Send + Sync + 'static,
        is_good: fn(&T) -> bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            dial: Box::new(dial),
            is_good,
            state: Mutex::new(State {
                arrived: VecDeque::new(),
                waiting: 0,
                dialling: 0,
            }),
            news: Notify::new(),
        })
    }

    /// The next connection. Whoever stops waiting leaves it to the next one.
    pub(super) async fn next(self: &Arc<Self>) -> Result<T, StoreError> {
        self.lock().waiting += 1;
        let _waiting = Waiting(self);
        loop {
            // Listening before looking, so that nothing arrives in between.
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            if let Some(arrived) = self.take_or_dial() {
                return arrived;
            }
            news.await;
        }
    }

    fn take_or_dial(self: &Arc<Self>) -> Option<Result<T, StoreError>> {
        let mut state = self.lock();
        while let Some(arrived) = state.arrived.pop_front() {
            if arrived.as_ref().map_or(true, self.is_good) {
                return Some(arrived);
            }
        }
        if state.dialling < state.waiting {
            state.dialling += 1;
            drop(state);
            let (dialled, arrivals) = ((self.dial)(), Arc::clone(self));
            tokio::spawn(async move { arrivals.arrives(dialled.await) });
        }
        None
    }

    fn arrives(&self, dialled: Result<T, StoreError>) {
        let mut state = self.lock();
        state.dialling = state.dialling.saturating_sub(1);
        if dialled.is_ok() || state.waiting > 0 {
            state.arrived.push_back(dialled);
        }
        drop(state);
        self.news.notify_one();
    }
}

impl<T> Arrivals<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting = state.waiting.saturating_sub(1);
        if state.waiting == 0 {
            // Why a dial failed is of use only to who waited for it.
            state.arrived.retain(Result::is_ok);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    const DIAL: Duration = Duration::from_secs(1);
    const LEFT: Duration = Duration::from_millis(400);

    /// Counts its dials, each of which takes a second and fails where `fails`.
    fn arrivals(fails: bool) -> (Arc<Arrivals<usize>>, Arc<AtomicUsize>) {
        let dials = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dials);
        let dial = move || -> Dial<usize> {
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                sleep(DIAL).await;
                if fails {
                    return Err(StoreError::Closed);
                }
                Ok(nth)
            })
        };
        (Arrivals::new(dial, |nth| *nth != 7), dials)
    }

    #[tokio::test(start_paused = true)]
    async fn callers_with_less_time_than_a_dial_takes_get_one_all_the_same() {
        let (arrivals, dials) = arrivals(false);
        assert!(timeout(LEFT, arrivals.next()).await.is_err());
        assert!(timeout(LEFT, arrivals.next()).await.is_err());
        assert_eq!(timeout(LEFT, arrivals.next()).await, Ok(Ok(0)));
        assert_eq!(dials.load(Ordering::SeqCst), 1);
        // One that arrives when nobody waits is the next one's.
        assert!(timeout(LEFT, arrivals.next()).await.is_err());
        sleep(DIAL).await;
        assert_eq!(timeout(LEFT, arrivals.next()).await, Ok(Ok(1)));
        assert_eq!(dials.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_are_dialled_as_wait_at_a_time() {
        let (arrivals, dials) = arrivals(false);
        let (one, another) = tokio::join!(arrivals.next(), arrivals.next());
        assert_ne!(one, another);
        let crowd = || async {
            tokio::join!(
                timeout(LEFT, arrivals.next()),
                timeout(LEFT, arrivals.next())
            )
        };
        for _ in 0..3 {
            let (one, another) = crowd().await;
            // The third time two have arrived.
            assert_eq!(one.is_ok(), another.is_ok());
        }
        assert_eq!(dials.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_to_who_waits_and_to_nobody_later() {
        let (arrivals, dials) = arrivals(true);
        assert_eq!(arrivals.next().await, Err(StoreError::Closed));
        assert!(timeout(LEFT, arrivals.next()).await.is_err());
        sleep(DIAL).await;
        assert!(timeout(LEFT, arrivals.next()).await.is_err());
        assert_eq!(dials.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_went_bad_meanwhile_is_passed_over() {
        let (arrivals, dials) = arrivals(false);
        dials.store(7, Ordering::SeqCst);
        assert!(timeout(LEFT, arrivals.next()).await.is_err());
        sleep(DIAL).await;
        assert_eq!(arrivals.next().await, Ok(8));
    }
}
