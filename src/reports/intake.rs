//! Takes heartbeats in: what is news reaches the picture, and is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::boots::{Beside, Boots, Standing};
use super::keeping::{Due, Keeping};
use super::last::{Last, Read};
use super::made::Clocks;
use crate::broker::Broker;
use crate::clock::Clock;
use crate::fleet::{Fleet, Heartbeat};
use crate::placement::{HostId, Timestamp};
use crate::store::{Documents, StoreError, Version};

/// Hosts without a configuration that are remembered.
const UNMATCHED: usize = 1000;
/// Bytes of heartbeats that are kept of all of them together; of more only
/// that they were heard is.
const UNMATCHED_BYTES: usize = 32 << 20;

/// Takes heartbeats in; clones are one.
#[derive(Clone)]
pub struct Intake {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) fleet: Arc<Fleet>,
    pub(super) clock: Clock,
    hosts: Mutex<Hosts>,
    /// Something new is to be written down.
    pub(super) news: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) known: BTreeMap<HostId, Known>,
    pub(super) due: Due,
}

/// What is known of one host's agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) kept: Kept,
    /// Which writing the store had last, as far as we know.
    pub(super) version: Option<Version>,
    clocks: Clocks,
    /// Bytes of the heartbeat, for hosts that are not configured.
    size: usize,
    /// The address it came from, for people.
    from: Option<String>,
    /// Heartbeats that were no news.
    stale: u64,
    /// What was said of it in the log.
    said: BTreeSet<Oddity>,
}

/// What outlives the process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) boots: Boots,
    /// Since when its reports are in the picture and nothing speaks against its
    /// agent: a process that starts knows by it whose last words to believe.
    #[serde(default)]
    pub(super) since: Option<Timestamp>,
    pub(super) last: Option<Last>,
}

/// What is said once, and again after it was over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Oddity {
    /// Nobody configured the host.
    Unmatched,
    /// Two starts of the host are alive.
    Rival,
    /// It does not say who is there.
    Blind,
    /// A session's state that nobody knows.
    State(String),
}

/// What became of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// It was news.
    pub taken: bool,
}

/// What a host's agent says of itself, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// What the host calls itself.
    pub hostname: String,
    /// Whether it gave a health score.
    pub health_known: bool,
    /// Whether it ever said who is there.
    pub sessions_known: bool,
    /// The checks that failed.
    pub failed_checks: Vec<String>,
    /// Heartbeats that were no news, since we started.
    pub stale: u64,
}

/// A host that has a key and no configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    /// Whom its key is for.
    pub host: HostId,
    /// What it calls itself.
    pub hostname: String,
    /// When it was heard last.
    pub heard: Timestamp,
    /// The address it came from; for people only.
    pub from: Option<String>,
}

impl Intake {
    /// Reads what hosts said last into the picture. What is given back as well
    /// must run beside it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        fleet: Arc<Fleet>,
        store: Arc<dyn Documents>,
        clock: Clock,
    ) -> Result<(Self, Keeping), StoreError> {
        let directory = Arc::clone(&fleet.snapshot().directory);
        let is_known = |host: &HostId| directory.host(host).is_some();
        let kept = super::keeping::read(&*store, is_known, clock.now()).await?;
        let known = kept.into_iter().map(|(host, (version, mut kept))| {
            // A clock that was set back meanwhile makes nothing fresh for ever.
            if let Some(last) = &mut kept.last {
                last.received = last.received.min(clock.now());
            }
            let known = Known {
                kept,
                version: Some(version),
                ..Known::default()
            };
            (host, known)
        });
        let hosts = Hosts {
            known: known.collect(),
            due: Due::of(fleet.replica().is_some()),
        };
        let intake = Self {
            inner: Arc::new(Inner {
                fleet,
                clock,
                hosts: Mutex::new(hosts),
                news: Notify::new(),
            }),
        };
        intake.configured();
        let keeping = Keeping::of(intake.clone(), store, clock);
        Ok((intake, keeping))
    }

    /// Others share the store from now on.
    pub fn share(&self) {
        self.inner.lock().due.share();
    }

    /// Takes a host's heartbeat over: of `size` bytes, arrived then and from
    /// there.
    pub fn hear(
        &self,
        broker: &Broker,
        host: &HostId,
        heartbeat: Heartbeat,
        (arrived, size, from): (Timestamp, usize, Option<String>),
    ) -> Heard {
        let inner = &self.inner;
        let directory = Arc::clone(&inner.fleet.snapshot().directory);
        let configured = directory.host(host).is_some();
        let mut hosts = inner.lock();
        if !configured && !hosts.known.contains_key(host) {
            hosts.make_room(|id| directory.host(id).is_some());
        }
        let kept_size = hosts.size_of(|id| id != host && directory.host(id).is_none());
        let known = hosts.known.entry(host.clone()).or_default();
        let before = known.kept.last.as_ref();
        let received = before.map_or(arrived, |before| before.received.max(arrived));
        let beside = before.map_or_else(Beside::default, |before| {
            let made = heartbeat.time.zip(before.theirs);
            Beside {
                made: made.map(|(this, last)| this.cmp(&last)),
                silent: received.since(before.received) > directory.rules().offline_after,
            }
        });
        let boot = heartbeat.boot_id.as_deref();
        let order = match known.kept.boots.stand(boot, heartbeat.seq, beside) {
            Standing::News(order) => order,
            Standing::Stale { rival } => {
                known.stale += 1;
                if rival && known.said.insert(Oddity::Rival) {
                    warn!(
                        %host,
                        "Two starts of a host report at once, the one heard of last counts: is its \
                         key on two machines?"
                    );
                }
                debug!(%host, boot, seq = heartbeat.seq, "Heartbeat is no news");
                return Heard { taken: false };
            }
        };
        let made = known.clocks.made(received, heartbeat.time);
        let mut last = Last::of(heartbeat, (received, made), order, before);
        let same = before.is_some_and(|before| before.shows_the_same(&last));
        known.size = size;
        known.from = from;
        if !configured {
            if kept_size + size > UNMATCHED_BYTES {
                last.sessions = None;
            }
            if known.said.insert(Oddity::Unmatched) {
                warn!(%host, hostname = last.hostname, "An agent reports for a host that is not configured");
            }
            known.kept.last = Some(last);
            known.kept.since = None;
            return Heard { taken: true };
        }
        known.said.remove(&Oddity::Unmatched);
        match last.read(&directory, host) {
            Some(read) => {
                known.say_oddities(host, &read.unknown_states);
                broker.hear(host, read.report);
                known.kept.is_in_the_picture(inner, host, received);
            }
            None => known.say_blind(host),
        }
        known.kept.last = Some(last);
        if hosts.due.note(host, same, inner.clock.now()) {
            inner.news.notify_one();
        }
        Heard { taken: true }
    }

    /// The configuration changed: what hosts said counts at once for those that
    /// it brought.
    pub fn configured(&self) {
        let inner = &self.inner;
        let (snapshot, now) = (inner.fleet.snapshot(), inner.clock.now());
        let mut hosts = inner.lock();
        let new = snapshot.directory.hosts().map(|host| &host.id);
        let new = new.filter(|host| {
            let view = snapshot.hosts.get(*host);
            view.is_some_and(|view| view.report.is_none())
        });
        // Those that are known of old say what to make of the others.
        let (old, new): (Vec<_>, Vec<_>) = new.partition(|host| {
            let known = hosts.known.get(*host);
            known.is_some_and(|known| known.kept.since.is_some())
        });
        for host in old.into_iter().chain(new) {
            let Some(known) = hosts.known.get_mut(host) else {
                continue;
            };
            let last = known.kept.last.as_ref();
            let read = last.and_then(|last| last.read(&snapshot.directory, host));
            if let Some(Read { report, .. }) = read {
                let (sessions, received) = (report.sessions.len(), report.received);
                // What it means for leases its next report says again.
                let heard = match known.kept.since {
                    Some(since) => inner.fleet.note_kept_report(host, report, since, now),
                    None => inner.fleet.note_report(host, report, now),
                };
                if heard.is_some() {
                    known.kept.is_in_the_picture(inner, host, received);
                    info!(%host, sessions, "What a host said last counts until it is heard");
                }
            }
        }
    }

    /// What a host's agent says of itself; `None` where it was never heard.
    pub fn said(&self, host: &HostId) -> Option<Said> {
        let hosts = self.inner.lock();
        let known = hosts.known.get(host)?;
        let last = known.kept.last.as_ref()?;
        Some(Said {
            hostname: last.hostname.clone(),
            health_known: last.health.is_some(),
            sessions_known: last.sessions.is_some(),
            failed_checks: last.failed_checks.clone(),
            stale: known.stale,
        })
    }

    /// Whether a host was heard a moment ago, configured or not.
    pub fn is_alive(&self, host: &HostId) -> bool {
        let offline_after = self.inner.fleet.snapshot().directory.rules().offline_after;
        let hosts = self.inner.lock();
        let last = hosts
            .known
            .get(host)
            .and_then(|known| known.kept.last.as_ref());
        last.is_some_and(|last| self.inner.clock.now().since(last.received) <= offline_after)
    }

    /// Hosts that report and are not configured, by id.
    pub fn unmatched(&self) -> Vec<Unmatched> {
        let directory = Arc::clone(&self.inner.fleet.snapshot().directory);
        let hosts = self.inner.lock();
        let strangers = hosts.known.iter();
        let strangers = strangers.filter(|(id, _)| directory.host(id).is_none());
        let listed = strangers.filter_map(|(id, known)| {
            let last = known.kept.last.as_ref()?;
            Some(Unmatched {
                host: id.clone(),
                hostname: last.hostname.clone(),
                heard: last.received,
                from: known.from.clone(),
            })
        });
        listed.collect()
    }
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, Hosts> {
        // A panic while it was held left one host's heartbeat half taken over
        // at worst; its next one is whole.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hosts {
    /// What is to be written of a host.
    pub(super) fn kept(&self, host: &HostId) -> Option<&Kept> {
        self.known.get(host).map(|known| &known.kept)
    }

    /// Forgets the host that was heard least lately of those without a
    /// configuration, where there are too many.
    fn make_room(&mut self, is_configured: impl Fn(&HostId) -> bool) {
        let strangers = self.known.iter().filter(|(id, _)| !is_configured(id));
        let heard = |known: &Known| known.kept.last.as_ref().map(|last| last.received);
        let mut strangers: Vec<_> = strangers
            .map(|(id, known)| (heard(known), id.clone()))
            .collect();
        if strangers.len() >= UNMATCHED {
            strangers.sort();
            let surplus = strangers.len() + 1 - UNMATCHED;
            for (_, id) in strangers.into_iter().take(surplus) {
                self.known.remove(&id);
            }
        }
    }

    fn size_of(&self, of: impl Fn(&HostId) -> bool) -> usize {
        let hosts = self.known.iter().filter(|(id, _)| of(id));
        let kept = hosts.filter(|(_, known)| {
            let last = known.kept.last.as_ref();
            last.is_some_and(|last| last.sessions.is_some())
        });
        kept.map(|(_, known)| known.size).sum()
    }
}

impl Kept {
    /// A report that came then is in the picture.
    pub(super) fn is_in_the_picture(&mut self, inner: &Inner, host: &HostId, received: Timestamp) {
        let snapshot = inner.fleet.snapshot();
        let view = snapshot.hosts.get(host);
        let against = view.and_then(|view| view.mistrust(snapshot.directory.rules()));
        self.since = match against {
            None => self.since.or(Some(received)),
            Some(_) => None,
        };
    }
}

impl Known {
    fn say_oddities(&mut self, host: &HostId, unknown_states: &[String]) {
        /// Words of one host that are told.
        const WORDS: usize = 16;
        self.said.remove(&Oddity::Blind);
        for state in unknown_states {
            let word = Oddity::State(state.clone());
            if self.said.len() < WORDS && self.said.insert(word) {
                warn!(%host, state, "A session's state is not known and is taken for connected");
            }
        }
    }

    fn say_blind(&mut self, host: &HostId) {
        if self.said.insert(Oddity::Blind) {
            warn!(
                %host,
                "An agent has not said yet who is on its host: it is placed on as one without an agent"
            );
        }
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").finish_non_exhaustive()
    }
}
