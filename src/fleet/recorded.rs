//! Takes over what the store says of leases: those that linger on a host
//! without a tunnel, and tunnels that are open at other replicas.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Fleet, State};
use crate::placement::{
    HostId, LeaseKey, LeaseRecord, LeaseState, Timestamp, TunnelId, TunnelView,
};
use crate::store::Versioned;

/// What each key's record put on hosts, to take it off them again.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    keys: HashMap<LeaseKey, Put>,
}

#[derive(Debug, Default)]
struct Put {
    lingering: Vec<HostId>,
    /// Tunnels of other replicas, and when they run out unrenewed.
    elsewhere: Vec<(HostId, TunnelId, Timestamp)>,
}

impl Put {
    fn is_empty(&self) -> bool {
        self.lingering.is_empty() && self.elsewhere.is_empty()
    }
}

impl Fleet {
    /// Takes over what the store says of a key's leases, unless something newer
    /// is known. A lease with an open tunnel is no lingering one: the tunnel is
    /// counted by itself.
    pub fn note_leases(&self, key: &LeaseKey, known: &Versioned, now: Timestamp) {
        self.change_if(|state| (state.note_leases(key, known, now), ()));
    }

    /// The same of what is found stored at the start, of which there may be very
    /// much: it is in the picture from the next change on that is published. A
    /// picture between copies all of it that the next one changes.
    pub fn note_stored_leases<'a>(
        &self,
        stored: impl IntoIterator<Item = &'a (LeaseKey, Versioned)>,
        now: Timestamp,
    ) {
        self.change_if(|state| {
            for (key, known) in stored {
                state.note_leases(key, known, now);
            }
            (false, ())
        });
    }

    /// Forgets people who were not here for as long as our history goes back.
    pub fn forget_people(&self, now: Timestamp) {
        self.change(|state| Arc::make_mut(&mut state.snapshot.people).forget(now));
    }

    /// Forgets what has run out, and says whose records it was of: leases that
    /// lingered, and tunnels of replicas that are there no more.
    pub fn expire_leases(&self, now: Timestamp) -> Vec<LeaseKey> {
        self.change_if(|state| {
            let keys = state.run_out(now);
            for key in &keys {
                state.take_off(key, |until| until <= now);
            }
            let guests = state.expire_guests(now);
            if !keys.is_empty() {
                state.forget_all_gone();
            }
            (guests || !keys.is_empty(), keys)
        })
    }
}

impl State {
    /// Whose records put something on a host that has run out.
    fn run_out(&self, now: Timestamp) -> Vec<LeaseKey> {
        let views = self.snapshot.hosts.values();
        let over = views.flat_map(|view| view.lingering.over(now));
        let mut keys: Vec<_> = over.cloned().collect();
        // Of other replicas, where there are any: all records are looked through.
        let puts = self.sharing.iter().flat_map(|_| &self.recorded.keys);
        let over = puts.filter(|(_, put)| put.elsewhere.iter().any(|(_, _, until)| *until <= now));
        keys.extend(over.map(|(key, _)| key.clone()));
        keys.sort();
        keys.dedup();
        keys
    }

    /// Whether it changed anything. A claim alone shows nowhere: its tunnel is counted
    /// by the seat.
    fn note_leases(&mut self, key: &LeaseKey, known: &Versioned, now: Timestamp) -> bool {
        let polled = self.polled;
        let is_news = match &self.sharing {
            Some(_) => self.writings.leases.note(key, known.version, polled),
            None => true,
        };
        is_news && self.note_record(key, &known.record, now)
    }

    /// Whether it changed anything.
    pub(super) fn note_record(
        &mut self,
        key: &LeaseKey,
        record: &LeaseRecord,
        now: Timestamp,
    ) -> bool {
        let mut changed = self.recorded.keys.contains_key(key);
        self.take_off(key, |_| true);
        // Copied only where there is something new in it: everybody is there.
        let people = &mut self.snapshot.people;
        for (user, past) in record
            .user()
            .into_iter()
            .flat_map(|user| record.visits(now).map(move |past| (user, past)))
        {
            if !people.remembers(user, &past.host, past.at) {
                Arc::make_mut(people).remember(user, &past.host, past.at);
                changed = true;
            }
        }
        let mut put = Put::default();
        for lease in record.views(now) {
            if lease.state == LeaseState::Lingering {
                let until = lease.until;
                self.host(lease.host, |view| {
                    Arc::make_mut(&mut view.lingering).insert(key.clone(), until);
                });
                put.lingering.push(lease.host.clone());
            }
        }
        if let Some(sharing) = &self.sharing {
            for open in record.elsewhere(key, &sharing.me, now) {
                let tunnel = open.tunnel.tunnel.clone();
                let view = self.snapshot.hosts.get(&open.host);
                // Ours is counted by its seat, whatever its record says.
                let is_ours = |t: &Arc<TunnelView>| !t.elsewhere && t.tunnel == tunnel;
                if view.is_some_and(|view| view.tunnels.iter().any(is_ours)) {
                    continue;
                }
                self.host(&open.host, |view| view.tunnels.push(Arc::new(open.tunnel)));
                put.elsewhere.push((open.host, tunnel, open.until));
            }
        }
        if !put.is_empty() {
            self.recorded.keys.insert(key.clone(), put);
            changed = true;
        }
        changed
    }

    /// Takes off hosts what this key's record put there and has an end like that.
    pub(super) fn take_off(&mut self, key: &LeaseKey, is_meant: impl Fn(Timestamp) -> bool) {
        let Some(mut put) = self.recorded.keys.remove(key) else {
            return;
        };
        put.lingering.retain(|host| {
            let view = self.snapshot.hosts.get(host);
            let until = view.and_then(|view| view.lingering.get(key));
            let goes = until.is_none_or(&is_meant);
            if goes {
                self.host(host, |view| {
                    Arc::make_mut(&mut view.lingering).remove(key);
                });
            }
            !goes
        });
        put.elsewhere.retain(|(host, tunnel, until)| {
            let goes = is_meant(*until);
            if goes {
                self.host(host, |view| {
                    let is_it = |t: &TunnelView| {
                        t.elsewhere && &t.tunnel == tunnel && t.key.as_ref() == Some(key)
                    };
                    view.tunnels.retain(|t| !is_it(t));
                });
            }
            !goes
        });
        if !put.is_empty() {
            self.recorded.keys.insert(key.clone(), put);
        }
    }
}
