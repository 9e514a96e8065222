//! Every tunnel that is open, from its handshake to its close: for whoever asks
//! who is where, and for ending one.
//!
//! A tunnel writes here what becomes of it while it goes; nobody who reads
//! here makes it wait.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arcstr::ArcStr;

use super::stop::Stop;
use super::told::Told;
use crate::broker::DecisionId;
use crate::clock::Clock;
use crate::placement::{FarmId, HostId, ResourceId, Timestamp, TunnelId, UserKey};

/// The open tunnels. As many as connections of Guacamole at most, for which
/// there are so many places.
#[derive(Debug)]
pub struct Tunnels {
    open: Mutex<BTreeMap<TunnelId, Arc<Open>>>,
    /// All must end. Changed only while `open` is locked, so that none is listed
    /// without being told.
    is_over: AtomicBool,
    /// All that were ever open, and the bytes of those that have ended. Changed
    /// only while `open` is locked, so that no byte is missed or counted twice.
    past: Mutex<Totals>,
    clock: Clock,
}

/// What was open since the start, all in all; these only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Tunnels.
    pub connections: u64,
    /// Bytes relayed to guacd after handshakes.
    pub to_guacd: u64,
    /// Bytes relayed to Guacamole after handshakes.
    pub to_guacamole: u64,
}

/// One open tunnel.
#[derive(Debug)]
pub struct Open {
    id: TunnelId,
    peer: Option<SocketAddr>,
    since: Timestamp,
    facts: Mutex<Facts>,
    to_guacd: AtomicU64,
    to_guacamole: AtomicU64,
    /// By whoever ends this tunnel, or all.
    told: Told,
    /// An administrator ended it, not the end of the process.
    by_administrator: AtomicBool,
}

/// What a tunnel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its handshake is not over.
    Handshake,
    /// It was placed on a host.
    Brokered,
    /// None of ours: it goes where it went before.
    PassThrough,
    /// A seat in another tunnel.
    Join,
}

/// What is known of a tunnel so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Guacamole's word for what is spoken to the host: `rdp`, `vnc`.
    pub protocol: Option<ArcStr>,
    /// The Guacamole login, where one was said.
    pub login: Option<ArcStr>,
    /// The user, by the identity rules.
    pub user: Option<UserKey>,
    /// The host it was placed on.
    pub host: Option<HostId>,
    /// The farm it was placed in.
    pub farm: Option<FarmId>,
    /// The resource it names.
    pub resource: Option<ResourceId>,
    /// The decision it goes by.
    pub decision: Option<DecisionId>,
    /// When its RDP connection stood.
    pub stood: Option<Timestamp>,
    /// The tunnel a join sits in.
    pub joined: Option<TunnelId>,
}

/// A tunnel's own line in the list: taken out when it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    open: Arc<Open>,
    tunnels: Arc<Tunnels>,
}

impl Tunnels {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            is_over: AtomicBool::new(false),
            past: Mutex::default(),
            clock,
        })
    }

    /// A tunnel that is not listed yet.
    pub(super) fn entry(self: &Arc<Self>, id: TunnelId, peer: Option<SocketAddr>) -> Entry {
        let open = Open {
            id,
            peer,
            since: self.clock.now(),
            facts: Mutex::default(),
            to_guacd: AtomicU64::new(0),
            to_guacamole: AtomicU64::new(0),
            told: Told::default(),
            by_administrator: AtomicBool::new(false),
        };
        Entry {
            open: Arc::new(open),
            tunnels: Arc::clone(self),
        }
    }

    /// Tells all that are listed to end, and whoever will be.
    pub(super) fn end_all(&self) {
        let open = self.lock();
        self.is_over.store(true, Ordering::SeqCst);
        open.values().for_each(|tunnel| tunnel.told.tell());
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// How many were ever open, and what was relayed so far.
    pub fn totals(&self) -> Totals {
        let open = self.lock();
        let mut totals = *self.past();
        open.values().for_each(|tunnel| totals.relayed(tunnel));
        totals
    }

    /// Those that come after this id, in the order in which they were opened.
    pub fn after(&self, id: Option<&TunnelId>) -> Vec<Arc<Open>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let open = self.lock();
        let later = open.range::<TunnelId, _>((from, Bound::Unbounded));
        later.map(|(_, tunnel)| Arc::clone(tunnel)).collect()
    }

    /// One of them.
    pub fn find(&self, id: &TunnelId) -> Option<Arc<Open>> {
        self.lock().get(id).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TunnelId, Arc<Open>>> {
        // Insertion and removal leave no half-done state behind a panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn past(&self) -> MutexGuard<'_, Totals> {
        // Plain sums, each whole behind a panic.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Totals {
    fn relayed(&mut self, tunnel: &Open) {
        let (to_guacd, to_guacamole) = tunnel.bytes();
        self.to_guacd = self.to_guacd.saturating_add(to_guacd);
        self.to_guacamole = self.to_guacamole.saturating_add(to_guacamole);
    }
}

impl Open {
    /// Its id, which sorts by the time it was opened.
    pub fn id(&self) -> &TunnelId {
        &self.id
    }

    /// Who dialled us; `None` where the system could not tell.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// When it was accepted.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// What is known of it so far.
    pub fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// Bytes relayed since its handshake: to guacd, to Guacamole.
    pub fn bytes(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.to_guacd), read(&self.to_guacamole))
    }

    /// Ends it, on the next boundary of an instruction. It need not be told
    /// twice, whatever it is doing now.
    pub fn end(&self) {
        self.by_administrator.store(true, Ordering::SeqCst);
        self.told.tell();
    }

    /// Whether it must end, and who hears of it.
    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        // Plain values, each whole behind a panic.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// From here on it is listed.
    pub(super) fn list(&self) {
        let (id, open) = (self.open.id.clone(), Arc::clone(&self.open));
        let mut listed = self.tunnels.lock();
        if listed.insert(id, open).is_none() {
            self.tunnels.past().connections += 1;
        }
        if self.tunnels.is_over.load(Ordering::SeqCst) {
            self.open.told.tell();
        }
    }

    pub(super) fn id(&self) -> &TunnelId {
        &self.open.id
    }

    /// Adds to what is known.
    pub(super) fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.open.lock());
    }

    /// The host it was placed on last.
    pub(super) fn host(&self) -> Option<HostId> {
        self.open.lock().host.clone()
    }

    pub(super) fn stood(&self) {
        let now = self.tunnels.clock.now();
        self.note(|facts| facts.stood = Some(now));
    }

    /// Whether its RDP connection stood.
    pub(super) fn has_stood(&self) -> bool {
        self.open.lock().stood.is_some()
    }

    /// Bytes relayed since its handshake: to guacd, to Guacamole.
    pub(super) fn bytes(&self) -> (u64, u64) {
        self.open.bytes()
    }

    /// So many bytes were relayed to guacd altogether.
    pub(super) fn sent_to_guacd(&self, bytes: u64) {
        self.open.to_guacd.store(bytes, Ordering::Relaxed);
    }

    /// So many bytes were relayed to Guacamole altogether.
    pub(super) fn sent_to_guacamole(&self, bytes: u64) {
        self.open.to_guacamole.store(bytes, Ordering::Relaxed);
    }

    /// The tunnel as it is listed.
    pub(super) fn open(&self) -> &Arc<Open> {
        &self.open
    }

    /// Whether it must end, and who hears of it.
    pub(super) fn told(&self) -> &Told {
        self.open.told()
    }

    /// Why it must end.
    pub(super) fn told_to_end(&self) -> Stop {
        match self.open.by_administrator.load(Ordering::SeqCst) {
            true => Stop::Ended,
            false => Stop::Shutdown,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.open.told.leave();
        let mut listed = self.tunnels.lock();
        if let Some(ended) = listed.remove(&self.open.id) {
            self.tunnels.past().relayed(&ended);
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            kind: Kind::Handshake,
            protocol: None,
            login: None,
            user: None,
            host: None,
            farm: None,
            resource: None,
            decision: None,
            stood: None,
            joined: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tunnels: &Arc<Tunnels>, id: &str) -> Entry {
        let entry = tunnels.entry(id.into(), None);
        entry.list();
        entry
    }

    fn ids(tunnels: &Tunnels, after: Option<&str>) -> Vec<String> {
        let after = after.map(TunnelId::from);
        let listed = tunnels.after(after.as_ref());
        listed.iter().map(|open| open.id().to_string()).collect()
    }

    #[tokio::test]
    async fn a_tunnel_is_listed_until_it_is_dropped() {
        let tunnels = Tunnels::new(Clock::start());
        let unlisted = tunnels.entry("0".into(), None);
        let second = entry(&tunnels, "2");
        let first = entry(&tunnels, "1");
        assert_eq!(ids(&tunnels, None), ["1", "2"]);
        assert_eq!(ids(&tunnels, Some("1")), ["2"]);
        assert_eq!(tunnels.count(), 2);
        drop((first, unlisted));
        assert_eq!(ids(&tunnels, None), ["2"]);
        second.note(|facts| facts.kind = Kind::Join);
        let open = tunnels.find(&"2".into()).unwrap();
        assert_eq!(open.facts().kind, Kind::Join);
    }

    #[tokio::test]
    async fn totals_hold_what_is_open_and_what_has_ended() {
        let tunnels = Tunnels::new(Clock::start());
        let (one, other) = (entry(&tunnels, "1"), entry(&tunnels, "2"));
        // A health check never was a tunnel.
        drop(tunnels.entry("0".into(), None));
        one.sent_to_guacd(3);
        other.sent_to_guacd(4);
        other.sent_to_guacamole(50);
        let totals = Totals {
            connections: 2,
            to_guacd: 7,
            to_guacamole: 50,
        };
        assert_eq!(tunnels.totals(), totals);
        drop(one);
        assert_eq!(tunnels.totals(), totals);
        drop(other);
        assert_eq!(tunnels.totals(), totals);
        assert_eq!(tunnels.count(), 0);
    }

    #[tokio::test]
    async fn one_is_ended_alone_and_for_good_and_all_are_ended_by_shutdown() {
        let tunnels = Tunnels::new(Clock::start());
        let (one, other) = (entry(&tunnels, "1"), entry(&tunnels, "2"));
        tunnels.find(&"1".into()).unwrap().end();
        // Whoever looks later finds it told.
        assert!(one.told().is_told() && !other.told().is_told());
        assert!(matches!(one.told_to_end(), Stop::Ended));
        let unlisted = tunnels.entry("3".into(), None);
        tunnels.end_all();
        assert!(other.told().is_told() && !unlisted.told().is_told());
        // Who is listed behind it is told, too.
        unlisted.list();
        assert!(unlisted.told().is_told());
        assert!(matches!(other.told_to_end(), Stop::Shutdown));
        assert!(matches!(one.told_to_end(), Stop::Ended));
    }
}
