//! How much is served at a time. Beyond it users are told so at once, in the
//! form of every refusal, and whoever is served already notices nothing.
//!
//! ```text
//! accept: a place, given up by whoever is silent  (connections)
//!   whole select: a tunnel, to its end            (max_tunnels)
//!     guacd's dial until its args arrived          (max_guacd_dials)
//! ```
//!
//! Both maxima may be changed while tunnels run; what is open stays open.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::stop::Stop;
use crate::config::Current;
use crate::entrance::{Beyond, Places};

/// Unless it is set or the descriptors are fewer.
const TUNNELS: usize = 20_000;
/// Connections for each tunnel: those beyond have not asked for one yet, or are
/// being told no. Further ones are closed without a word.
const CONNECTIONS: usize = 2;

/// What the descriptors allow.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Most tunnels.
    pub tunnels: usize,
    /// Most connections of Guacamole, tunnels among them.
    pub connections: usize,
}

/// What is served, and how much of it at most.
#[derive(Debug)]
pub struct Limits {
    config: Current,
    /// Most tunnels the descriptors allow.
    room: usize,
    connections: Arc<Places>,
    tunnels: AtomicUsize,
    tunnels_refused: AtomicU64,
    /// Whoever waits here has a tunnel: they are as many at most.
    turns: Semaphore,
    /// How many turns there are, taken ones among them.
    turns_made: Mutex<usize>,
    waiting: AtomicUsize,
    dials_refused: AtomicU64,
}

/// One tunnel, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted(Arc<Limits>);

/// How things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Connections of Guacamole.
    pub connections: usize,
    /// Most of them.
    pub most_connections: usize,
    /// Those that were closed for want of a place, since the start.
    pub connections_closed: u64,
    /// Tunnels, those whose handshake is not over among them.
    pub tunnels: usize,
    /// Most of them.
    pub most_tunnels: usize,
    /// Those that were refused, since the start.
    pub tunnels_refused: u64,
    /// Connections to guacd that are being opened.
    pub dials: usize,
    /// Most of them.
    pub most_dials: usize,
    /// Tunnels that wait for their turn to dial.
    pub dials_waiting: usize,
    /// Those that did not get it in time, since the start.
    pub dials_refused: u64,
}

impl Room {
    /// Nobody asked the system.
    pub(super) const UNKNOWN: Self = Self {
        tunnels: usize::MAX,
        connections: usize::MAX,
    };
}

impl Limits {
    /// Nothing is served yet.
    pub fn new(config: Current, room: Room) -> Arc<Self> {
        let wanted = config.get().limits.max_tunnels.unwrap_or(TUNNELS);
        let most = wanted.max(TUNNELS).saturating_mul(CONNECTIONS);
        let most = most.min(room.connections);
        Arc::new(Self {
            config,
            room: room.tunnels,
            connections: Places::new("Guacamole", most, Beyond::Close),
            tunnels: AtomicUsize::new(0),
            tunnels_refused: AtomicU64::new(0),
            turns: Semaphore::new(0),
            turns_made: Mutex::new(0),
            waiting: AtomicUsize::new(0),
            dials_refused: AtomicU64::new(0),
        })
    }

    /// Places for Guacamole's connections, one a connection.
    pub(super) fn connections(&self) -> &Arc<Places> {
        &self.connections
    }

    /// Most tunnels, by the configuration in force.
    pub fn most_tunnels(&self) -> usize {
        let wanted = self.config.get().limits.max_tunnels;
        wanted.unwrap_or(TUNNELS).min(self.room)
    }

    /// One more tunnel.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn tunnel(self: &Arc<Self>) -> Result<Counted, Stop> {
        let most = self.most_tunnels();
        let one_more = |open: usize| (open < most).then_some(open + 1);
        let (relaxed, tunnels) = (Ordering::Relaxed, &self.tunnels);
        match tunnels.fetch_update(relaxed, relaxed, one_more) {
            Ok(_) => Ok(Counted(Arc::clone(self))),
            Err(_) => {
                self.tunnels_refused.fetch_add(1, relaxed);
                Err(Stop::TunnelsFull { most })
            }
        }
    }

    /// A turn to dial guacd, in the order in which it was asked for; to be held
    /// until guacd's `args` arrived, and not while anybody else is waited for.
    ///
    /// # Errors
    /// None was free by then.
    pub(super) async fn dial(&self, by: Instant) -> Result<SemaphorePermit<'_>, Stop> {
        let most = self.make_turns();
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(turn);
        }
        let _counted = Waiting::one(&self.waiting);
        match timeout_at(by, self.turns.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            // It is never closed.
            Ok(Err(_)) | Err(_) => {
                self.dials_refused.fetch_add(1, Ordering::Relaxed);
                Err(Stop::DialsFull { most })
            }
        }
    }

    /// Makes turns as many as the configuration in force says; of too many
    /// those that are taken go when they are given back.
    fn make_turns(&self) -> usize {
        let most = self.config.get().limits.max_guacd_dials;
        let mut made = self.lock_turns();
        match most.checked_sub(*made) {
            Some(more) => {
                self.turns.add_permits(more);
                *made = most;
            }
            None => *made -= self.turns.forget_permits(*made - most),
        }
        most
    }

    fn lock_turns(&self) -> std::sync::MutexGuard<'_, usize> {
        // A plain number, whole behind a panic.
        self.turns_made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How things stand at this moment.
    pub fn load(&self) -> Load {
        let most_dials = self.make_turns();
        let dials = self
            .lock_turns()
            .saturating_sub(self.turns.available_permits());
        Load {
            connections: self.connections.taken(),
            most_connections: self.connections.most(),
            connections_closed: self.connections.closed(),
            tunnels: self.tunnels.load(Ordering::Relaxed),
            most_tunnels: self.most_tunnels(),
            tunnels_refused: self.tunnels_refused.load(Ordering::Relaxed),
            dials,
            most_dials,
            dials_waiting: self.waiting.load(Ordering::Relaxed),
            dials_refused: self.dials_refused.load(Ordering::Relaxed),
        }
    }
}

impl Load {
    /// What will soon turn users away, or does so already, in words.
    pub fn strains(&self) -> Vec<String> {
        let mut strains = Vec::new();
        // Nine in ten.
        if self.tunnels.saturating_mul(10) >= self.most_tunnels.saturating_mul(9) {
            strains.push(format!(
                "{} of at most {} tunnels are open (max_tunnels in [limits], and the limit of descriptors)",
                self.tunnels, self.most_tunnels
            ));
        }
        if self.dials_waiting > 0 && self.dials >= self.most_dials {
            strains.push(format!(
                "{} connections wait for their turn to dial guacd, which has not answered {} others yet \
                 (max_guacd_dials in [limits])",
                self.dials_waiting, self.dials
            ));
        }
        strains
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.tunnels.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Somebody who waits, counted until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn one(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Config, InForce};

    const ROOM: Room = Room {
        tunnels: 5,
        connections: 10,
    };

    fn config(max_tunnels: Option<usize>, max_guacd_dials: usize) -> Arc<Config> {
        let mut config = Config::default();
        config.limits.max_tunnels = max_tunnels;
        config.limits.max_guacd_dials = max_guacd_dials;
        Arc::new(config)
    }

    fn by() -> Instant {
        Instant::now() + Duration::from_secs(4)
    }

    #[test]
    fn tunnels_are_as_many_as_configured_and_as_the_descriptors_allow() {
        let in_force = InForce::new(config(Some(2), 1));
        let limits = Limits::new(in_force.current(), ROOM);
        let (one, _other) = (limits.tunnel().unwrap(), limits.tunnel().unwrap());
        assert!(matches!(
            limits.tunnel(),
            Err(Stop::TunnelsFull { most: 2 })
        ));
        drop(one);
        let _again = limits.tunnel().unwrap();
        // From the next one on, and what is open stays open.
        in_force.set(config(Some(1), 1));
        assert!(limits.tunnel().is_err());
        let load = limits.load();
        assert_eq!((load.tunnels, load.tunnels_refused), (2, 2));
        assert_eq!(load.most_connections, ROOM.connections);
        for more in [Some(9), None] {
            in_force.set(config(more, 1));
            assert_eq!(limits.most_tunnels(), ROOM.tunnels);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dials_wait_for_their_turn_and_not_for_ever() {
        let in_force = InForce::new(config(None, 1));
        let limits = Limits::new(in_force.current(), ROOM);
        let turn = limits.dial(by()).await.unwrap();
        let start = Instant::now();
        let waited = limits.dial(by()).await;
        assert!(matches!(waited, Err(Stop::DialsFull { most: 1 })));
        assert_eq!(start.elapsed(), Duration::from_secs(4));
        let next = tokio::spawn({
            let limits = Arc::clone(&limits);
            async move { limits.dial(by()).await.map(drop).is_ok() }
        });
        tokio::task::yield_now().await;
        let load = limits.load();
        assert_eq!((load.dials, load.most_dials, load.dials_waiting), (1, 1, 1));
        assert!(load.strains()[0].starts_with("1 connections wait"));
        drop(turn);
        assert!(next.await.unwrap());
        let load = limits.load();
        assert_eq!(
            (load.dials, load.dials_waiting, load.dials_refused),
            (0, 0, 1)
        );
        assert_eq!(load.strains(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_become_more_and_fewer_while_some_are_taken() {
        let in_force = InForce::new(config(None, 2));
        let limits = Limits::new(in_force.current(), ROOM);
        let (one, other) = (limits.dial(by()).await, limits.dial(by()).await);
        in_force.set(config(None, 3));
        let third = limits.dial(by()).await;
        assert!(third.is_ok() && limits.dial(by()).await.is_err());
        in_force.set(config(None, 1));
        assert_eq!(limits.load().dials, 3);
        drop((one, third));
        assert!(limits.dial(by()).await.is_err());
        assert_eq!(limits.load().dials, 1);
        drop(other);
        let only = limits.dial(by()).await;
        assert!(only.is_ok() && limits.dial(by()).await.is_err());
    }

    #[test]
    fn nine_tunnels_of_ten_are_a_strain() {
        let mut load = Load {
            most_tunnels: 100,
            tunnels: 89,
            ..Load::default()
        };
        assert_eq!(load.strains(), [""; 0]);
        load.tunnels = 90;
        assert!(load.strains()[0].starts_with("90 of at most 100 tunnels are open"));
    }
}
