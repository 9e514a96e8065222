//! The shadow: what follows from the rules for tunnels and leases, kept apart
//! from the code that is tested. It knows every seat by heart.
//!
//! A key's lease in a farm is no record here but two plain facts: the seats
//! taken and not given back, and the home, the host of the last believed
//! tunnel that stood, with the time until which it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sessionguard::placement::{FarmId, HostId, ResourceId, Timestamp, TunnelId};

use super::ask::Who;
use super::broker::Written;
use super::scene::Scene;

/// How long a claim lives, and how long a tunnel may go unseen.
const CLAIM: Duration = Duration::from_secs(45);

/// Whose lease: the user, or user, farm and resource.
pub(super) type Key = (Who, Option<(FarmId, Option<ResourceId>)>);

/// The shadow's memory.
#[derive(Default)]
pub(super) struct Model {
    pub(super) seats: BTreeMap<TunnelId, Seat>,
    pub(super) homes: BTreeMap<Key, BTreeMap<FarmId, Home>>,
    /// User parts and the domains they were believed with.
    pub(super) known: BTreeMap<String, BTreeSet<String>>,
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
    pub(super) host: HostId,
    pub(super) since: Timestamp,
    pub(super) stood: Option<Timestamp>,
    /// The tunnel is open; else only its end is not written yet.
    pub(super) open: bool,
    pub(super) doubtful: bool,
    /// It has a part in the lease.
    pub(super) holds: bool,
    /// Its standing is written.
    pub(super) written: bool,
    /// When its part ends unless renewed.
    pub(super) until: Timestamp,
}

impl Seat {
    pub(super) fn new(key: Option<Key>, farm: FarmId, host: HostId, doubtful: bool) -> Self {
        Self {
            key,
            farm,
            host,
            since: Timestamp::default(),
            stood: None,
            open: true,
            doubtful,
            holds: false,
            written: false,
            until: Timestamp::default(),
        }
    }

    pub(super) fn who(&self) -> Option<&Who> {
        self.key.as_ref().map(|(who, _)| who)
    }

    /// Whether it keeps its user on its host.
    pub(super) fn keeps(&self, now: Timestamp) -> bool {
        self.open || (self.holds && self.until > now)
    }
}

impl Model {
    pub(super) fn key(
        scene: &Scene,
        who: Who,
        farm: &FarmId,
        resource: Option<&ResourceId>,
    ) -> Key {
        let single = scene.rules.single_session_per_user;
        let narrow = (!single).then(|| (farm.clone(), resource.cloned()));
        (who, narrow)
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

    /// Open tunnels on a host.
    pub(super) fn open_on(&self, host: &HostId) -> Vec<&Seat> {
        let seats = self.seats.values();
        seats.filter(|seat| seat.open && seat.host == *host).collect()
    }

    /// The key's homes that still hold and are not set aside by a tunnel that
    /// holds the farm's lease elsewhere, in farm order.
    pub(super) fn homes(&self, key: &Key, now: Timestamp) -> Vec<(&FarmId, &Home)> {
        let all = self.homes.get(key).into_iter().flatten();
        let stays = |farm: &FarmId, home: &Home| {
            let mut holding = self.keeping(key, now).filter(|s| s.holds && s.farm == *farm);
            home.until > now && holding.all(|seat| seat.host == home.host)
        };
        all.filter(|(farm, home)| stays(farm, home)).collect()
    }

    /// Keys with a home on a host and no tunnel there: the sessions left behind
    /// on a host that nobody reports from.
    pub(super) fn left_behind(&self, host: &HostId, now: Timestamp) -> usize {
        let left = self.homes.keys().filter(|key| {
            let open = |seat: &Seat| seat.open && seat.host == *host;
            !self.keeping(key, now).any(open)
                && self.homes(key, now).iter().any(|(farm, home)| {
                    let live = |s: &Seat| s.holds && s.written && s.farm == **farm;
                    home.host == *host && !self.keeping(key, now).any(live)
                })
        });
        left.count()
    }

    pub(super) fn seated(&mut self, id: TunnelId, mut seat: Seat, now: Timestamp) {
        seat.since = now;
        seat.until = now + CLAIM;
        seat.holds = seat.key.as_ref().is_some_and(|key| {
            let elsewhere = |host: &HostId| *host != seat.host;
            let homes = self.homes(key, now);
            let home = homes.iter().any(|(f, h)| **f == seat.farm && elsewhere(&h.host));
            let mut held = self.keeping(key, now).filter(|s| s.holds && s.farm == seat.farm);
            // Somebody who may be somebody else moves no lease.
            !(seat.doubtful && (home || held.any(|s| elsewhere(&s.host))))
        });
        self.seats.insert(id, seat);
    }

    pub(super) fn stood(&mut self, id: &TunnelId, now: Timestamp) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.stood = Some(now);
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
                let (domain, user) = key.0.clone();
                if !domain.is_empty() {
                    self.known.entry(user).or_default().insert(domain);
                }
                let homes = self.homes.entry(key.clone()).or_default();
                let old = homes.insert(seat.farm.clone(), home.clone());
                // After a clock set back the older time may be the later one.
                if let Some(old) = old.filter(|old| old.host == home.host && old.until > home.until) {
                    homes.insert(seat.farm.clone(), old);
                }
            }
        }
        if w.ended {
            self.seats.remove(&w.tunnel);
        }
    }

    /// The process died: no tunnel and nothing unwritten is left of it.
    pub(super) fn died(&mut self) {
        self.seats.clear();
    }
}
