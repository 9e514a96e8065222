//! Connections that are kept and lent out one call at a time.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool::managed::{
    Manager, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult,
};
use tokio::task::AbortHandle;
use tokio_postgres::Client;

use super::dial::Dialer;
use crate::store::StoreError;

pub(super) type Pool = deadpool::managed::Pool<Dialer>;
pub(super) type Lent = Object<Dialer>;

/// One connection.
pub(super) struct Link {
    pub(super) client: Client,
    task: AbortHandle,
    /// It was asked something that it has not answered.
    owes_answer: AtomicBool,
}

impl Link {
    pub(super) fn new(client: Client, task: AbortHandle) -> Self {
        Self {
            client,
            task,
            owes_answer: AtomicBool::new(false),
        }
    }

    /// To be set before something is asked and cleared once it was answered: a
    /// call that is given up leaves it set, and nobody else waits behind it.
    pub(super) fn owes_answer(&self, owes: bool) {
        self.owes_answer.store(owes, Ordering::Relaxed);
    }

    fn is_good(&self) -> bool {
        !self.owes_answer.load(Ordering::Relaxed) && !self.client.is_closed()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("owes_answer", &self.owes_answer)
            .finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // One that is silent would not take a farewell either.
        if self.owes_answer.load(Ordering::Relaxed) {
            self.task.abort();
        }
    }
}

impl Manager for Dialer {
    type Type = Link;
    type Error = StoreError;

    async fn create(&self) -> Result<Link, StoreError> {
        self.dial().await
    }

    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<StoreError> {
        match link.is_good() {
            true => Ok(()),
            false => {
                // One that owes an answer is given up by us, or was noted.
                if !link.owes_answer.load(Ordering::Relaxed) {
                    self.note_loss();
                }
                Err(RecycleError::message("lost or owes an answer"))
            }
        }
    }
}

pub(super) fn pool(dialer: Dialer) -> Result<Pool, StoreError> {
    let most = dialer.settings().pool_size;
    // The one used last is the one most likely to be good.
    let pool = Pool::builder(dialer)
        .max_size(most)
        .queue_mode(QueueMode::Lifo)
        .build();
    // It fails with timeouts and no runtime only, and there are none.
    pool.map_err(|_| StoreError::Closed)
}

/// A connection that is good as far as is known.
pub(super) async fn lend(pool: &Pool) -> Result<Lent, StoreError> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => error,
        PoolError::Closed
        | PoolError::Timeout(_)
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(_) => StoreError::Closed,
    })
}
