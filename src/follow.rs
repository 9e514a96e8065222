//! Keeps up with other replicas that share the store: one task asks it for all
//! that was changed and hands each room its part.
//!
//! ```text
//! store.changes() --> leases, orders, guests --> broker --> picture, in one step
//!                 --> reports, keys, commands --> their rooms
//! our guests     --> store (the tunnels that no lease record tells of)
//! ```
//!
//! It asks every [`PAUSE`], and at once where a placement was found to be
//! behind. What a placement may be bound by is in the picture before whoever
//! waits for that is told.
//!
//! Moments that people give (until when an order, a key or a command holds)
//! are of the clock of the replica they were given at: replicas' clocks have to
//! agree as well as an order is to be on time. Leases go by the store's clock,
//! reports of others by ours.

mod guests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use uuid::Uuid;

use crate::broker::{Broker, CatchUp, Modes};
use crate::clock::Clock;
use crate::commands::Commands;
use crate::fleet::{Fleet, Guest, News, Told};
use crate::keys::Keyring;
use crate::placement::{Actor, HostId, Mode, Order, Orders, ReplicaId};
use crate::reports::Intake;
use crate::store::{Changed, Changes, Document, Documents, Kind, Mark, StoreError};

pub use guests::GuestList;

/// Between two polls: others' writing is here by then.
pub const PAUSE: Duration = Duration::from_millis(250);

/// The same where nobody is placed but at the end of what had begun: reports on
/// open tunnels are heard of by then.
const RESTING: Duration = Duration::from_secs(2);

/// Shortest time between two polls, however many placements wait: they wait for
/// the same one then.
const SHORTEST: Duration = Duration::from_millis(3);

/// An id for this process among the replicas.
pub fn replica() -> ReplicaId {
    Uuid::now_v7().to_string().into()
}

/// The task that keeps up.
pub struct Follower<S> {
    /// Where it is all stored.
    pub store: Arc<S>,
    /// Who waits for it.
    pub catch_up: CatchUp,
    /// The live picture.
    pub fleet: Arc<Fleet>,
    /// For leases and orders.
    pub broker: Broker,
    /// For reports.
    pub intake: Intake,
    /// For keys.
    pub keys: Keyring,
    /// For commands.
    pub commands: Commands,
    /// For moments.
    pub clock: Clock,
    /// Set once it places nobody anew: then it asks less often.
    pub rests: Arc<AtomicBool>,
}

/// What a poll told besides leases and orders.
#[derive(Default)]
struct Rest {
    reports: Vec<(HostId, Option<Document>)>,
    keys: Vec<(String, Option<Document>)>,
    commands: Vec<(String, Option<Document>)>,
    whole: bool,
}

impl<S: Changes + Documents> Follower<S> {
    /// Runs until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let (mut mark, mut failing) = (Mark::default(), false);
        loop {
            let began = Instant::now();
            let polled = tokio::select! {
                () = stop.cancelled() => return,
                polled = self.catch_up.poll(self.poll(mark)) => polled,
            };
            let taken = match polled {
                Ok((next, rest)) => self.take_over(rest).await.map(|()| next),
                Err(error) => Err(error),
            };
            match taken {
                Ok(next) => {
                    mark = next;
                    if failing {
                        info!("Other replicas are heard again");
                    }
                    failing = false;
                }
                Err(error) => {
                    if !failing {
                        warn!(%error, "Other replicas cannot be heard: the store does not tell what they changed");
                    }
                    failing = true;
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(began + self.pause()) => {}
                () = self.catch_up.wanted() => sleep(SHORTEST).await,
            }
        }
    }

    fn pause(&self) -> Duration {
        match self.rests.load(Ordering::Relaxed) {
            true => RESTING,
            false => PAUSE,
        }
    }

    /// Takes over what may bar or bind a placement, which waits for no more
    /// than that.
    async fn poll(&self, mark: Mark) -> Result<(Mark, Rest), StoreError> {
        let poll = self.fleet.polls();
        let changed = self.store.changes(mark).await?;
        let Changed {
            leases,
            documents,
            standings,
            mark,
            whole,
        } = changed;
        let mut news = News {
            leases,
            standings,
            whole,
            ..News::default()
        };
        let mut rest = Rest {
            whole,
            ..Rest::default()
        };
        for (kind, id, document) in documents {
            match kind {
                Kind::Mode => news.orders.push(self.orders(id, document)),
                Kind::Guests => news.guests.push(guests(id, document)),
                Kind::Report => rest.reports.push((HostId::from(id), document)),
                Kind::Key => rest.keys.push((id, document)),
                Kind::Command => rest.commands.push((id, document)),
                // How to reach it is another's to know.
                Kind::Replica => {}
            }
        }
        self.broker.follow(poll, news);
        Ok((mark, rest))
    }

    async fn take_over(&self, rest: Rest) -> Result<(), StoreError> {
        self.commands.follow(rest.commands);
        self.intake.follow(&self.broker, rest.reports, rest.whole);
        self.keys.follow(rest.keys, rest.whole).await
    }

    /// A host's orders. What cannot be read may bar everybody, and so it does.
    fn orders(&self, id: String, document: Option<Document>) -> (HostId, Told<Arc<Orders>>) {
        let orders = document.map(|document| {
            let orders = Modes::read(&document).unwrap_or_else(|error| {
                warn!(host = id, %error, "A host is kept in maintenance until its mode can be read");
                let order = Order {
                    mode: Mode::Maintenance,
                    by: Actor::User {
                        uid: None,
                        name: None,
                    },
                    reason: Some("its mode was stored by a newer release".to_owned()),
                    message: None,
                    at: self.clock.now(),
                    from: None,
                    until: None,
                    restart_when_drained: false,
                    online_after_restart: false,
                };
                Orders::default().give(Mode::Online, order).0
            });
            (document.version, Arc::new(orders))
        });
        (id.into(), orders)
    }
}

fn guests(id: String, document: Option<Document>) -> (ReplicaId, Told<Vec<Guest>>) {
    let list = document.map(|document| {
        let list = guests::read(&document).unwrap_or_else(|error| {
            warn!(replica = id, %error, "Another replica's list of tunnels cannot be read");
            Vec::new()
        });
        (document.version, list)
    });
    (id.into(), list)
}

impl<S> std::fmt::Debug for Follower<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
