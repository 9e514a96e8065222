//! Several guacd: which one a new tunnel goes to, and what is known of each.
//!
//! ```text
//! config::GuacdPool --names--> addresses --> Search: fewest tunnels first, ties in turn;
//!                                              |     those put aside last
//!                                              v
//!                                  dial, one after the other --> Dialled, counted until dropped
//!                                              |
//!                                   fails: put aside for ASIDE
//! ```
//!
//! One that fails to be dialled gets nobody for a while, unless all the others
//! fail, too; then whoever comes tries it, one at a time, and it is a guacd like
//! the others once it answers. A search knows nothing of hosts: which of several
//! pools it goes through is for whoever starts it to choose.

mod names;
mod search;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::stop::Stop;
use crate::config::{Guacd, GuacdPool, HostPort};
use crate::metrics::Metrics;
use crate::tls::{Certificates, Stream};

use names::Names;
pub(super) use search::{FIRST_WORD, Search};

/// How long one that failed to be dialled gets nobody.
const ASIDE: Duration = Duration::from_secs(10);

/// One guacd: an address that its name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) guacd: Guacd,
    pub(super) at: SocketAddr,
}

/// Every guacd there is to be told of, and how they stand.
#[derive(Debug)]
pub struct Pool {
    standings: Mutex<BTreeMap<Key, Standing>>,
    /// Among equals each has its turn.
    turn: AtomicUsize,
    names: Names,
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
}

/// The name as configured, and one of its addresses.
type Key = (HostPort, SocketAddr);

#[derive(Debug, Default)]
struct Standing {
    /// Connections to it, those that are being opened among them.
    open: usize,
    aside: Option<Aside>,
    /// As it was dialled last, for whoever has a connection to it.
    member: Option<Arc<Member>>,
}

/// Why one gets nobody, and until when.
#[derive(Debug)]
struct Aside {
    until: Instant,
    why: String,
}

/// How a guacd stands, for whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuacdStanding {
    /// The name as configured.
    pub name: HostPort,
    /// One of its addresses.
    pub address: SocketAddr,
    /// Connections to it, those that are being opened among them.
    pub tunnels: usize,
    /// For how long it gets nobody, unless all the others fail; `None` where it
    /// is used.
    pub aside: Option<Duration>,
    /// How it failed when it was last dialled; `None` where it did not.
    pub failure: Option<String>,
}

/// One more connection to a guacd, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    member: Arc<Member>,
    pool: Arc<Pool>,
}

/// A connection to a guacd, counted until it is dropped; or to a replica that
/// has the one that is meant.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) stream: Stream,
    taken: Option<Taken>,
}

impl Pool {
    pub(super) fn new(certificates: Arc<Certificates>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            standings: Mutex::default(),
            turn: AtomicUsize::new(0),
            names: Names::default(),
            certificates,
            metrics,
        })
    }

    /// Looks for one that takes a new tunnel.
    pub(super) async fn search(self: &Arc<Self>, pool: &GuacdPool) -> Search {
        let begun = Instant::now();
        let (members, unknown) = self.names.members(pool).await;
        self.forget_others(&members);
        let within = pool.connect_timeout().saturating_sub(begun.elapsed());
        Search::new(Arc::clone(self), members, unknown, within)
    }

    /// Looks for this one and no other.
    pub(super) fn only(self: &Arc<Self>, member: &Member) -> Search {
        let within = member.guacd.connect_timeout;
        Search::new(Arc::clone(self), vec![member.clone()], None, within)
    }

    /// How each stands that `configured` names, in its order.
    pub fn standings(&self, configured: &GuacdPool) -> Vec<GuacdStanding> {
        let (standings, now) = (self.lock(), Instant::now());
        let named = configured.members.iter();
        named
            .flat_map(|guacd| {
                let all = standings.iter();
                all.filter(move |((name, _), _)| *name == guacd.address)
            })
            .map(|((name, address), standing)| {
                let aside = standing.aside.as_ref();
                GuacdStanding {
                    name: name.clone(),
                    address: *address,
                    tunnels: standing.open,
                    aside: aside
                        .map(|aside| aside.until.saturating_duration_since(now))
                        .filter(|left| !left.is_zero()),
                    failure: aside.map(|aside| aside.why.clone()),
                }
            })
            .collect()
    }

    /// Pods come and go: what is not used and not named any more is forgotten.
    fn forget_others(&self, members: &[Member]) {
        let mut standings = self.lock();
        standings.retain(|key, standing| {
            standing.open > 0 || members.iter().any(|member| member.is(key))
        });
        for member in members {
            standings.entry(member.key()).or_default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Standing>> {
        // Plain values, each whole behind a panic.
        self.standings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn key(&self) -> Key {
        (self.guacd.address.clone(), self.at)
    }

    fn is(&self, (name, at): &Key) -> bool {
        self.guacd.address == *name && self.at == *at
    }
}

/// As configured, with the address where that is a name.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.guacd.address;
        match name.host.parse::<std::net::IpAddr>() {
            Ok(_) => write!(f, "{name}"),
            Err(_) => write!(f, "{name} ({})", self.at.ip()),
        }
    }
}

impl Standing {
    fn is_aside(&self, now: Instant) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.until > now)
    }
}

impl Taken {
    /// It gets nobody for a while. `others` are there.
    fn put_aside(&self, why: &str, others: bool) {
        let mut standings = self.pool.lock();
        let standing = standings.entry(self.member.key()).or_default();
        let is_news = standing.aside.is_none();
        standing.aside = Some(Aside {
            until: Instant::now() + ASIDE,
            why: why.to_owned(),
        });
        drop(standings);
        if is_news && others {
            warn!(guacd = %self.member, reason = why, "Guacd put aside for a while");
        }
    }

    /// It is a guacd like the others.
    fn is_well(&self) {
        let mut standings = self.pool.lock();
        let standing = standings.entry(self.member.key()).or_default();
        if standing.aside.take().is_some() {
            drop(standings);
            info!(guacd = %self.member, "Guacd answers again");
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut standings = self.pool.lock();
        if let Some(standing) = standings.get_mut(&self.member.key()) {
            standing.open = standing.open.saturating_sub(1);
        }
    }
}

impl Dialled {
    /// A replica, which is no guacd of ours.
    pub(super) fn replica(stream: Stream) -> Self {
        Self {
            stream,
            taken: None,
        }
    }

    /// Which guacd it is; `None` for a replica.
    pub(super) fn member(&self) -> Option<&Arc<Member>> {
        self.taken.as_ref().map(|taken| &taken.member)
    }

    /// It takes connections and answers nothing.
    pub(super) fn is_silent(&self) {
        if let Some(taken) = &self.taken {
            taken.put_aside(&Stop::GuacdSilent.to_string(), true);
        }
    }

    /// It has answered.
    pub(super) fn is_well(&self) {
        if let Some(taken) = &self.taken {
            taken.is_well();
        }
    }

    /// The connection, and what is to be kept for as long as it is open.
    pub(super) fn apart(self) -> (Stream, Option<Taken>) {
        (self.stream, self.taken)
    }
}
