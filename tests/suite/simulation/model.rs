//! The shadow: what follows from the rules for tunnels and leases, kept apart
//! from the code that is tested. It knows every seat by heart.
//!
//! A key's lease in a farm is no record here but two plain facts: the seats
//! taken and not given back, and the home, the host of the last believed
//! tunnel that stood, with the time until which it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sessionguard::placement::{FarmId, HostId, Mode, Order, ResourceId, Timestamp, TunnelId};

use super::ask::Who;
use super::breaker::{Breakers, Gate};
use super::keeper::Written;
use super::scene::Scene;
use super::timetable::Timetable;

/// How long a claim lives unless it is renewed.
pub(super) const CLAIM: Duration = Duration::from_secs(45);

/// Whose lease: the user, or user, farm and resource. Compared as one text,
/// since a day compares very many.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    text: Arc<str>,
    pub(super) who: Who,
}

/// The shadow's memory.
#[derive(Default)]
pub(super) struct Model {
    pub(super) seats: BTreeMap<TunnelId, Seat>,
    pub(super) homes: BTreeMap<Key, BTreeMap<FarmId, Home>>,
    /// User parts and the domains they were believed with.
    pub(super) known: BTreeMap<String, BTreeSet<String>>,
    /// The hosts people were believed to be on through us, by this life of the
    /// process, and what an earlier one left in the store.
    been: BTreeMap<Who, BTreeSet<HostId>>,
    last: BTreeMap<(Key, FarmId), HostId>,
    modes: BTreeMap<HostId, Timetable>,
    pub(super) breakers: Breakers,
}

/// Where a user belongs without a tunnel.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) host: HostId,
    pub(super) until: Timestamp,
}

/// One tunnel's seat.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) key: Option<Key>,
    pub(super) farm: FarmId,
    pub(super) resource: Option<ResourceId>,
    pub(super) host: HostId,
    pub(super) since: Timestamp,
    pub(super) stood: Option<Timestamp>,
    /// The tunnel is open; else only its end is not written yet.
    pub(super) open: bool,
    pub(super) doubtful: bool,
    /// It came in doubt, believed since or not.
    pub(super) in_doubt: bool,
    /// It has a part in the lease.
    pub(super) holds: bool,
    /// Its standing is written.
    pub(super) written: bool,
    /// When its part ends unless renewed.
    pub(super) until: Timestamp,
}

impl Seat {
    pub(super) fn new(
        key: Option<Key>,
        (farm, resource): (FarmId, Option<ResourceId>),
        host: HostId,
        doubtful: bool,
    ) -> Self {
        Self {
            key,
            farm,
            resource,
            host,
            since: Timestamp::default(),
            stood: None,
            open: true,
            doubtful,
            in_doubt: doubtful,
            holds: false,
            written: false,
            until: Timestamp::default(),
        }
    }

    pub(super) fn who(&self) -> Option<&Who> {
        self.key.as_ref().map(|key| &key.who)
    }

    /// Whether its part in the lease, if it has one, is still good.
    pub(super) fn has_part(&self, now: Timestamp) -> bool {
        self.holds && self.until > now
    }

    /// Whether it keeps its user on its host.
    pub(super) fn keeps(&self, now: Timestamp) -> bool {
        self.open || self.has_part(now)
    }
}

impl Key {
    /// Farm and resource, where the key names them.
    pub(super) fn narrow(&self) -> Option<(&str, &str)> {
        let mut parts = self.text.split('\n').skip(2);
        parts.next().zip(parts.next())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl Model {
    pub(super) fn key(
        scene: &Scene,
        who: Who,
        farm: &FarmId,
        resource: Option<&ResourceId>,
    ) -> Key {
        let mut parts = vec![who.0.as_str(), who.1.as_str()];
        if !scene.rules.single_session_per_user {
            parts.extend([farm.as_str(), resource.map_or("", ResourceId::as_str)]);
        }
        // No part holds a line's end.
        let text = parts.join("\n").into();
        Key { text, who }
    }

    /// Seats that keep this key's user somewhere, of all farms.
    pub(super) fn keeping<'a>(
        &'a self,
        key: &'a Key,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a Seat> + 'a {
        let seats = self.seats.values();
        seats.filter(move |seat| seat.key.as_ref() == Some(key) && seat.keeps(now))
    }

    /// Hosts are configured online, and no reload or restart loses an order.
    pub(super) fn ordered(&mut self, host: &HostId, order: &Order) {
        self.modes.entry(host.clone()).or_default().ordered(order);
    }

    /// A host's mode now, and since when it is online again.
    pub(super) fn mode(&self, host: &HostId, now: Timestamp) -> (Mode, Option<Timestamp>) {
        let known = self.modes.get(host).map(|known| known.at(now));
        known.map_or((Mode::Online, None), |known| {
            (known.mode, known.turned_online)
        })
    }

    /// What lets somebody new onto a host.
    pub(super) fn gate(&self, host: &HostId, now: Timestamp) -> Gate {
        self.breakers.gate(host, now, self.mode(host, now).1)
    }

    /// A tunnel's attempt failed. True where that opens the host's breaker.
    pub(super) fn attempt_failed(&mut self, id: &TunnelId, now: Timestamp) -> bool {
        let seat = &self.seats[id];
        let (Some(who), false) = (seat.who().cloned(), seat.doubtful) else {
            return false;
        };
        let (host, resource) = (seat.host.clone(), seat.resource.clone());
        let worked_on = self.mode(&host, now).1;
        self.breakers.failed(&host, (who, resource), now, worked_on)
    }

    /// What a probe found. True where that opens the host's breaker.
    pub(super) fn probed(&mut self, host: &HostId, answers: bool, now: Timestamp) -> bool {
        let worked_on = self.mode(host, now).1;
        let stood = self.open_on(host).into_iter().filter_map(|seat| seat.stood);
        let stood: Vec<_> = stood.collect();
        let proven = |since| stood.iter().any(|at| *at >= since);
        self.breakers.probed(host, answers, proven, now, worked_on)
    }

    /// Open tunnels on a host.
    pub(super) fn open_on(&self, host: &HostId) -> Vec<&Seat> {
        let seats = self.seats.values();
        seats
            .filter(|seat| seat.open && seat.host == *host)
            .collect()
    }

    /// The key's homes that still hold and are not set aside by a tunnel that
    /// holds the farm's lease elsewhere, in farm order.
    pub(super) fn homes(&self, key: &Key, now: Timestamp) -> Vec<(&FarmId, &Home)> {
        let all = self.homes.get(key).into_iter().flatten();
        let stays = |farm: &FarmId, home: &Home| {
            let mut holding = self
                .keeping(key, now)
                .filter(|s| s.holds && s.farm == *farm);
            home.until > now && holding.all(|seat| seat.host == home.host)
        };
        all.filter(|(farm, home)| stays(farm, home)).collect()
    }

    /// Keys with a home on a host and no tunnel there: the sessions left behind
    /// on a host that nobody reports from.
    pub(super) fn left_behind(&self, host: &HostId, now: Timestamp) -> usize {
        let here = |home: &Home| home.host == *host && home.until > now;
        let left = self.homes.iter().filter(|(key, homes)| {
            if !homes.values().any(here) {
                return false;
            }
            let seats: Vec<_> = self.keeping(key, now).collect();
            let live = |farm: &FarmId| {
                let mut live = seats.iter().filter(|s| s.holds && s.written);
                live.any(|seat| seat.farm == *farm)
            };
            let mut kept = self.homes(key, now).into_iter();
            !seats.iter().any(|seat| seat.open && seat.host == *host)
                && kept.any(|(farm, home)| here(home) && !live(farm))
        });
        left.count()
    }

    /// What has run out is forgotten whenever a key's lease is written: a clock
    /// that is set back later does not bring it back.
    pub(super) fn forget(&mut self, key: &Key, now: Timestamp) {
        if let Some(homes) = self.homes.get_mut(key) {
            homes.retain(|_, home| home.until > now);
        }
    }

    pub(super) fn seated(&mut self, id: TunnelId, mut seat: Seat, now: Timestamp) {
        if let Some(key) = &seat.key {
            self.forget(key, now);
        }
        seat.since = now;
        seat.until = now + CLAIM;
        seat.holds = seat.key.as_ref().is_some_and(|key| {
            let elsewhere = |host: &HostId| *host != seat.host;
            let homes = self.homes(key, now);
            let home = homes
                .iter()
                .any(|(f, h)| **f == seat.farm && elsewhere(&h.host));
            let mut held = self
                .keeping(key, now)
                .filter(|s| s.holds && s.farm == seat.farm);
            // Somebody who may be somebody else moves no lease.
            !(seat.doubtful && (home || held.any(|s| elsewhere(&s.host))))
        });
        if !seat.doubtful {
            self.take_from_strangers(&seat);
        }
        self.seats.insert(id, seat);
    }

    /// Somebody in doubt keeps no lease from a user who is believed.
    fn take_from_strangers(&mut self, own: &Seat) {
        let of_lease = |seat: &Seat| seat.key == own.key && seat.farm == own.farm;
        let strangers = self.seats.values_mut().filter(|seat| seat.doubtful);
        for seat in strangers.filter(|s| of_lease(s) && s.host != own.host) {
            seat.holds = false;
        }
    }

    pub(super) fn stood(&mut self, id: &TunnelId, now: Timestamp) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.stood = Some(now);
            let host = seat.host.clone();
            let worked_on = self.mode(&host, now).1;
            self.breakers.stood(&host, now, worked_on);
        }
    }

    /// The tunnel is gone; its part in the lease stays until that is written.
    pub(super) fn ended(&mut self, id: &TunnelId) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.open = false;
            if seat.key.is_none() {
                self.seats.remove(id);
            }
        }
    }

    pub(super) fn was_on(&mut self, key: &Key, farm: &FarmId, host: &HostId) {
        let been = self.been.entry(key.who.clone()).or_default();
        been.insert(host.clone());
        self.last.insert((key.clone(), farm.clone()), host.clone());
    }

    /// Whether we know ourselves that this user is or was on that host.
    pub(super) fn vouches(&self, who: &Who, host: &HostId, now: Timestamp) -> bool {
        let been = self.been.get(who);
        let mut seats = self.open_on(host).into_iter();
        let mut homes = self.homes.keys().filter(|key| key.who == *who);
        been.is_some_and(|hosts| hosts.contains(host))
            || seats.any(|seat| seat.who() == Some(who) && !seat.doubtful)
            || homes.any(|key| !self.lingering(key, host, now).is_empty())
    }

    pub(super) fn written(&mut self, w: &Written, lease: Duration, now: Timestamp) {
        let Some(seat) = self.seats.get_mut(&w.tunnel) else {
            return;
        };
        seat.doubtful &= !w.confirmed;
        if let (true, Some(key)) = (seat.holds, &seat.key) {
            seat.until = now + if w.stood { lease } else { CLAIM };
            seat.written |= w.stood;
            if w.stood && !seat.doubtful {
                let home = Home {
                    host: seat.host.clone(),
                    until: seat.until,
                };
                let (domain, user) = key.who.clone();
                if !domain.is_empty() {
                    self.known.entry(user).or_default().insert(domain);
                }
                let (key, farm) = (key.clone(), seat.farm.clone());
                self.was_on(&key, &farm, &home.host);
                let seat = &self.seats[&w.tunnel];
                let homes = self.homes.entry(key.clone()).or_default();
                let old = homes.insert(seat.farm.clone(), home.clone());
                // After a clock set back the older time may be the later one.
                if let Some(old) = old.filter(|old| old.host == home.host && old.until > home.until)
                {
                    homes.insert(seat.farm.clone(), old);
                }
            }
        }
        if w.ended
            && let Some(seat) = self.seats.remove(&w.tunnel)
            && let Some(key) = &seat.key
        {
            self.forget(key, now);
        }
    }

    /// The process died: no tunnel and nothing unwritten is left of it.
    pub(super) fn died(&mut self, now: Timestamp) {
        self.seats.clear();
        self.breakers = Breakers::default();
        self.been.clear();
        for ((key, _), host) in &self.last {
            let been = self.been.entry(key.who.clone()).or_default();
            been.insert(host.clone());
        }
        for homes in self.homes.values_mut() {
            homes.retain(|_, home| home.until > now);
        }
    }
}
