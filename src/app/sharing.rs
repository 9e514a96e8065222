//! From the moment on when others write to our store as well: what keeps up with
//! them, and tells them of our tunnels.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::Stored;
use crate::broker::{Broker, CatchUp};
use crate::clock::Clock;
use crate::commands::Commands;
use crate::fleet::Fleet;
use crate::follow::{Follower, GuestList};
use crate::keys::Keyring;
use crate::placement::ReplicaId;
use crate::reports::Intake;
use crate::store::Movable;

/// What it takes; begun once at most.
pub(super) struct Sharing {
    /// Who we are among those who write.
    pub(super) me: ReplicaId,
    pub(super) store: Arc<Stored>,
    /// The embedded store, which knows of itself alone.
    pub(super) movable: Option<Movable>,
    pub(super) fleet: Arc<Fleet>,
    pub(super) broker: Broker,
    pub(super) intake: Intake,
    pub(super) keys: Keyring,
    pub(super) commands: Commands,
    pub(super) clock: Clock,
    /// Ends what follows.
    pub(super) following: CancellationToken,
    /// Ends what tells of our tunnels, after the last of them.
    pub(super) telling: CancellationToken,
    pub(super) followers: TaskTracker,
    pub(super) tellers: TaskTracker,
    pub(super) begun: OnceLock<()>,
    /// Set once another process places whoever comes.
    pub(super) rests: Arc<AtomicBool>,
}

impl Sharing {
    /// Others may be writing from now on. On the runtime of the tunnels.
    pub(super) fn begin(&self) {
        if self.begun.set(()).is_err() {
            return;
        }
        info!(replica = %self.me, "Others share the store");
        if self.fleet.replica().is_none() {
            self.fleet.shares_as(self.me.clone());
        }
        if let Some(movable) = &self.movable {
            movable.share();
        }
        let catch_up = CatchUp::default();
        self.commands.share();
        self.intake.share();
        let follower = Follower {
            store: Arc::clone(&self.store),
            catch_up: catch_up.clone(),
            fleet: Arc::clone(&self.fleet),
            broker: self.broker.clone(),
            intake: self.intake.clone(),
            keys: self.keys.clone(),
            commands: self.commands.clone(),
            clock: self.clock,
            rests: Arc::clone(&self.rests),
        };
        let guests = GuestList {
            store: Arc::clone(&self.store),
            fleet: Arc::clone(&self.fleet),
            me: self.me.clone(),
            clock: self.clock,
        };
        self.followers.spawn(follower.run(self.following.clone()));
        self.tellers.spawn(guests.run(self.telling.clone()));
        // Whoever is placed waits for what follows, which runs by now.
        self.broker.follows(catch_up);
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}
