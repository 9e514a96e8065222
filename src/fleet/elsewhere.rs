//! Takes over what other replicas wrote to the store that they share with us.
//!
//! All that was read as of one moment goes into the picture in one step: a
//! decision then knows by a host's standing up to which writing it has seen
//! what others placed and ordered there, and a claim that says so is refused
//! where there is more.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::guests::Guest;
use super::writings::Writings;
use super::{Fleet, Poll, State};
use crate::placement::{HostId, LeaseKey, Orders, ReplicaId, Standing, Timestamp};
use crate::store::{Version, Versioned};

/// Who we are among the replicas.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) me: ReplicaId,
}

/// Which writings are in the picture.
#[derive(Debug, Default)]
pub(super) struct AllWritings {
    pub(super) leases: Writings<LeaseKey>,
    pub(super) orders: Writings<HostId>,
    guests: Writings<ReplicaId>,
}

/// What is stored, and which writing of it that is; `None`: it was removed.
pub type Told<T> = Option<(Version, T)>;

/// What a poll told.
#[derive(Debug, Default)]
pub struct News {
    /// Lease records; an empty one was removed.
    pub leases: Vec<(LeaseKey, Versioned)>,
    /// The orders of hosts.
    pub orders: Vec<(HostId, Told<Arc<Orders>>)>,
    /// The lists of replicas.
    pub guests: Vec<(ReplicaId, Told<Vec<Guest>>)>,
    /// The standings of hosts.
    pub standings: Vec<(HostId, Standing)>,
    /// It is all there is.
    pub whole: bool,
}

impl Fleet {
    /// From now on the store is shared, by us under this id.
    pub fn shares_as(&self, me: ReplicaId) {
        self.change(|state| state.sharing = Some(Sharing { me }));
    }

    /// Who we are among the replicas; `None` where there are no others.
    pub fn replica(&self) -> Option<ReplicaId> {
        let state = self.lock();
        state.sharing.as_ref().map(|sharing| sharing.me.clone())
    }

    /// A poll begins: what is noted from now on it may not tell of.
    pub fn polls(&self) -> Poll {
        let mut state = self.lock();
        state.polled = state.polled.next();
        state.polled
    }

    /// Takes over what this poll told, in one step.
    pub fn follow(&self, poll: Poll, news: News, now: Timestamp) {
        self.change_if(|state| (state.follow(poll, news, now), ()));
    }
}

impl State {
    /// True where it changed something.
    fn follow(&mut self, poll: Poll, news: News, now: Timestamp) -> bool {
        let whole = news.whole;
        let mut changed = false;
        if whole {
            changed |= self.forget_missing(poll, &news);
        }
        for (key, known) in &news.leases {
            if self.writings.leases.hear(key, known.version, poll, whole) {
                self.note_record(key, &known.record, now);
                changed = true;
            }
        }
        let mut orders = BTreeMap::new();
        for (host, known) in news.orders {
            match known {
                Some((version, known)) => {
                    if self.writings.orders.hear(&host, version, poll, whole) {
                        orders.insert(host, known);
                    }
                }
                None => drop(orders.insert(host, Arc::default())),
            }
        }
        changed |= !orders.is_empty();
        self.note_orders(&orders);
        for (replica, known) in news.guests {
            let list = match known {
                Some((version, list)) => self
                    .writings
                    .guests
                    .hear(&replica, version, poll, whole)
                    .then_some(list),
                None => Some(Vec::new()),
            };
            if let Some(list) = list {
                self.list_guests(&replica, list, now);
                changed = true;
            }
        }
        for (host, standing) in news.standings {
            let known = self.standings.insert(host.clone(), standing);
            if known != Some(standing) {
                self.host(&host, |view| view.standing = standing);
                changed = true;
            }
        }
        changed
    }

    /// What is not told of by a poll of all there is is there no more.
    fn forget_missing(&mut self, poll: Poll, news: &News) -> bool {
        let told: HashSet<_> = news.leases.iter().map(|(key, _)| key).collect();
        let leases = self.writings.leases.missing(&told, poll);
        leases.iter().for_each(|key| self.take_off(key, |_| true));
        let told: HashSet<_> = news.orders.iter().map(|(host, _)| host).collect();
        let orders = self.writings.orders.missing(&told, poll);
        let none = orders.iter().map(|host| (host.clone(), Arc::default()));
        self.note_orders(&none.collect());
        let told: HashSet<_> = news.guests.iter().map(|(replica, _)| replica).collect();
        let guests = self.writings.guests.missing(&told, poll);
        for replica in &guests {
            self.list_guests(replica, Vec::new(), Timestamp::default());
        }
        let told: HashSet<_> = news.standings.iter().map(|(host, _)| host).collect();
        let mut gone = Vec::new();
        self.standings.retain(|host, _| {
            let stays = told.contains(host);
            if !stays {
                gone.push(host.clone());
            }
            stays
        });
        for host in &gone {
            self.host(host, |view| view.standing = Standing::default());
        }
        !(leases.is_empty() && orders.is_empty() && guests.is_empty() && gone.is_empty())
    }
}
