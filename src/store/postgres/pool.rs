//! Connections that are kept and lent out one call at a time.
//!
//! The pool keeps a cache of statements with names as well; nobody here asks it
//! for one, since a pooler in between has none of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Connect, Hook, HookError, Manager, ManagerConfig, Object, PoolError, QueueMode, RecyclingMethod,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::{Client, Config, Error};

use super::arrivals::{Arrivals, Dial};
use super::carried::{carried, carry};
use super::dial::{Dialer, moved_along};
use crate::store::{Connections, Losses, StoreError};

pub(super) type Pool = deadpool_postgres::Pool;

/// Who is asked and says nothing for so long may be gone without a word.
const SILENT: Duration = Duration::from_secs(1);

/// One connection, for one call.
pub(super) struct Lent {
    // INVARIANT: `Some` until dropped.
    object: Option<Object>,
    /// It was asked something that it has not answered.
    owes_answer: AtomicBool,
    since: Instant,
    losses: Losses,
}

impl Lent {
    pub(super) fn client(&self) -> Result<&Client, StoreError> {
        let object = self.object.as_ref().ok_or(StoreError::Closed)?;
        Ok(object)
    }

    /// To be set before something is asked and cleared once it was answered: a
    /// call that is given up leaves it set, and nobody else waits behind it.
    pub(super) fn owes_answer(&self, owes: bool) {
        self.owes_answer.store(owes, Ordering::Relaxed);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.owes_answer.load(Ordering::Relaxed) {
            // Out of the pool, and closed without a farewell: one that is
            // silent would not take it either.
            drop(self.object.take().map(Object::take));
            if self.since.elapsed() >= SILENT {
                self.losses.note();
            }
        }
    }
}

/// Makes the pool's connections. What they are made with the dialer knows.
struct Dialling {
    arrivals: Arc<Arrivals<Arrival>>,
    losses: Losses,
}

/// A connection that nobody has yet.
struct Arrival {
    client: Client,
    task: JoinHandle<()>,
    began: std::time::Instant,
    losses: Losses,
}

impl Arrival {
    /// As in the pool: no older than the last loss.
    fn is_good(&self) -> bool {
        !self.client.is_closed() && !self.losses.any_since(self.began)
    }
}

type Connected = Result<(Client, JoinHandle<()>), Error>;

impl Connect for Dialling {
    fn connect(
        &self,
        _: &Config,
    ) -> std::pin::Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        Box::pin(async {
            match self.arrivals.next().await {
                Ok(Arrival { client, task, .. }) => Ok((client, task)),
                Err(reason) => {
                    let (client, connection) = carry(reason).await?;
                    Ok(moved_along(client, connection, &self.losses))
                }
            }
        })
    }
}

pub(super) fn pool(dialer: Arc<Dialer>) -> Result<Pool, StoreError> {
    let most = dialer.settings().pool_size;
    let losses = dialer.losses().clone();
    let config = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let dial = move || -> Dial<_> {
        let dialer = Arc::clone(&dialer);
        Box::pin(async move {
            let began = std::time::Instant::now();
            let (client, task) = dialer.dial().await?;
            Ok(Arrival {
                client,
                task,
                began,
                losses: dialer.losses().clone(),
            })
        })
    };
    let arrivals = Arrivals::new(dial, Arrival::is_good);
    let dialling = Dialling {
        arrivals,
        losses: losses.clone(),
    };
    let manager = Manager::from_connect(Config::new(), dialling, config);
    let pool = Pool::builder(manager)
        .max_size(most)
        // The one used last is the one most likely to be good.
        .queue_mode(QueueMode::Lifo)
        // One that is older than the last loss may lead to a server that is
        // the right one no more.
        .pre_recycle(Hook::sync_fn(move |client, metrics| {
            match client.is_closed() || losses.any_since(metrics.created) {
                false => Ok(()),
                true => Err(HookError::message("lost")),
            }
        }))
        .build();
    // It fails with timeouts and no runtime only, and there are none.
    pool.map_err(|_| StoreError::Closed)
}

/// How connections are used.
pub(super) fn connections(pool: &Pool) -> Connections {
    let status = pool.status();
    Connections {
        in_use: status.size.saturating_sub(status.available),
        idle: status.available,
        most: status.max_size,
        waiting: status.waiting,
    }
}

/// A connection that is good as far as is known.
pub(super) async fn lend(pool: &Pool, dialer: &Dialer) -> Result<Lent, StoreError> {
    let lent = pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => {
            carried(&error).unwrap_or_else(|| dialer.whereabouts().said(&error))
        }
        PoolError::Closed
        | PoolError::Timeout(_)
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(_) => StoreError::Closed,
    });
    Ok(Lent {
        object: Some(lent?),
        owes_answer: AtomicBool::new(false),
        since: Instant::now(),
        losses: dialer.losses().clone(),
    })
}
