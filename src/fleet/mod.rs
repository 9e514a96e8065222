//! The live picture: configuration, probes, our own tunnels and lingering
//! leases, published as one immutable [`Snapshot`] after every change.
//!
//! The fleet is the one door through which a host's figures change, so that
//! counters cannot drift apart. It decides nothing: the broker hands it the
//! decision to make on the picture as it stands.

mod apply;
mod attempt;
mod check;
mod elsewhere;
mod guests;
mod heartbeat;
mod lookup;
mod modes;
mod probe;
mod recorded;
mod report;
mod seat;
mod writings;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::placement::{
    Directory, Host, HostId, HostView, Known, Orders, Probe, Snapshot, Standing, Timestamp, Trust,
    TunnelId, TunnelView,
};

pub use attempt::SeatAttempt;
pub use check::{Check, Checks};
use elsewhere::{AllWritings, Sharing};
pub use elsewhere::{News, Told};
pub use guests::Guest;
use guests::Listed;
pub use heartbeat::{CommandResult, Figure, Heartbeat, HeartbeatError, ReportedSession};
pub use probe::Prober;
use recorded::Recorded;
pub use seat::Seat;
pub use writings::Poll;

/// The live picture of every configured host.
#[derive(Debug)]
pub struct Fleet {
    state: Mutex<State>,
    published: ArcSwap<Snapshot>,
    /// Whether there was a moment when every host had been probed.
    probed: watch::Sender<bool>,
    /// The generation published last.
    generation: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    snapshot: Snapshot,
    recorded: Recorded,
    /// What was ordered, also for hosts that are not configured.
    orders: BTreeMap<HostId, Arc<Orders>>,
    /// `None`: the store is ours alone, and nobody else is there.
    sharing: Option<Sharing>,
    writings: AllWritings,
    listed: Listed,
    /// Of hosts that are not configured, too.
    standings: BTreeMap<HostId, Standing>,
    /// The last poll that began.
    polled: Poll,
}

impl Fleet {
    /// A fleet of the configured hosts, each in its configured mode, none probed.
    pub fn new(directory: Arc<Directory>) -> Arc<Self> {
        let hosts = directory.hosts();
        let hosts = hosts.map(|host| {
            (
                host.id.clone(),
                apply::fresh(host, None, Standing::default()),
            )
        });
        let snapshot = Snapshot {
            generation: 1,
            configuration: 1,
            hosts: hosts.collect(),
            directory,
            ..Snapshot::default()
        };
        Arc::new(Self {
            probed: watch::Sender::new(apply::is_probed(&snapshot)),
            published: ArcSwap::from_pointee(snapshot.clone()),
            state: Mutex::new(State {
                snapshot,
                recorded: Recorded::default(),
                orders: BTreeMap::new(),
                sharing: None,
                writings: AllWritings::default(),
                listed: Listed::default(),
                standings: BTreeMap::new(),
                polled: Poll::default(),
            }),
            generation: watch::Sender::new(1),
        })
    }

    /// From this moment on agents can be heard.
    pub fn listens_from(&self, now: Timestamp) {
        self.change(|state| state.snapshot.started = now);
    }

    /// The picture as it stands.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    /// Returns once every host was probed at least once. Before that nobody
    /// knows which hosts are there, and the first to answer would get everybody.
    /// From then on it returns at once: hosts that a reload brings do not keep
    /// the others waiting.
    pub async fn probed(&self) {
        let mut probed = self.probed.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = probed.wait_for(|&probed| probed).await;
    }

    /// Returns once a newer picture than this generation is published.
    pub async fn newer_than(&self, generation: u64) {
        let mut published = self.generation.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = published.wait_for(|&latest| latest > generation).await;
    }

    /// A tunnel that was in doubt is its user's after all.
    pub fn believe(&self, host: &HostId, tunnel: &TunnelId) {
        self.change(|state| {
            state.tunnel(host, tunnel, |known| known.trust = Trust::Plain);
        });
    }

    /// Takes over what a probe of this host found. Returns how long the host
    /// had been in the state it left, where this changed it.
    pub(crate) fn note_answer(
        &self,
        asked: &Host,
        answers: bool,
        now: Timestamp,
    ) -> Option<Duration> {
        self.change_if(|state| {
            let host = state.snapshot.directory.host(&asked.id);
            // An answer from where the host was says nothing of where it is.
            if host.is_none_or(|host| !apply::same_place(host, asked)) {
                return (false, None);
            }
            let at_start = !*self.probed.borrow();
            let lasted = state.note_answer(&asked.id, answers, at_start, now);
            (lasted.is_some(), lasted)
        })
    }

    #[cfg(test)]
    pub(crate) fn note_probe(
        &self,
        id: &HostId,
        answers: bool,
        now: Timestamp,
    ) -> Option<Duration> {
        let directory = Arc::clone(&self.snapshot().directory);
        self.note_answer(directory.host(id)?, answers, now)
    }

    /// Changes the picture and publishes it as the next generation.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.change_if(|state| (true, change(state)))
    }

    /// The same where `change` says that it changed something.
    fn change_if<T>(&self, change: impl FnOnce(&mut State) -> (bool, T)) -> T {
        let mut state = self.lock();
        let (changed, result) = change(&mut state);
        if !changed {
            return result;
        }
        state.snapshot.generation += 1;
        self.published.store(Arc::new(state.snapshot.clone()));
        self.generation.send_replace(state.snapshot.generation);
        if !*self.probed.borrow() && apply::is_probed(&state.snapshot) {
            self.probed.send_replace(true);
        }
        result
    }
}

impl Fleet {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left a picture between two changes of
        // one host at worst: better served on than refused for ever.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes one host; one that nothing is known of has no figures.
    fn host(&mut self, id: &HostId, change: impl FnOnce(&mut HostView)) {
        if let Some(view) = self.snapshot.hosts.get_mut(id) {
            let known: &mut Known = Arc::make_mut(view);
            change(known);
        }
        self.forget_if_gone(id);
    }

    /// Changes one tunnel, where it is still open.
    fn tunnel(&mut self, host: &HostId, id: &TunnelId, change: impl FnOnce(&mut TunnelView)) {
        self.host(host, |view| {
            if let Some(known) = view.tunnels.iter_mut().find(|t| &t.tunnel == id) {
                change(Arc::make_mut(known));
            }
        });
    }

    /// `at_start`: some host has not been probed since we started.
    fn note_answer(
        &mut self,
        id: &HostId,
        answers: bool,
        at_start: bool,
        now: Timestamp,
    ) -> Option<Duration> {
        let view = self.snapshot.hosts.get(id)?;
        // One that a tunnel proved meanwhile was there all along. One that a
        // reload brought or moved is new.
        let is_new = view.probe == Probe::Unknown && !at_start;
        let returned = answers && (is_new || view.failing_for(now).is_some());
        let (probe, lasted) = match (view.probe, answers) {
            (Probe::Answering { .. }, true) | (Probe::Failing { .. }, false) => return None,
            (Probe::Answering { since }, false) => {
                (Probe::Failing { since: now }, now.since(since))
            }
            (Probe::Failing { since }, true) => (Probe::Answering { since: now }, now.since(since)),
            (Probe::Unknown, true) => (Probe::Answering { since: now }, Duration::ZERO),
            (Probe::Unknown, false) => (Probe::Failing { since: now }, Duration::ZERO),
        };
        let changes = view.probe != Probe::Unknown;
        let mut opened = false;
        self.host(id, |view| {
            view.probe = probe;
            if returned {
                view.usable_since = Some(now);
            }
            opened = changes && view.probe_changed(returned, now);
        });
        if opened {
            self.say_opened(id, now);
        }
        Some(lasted)
    }
}

#[cfg(test)]
mod tests;
