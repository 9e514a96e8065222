//! The way to have taken over what other replicas wrote, and to know how fresh
//! that is. One task does it, by polls, for everybody who waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::store::StoreError;

/// Asks for a poll; clones are one.
#[derive(Debug, Clone, Default)]
pub struct CatchUp {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    wanted: Notify,
    polls: watch::Sender<Polls>,
}

/// How far it is.
#[derive(Debug, Clone, Default)]
struct Polls {
    begun: u64,
    ended: u64,
    /// What came of the last one.
    failure: Option<StoreError>,
    /// When the last one began that was answered.
    answered: Option<Instant>,
}

impl CatchUp {
    /// Returns once all that was written before this call is in the picture.
    /// Whoever waits at the same time waits for the same poll.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn now(&self) -> Result<(), StoreError> {
        let mut polls = self.inner.polls.subscribe();
        // One that has begun already may have read before that writing.
        let begun = polls.borrow().begun;
        self.inner.wanted.notify_one();
        let ended = polls.wait_for(|polls| polls.ended > begun).await;
        match ended.map(|polls| polls.failure.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(failure),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// How long ago the last poll began that was answered: what others wrote
    /// before that is in the picture. `None`: there was none yet, or there are no
    /// others.
    pub fn age(&self) -> Option<Duration> {
        let polls = self.inner.polls.borrow();
        polls.answered.map(|at| at.elapsed())
    }

    /// Why the last poll failed, where it did.
    pub fn failure(&self) -> Option<StoreError> {
        self.inner.polls.borrow().failure.clone()
    }

    /// For the one task that polls: returns once somebody waits.
    pub async fn wanted(&self) {
        self.inner.wanted.notified().await;
    }

    /// For that task: does one poll, with its taking over.
    ///
    /// # Errors
    /// As the poll.
    pub async fn poll<T>(
        &self,
        poll: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        self.inner.polls.send_modify(|polls| polls.begun += 1);
        let told = poll.await;
        self.inner.polls.send_modify(|polls| {
            polls.ended = polls.begun;
            polls.failure = told.as_ref().err().cloned();
            if told.is_ok() {
                polls.answered = Some(began);
            }
        });
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_wait_for_one_poll_that_began_after_they_did() {
        let catch_up = CatchUp::default();
        assert_eq!((catch_up.age(), catch_up.failure()), (None, None));
        let late = catch_up.clone();
        // Somebody comes while a poll is under way: that one may not know.
        let (told, waiting) = catch_up
            .poll(async {
                let waiting: Vec<_> = (0..9)
                    .map(|_| {
                        let late = late.clone();
                        tokio::spawn(async move { late.now().await })
                    })
                    .collect();
                tokio::task::yield_now().await;
                Ok((7, waiting))
            })
            .await
            .unwrap();
        assert_eq!(told, 7);
        tokio::task::yield_now().await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        catch_up.wanted().await;
        catch_up.poll(async { Ok(()) }).await.unwrap();
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(catch_up.age(), Some(Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn whoever_waits_hears_that_the_store_cannot_be_asked() {
        let catch_up = CatchUp::default();
        let asking = catch_up.clone();
        let waiting = tokio::spawn(async move { asking.now().await });
        catch_up.wanted().await;
        let failed = async { Err::<(), _>(StoreError::Closed) };
        assert_eq!(catch_up.poll(failed).await, Err(StoreError::Closed));
        assert_eq!(waiting.await.unwrap(), Err(StoreError::Closed));
        assert_eq!(catch_up.failure(), Some(StoreError::Closed));
        assert_eq!(catch_up.age(), None);
        catch_up.poll(async { Ok(()) }).await.unwrap();
        assert_eq!(catch_up.failure(), None);
    }
}
