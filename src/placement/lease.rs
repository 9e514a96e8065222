//! Leases: the stored claim that a user belongs on a host.
//!
//! A record holds a lease key's leases, one a farm. Every change is a pure
//! step from one record to the next; the store writes the result only where
//! nobody changed the record in between.
//!
//! A lease is kept by its holders, the tunnels that rely on it. One that has
//! stood leaves the lease lingering when it ends; one that never stood takes
//! back only what it brought, so an older lease is found as it was.

mod doubt;
mod elsewhere;
mod shift;
mod sighting;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::aim::Trust;
use super::identity::UserKey;
use super::ids::{FarmId, HostId, TunnelId};
use super::time::Timestamp;

pub use elsewhere::{Elsewhere, Origin};

/// How long a claim lives unless its tunnel renews it: all that a killed
/// replica leaves behind.
pub const CLAIM: Duration = Duration::from_secs(45);

/// How often an open tunnel renews its claim.
pub const RENEWAL: Duration = Duration::from_secs(15);

/// How long it is remembered who was last where.
pub const HISTORY: Duration = Duration::from_secs(30 * 24 * 3600);

/// A lease key's leases, one a farm, and where its user was last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeaseRecord {
    leases: BTreeMap<FarmId, Lease>,
    /// No claim: it breaks ties, and tells who is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    history: BTreeMap<FarmId, Past>,
    /// Whose record this is, once a tunnel of theirs stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<UserKey>,
}

/// Where a user was last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// On which host.
    pub host: HostId,
    /// When they were last seen there.
    pub at: Timestamp,
}

/// One farm's lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The host it claims.
    pub host: HostId,
    /// Until when it lingers without a tunnel; `None` until a tunnel that
    /// stood has ended.
    pub lingers_until: Option<Timestamp>,
    /// The tunnels that rely on it.
    pub holders: Vec<Holder>,
    /// The older lease on another host that this claim replaced, until the
    /// claim has stood.
    pub replaced: Option<Lingering>,
}

/// A lease without a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lingering {
    /// The host it claims.
    pub host: HostId,
    /// When it expires.
    pub until: Timestamp,
}

/// A tunnel that relies on a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Which tunnel.
    pub tunnel: TunnelId,
    /// Whether its RDP connection stood.
    pub stood: bool,
    /// When its hold expires unless renewed.
    pub until: Timestamp,
    /// It only says to be this user's: it may use the lease, and leaves it as
    /// it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
    /// Where it is open, for other replicas; `None` in a store of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// What a lease is worth at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// A tunnel claimed it and has not stood yet.
    Claimed,
    /// No tunnel, but one that stood ended less than the lease time ago.
    Lingering,
    /// A tunnel that stood is open.
    Live,
}

/// A lease as a decision reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView<'a> {
    /// The farm it belongs to.
    pub farm: &'a FarmId,
    /// The host it claims.
    pub host: &'a HostId,
    /// What it is worth.
    pub state: LeaseState,
    /// When it ends if nothing happens.
    pub until: Timestamp,
}

impl Lease {
    fn state(&self, now: Timestamp) -> Option<(LeaseState, Timestamp)> {
        let held = |stood: bool| {
            self.holders
                .iter()
                .filter(|h| h.stood == stood && h.until > now)
                .map(|h| h.until)
                .max()
        };
        let lingers = self.lingers_until.filter(|&until| until > now);
        held(true)
            .map(|until| (LeaseState::Live, until))
            .or(lingers.map(|until| (LeaseState::Lingering, until)))
            .or(held(false).map(|until| (LeaseState::Claimed, until)))
    }

    fn has_tunnel(&self, now: Timestamp) -> bool {
        self.holders.iter().any(|h| h.until > now)
    }
}

impl LeaseRecord {
    /// Whether nothing is left to store.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.history.is_empty()
    }

    /// Whose record this is, once a tunnel of theirs stood.
    pub fn user(&self) -> Option<&UserKey> {
        self.user.as_ref()
    }

    /// Where the user was last in a farm, for 30 days.
    pub fn last(&self, farm: &FarmId, now: Timestamp) -> Option<&Past> {
        self.history
            .get(farm)
            .filter(|past| past.at + HISTORY > now)
    }

    /// Where the user was last in each farm, for 30 days.
    pub fn visits(&self, now: Timestamp) -> impl Iterator<Item = &Past> {
        let past = self.history.values();
        past.filter(move |past| past.at + HISTORY > now)
    }

    /// The open tunnels that rely on leases here.
    pub fn tunnels(&self, now: Timestamp) -> impl Iterator<Item = &TunnelId> {
        let holders = self.leases.values().flat_map(|lease| &lease.holders);
        let open = holders.filter(move |holder| holder.until > now);
        open.map(|holder| &holder.tunnel)
    }

    /// The open tunnels that rely on the farm's lease.
    pub fn holders(&self, farm: &FarmId, now: Timestamp) -> impl Iterator<Item = &TunnelId> {
        let holders = self.leases.get(farm).into_iter().flat_map(|l| &l.holders);
        let open = holders.filter(move |holder| holder.until > now);
        open.map(|holder| &holder.tunnel)
    }

    /// Gives up the farm's lease, which no open tunnel may rely on. Where the
    /// user was last is remembered all the same. False where there is none, or
    /// a tunnel relies on it.
    pub fn release(&mut self, farm: &FarmId, now: Timestamp) -> bool {
        let free = self.view(farm, now).is_some() && self.holders(farm, now).next().is_none();
        if free {
            self.leases.remove(farm);
        }
        free
    }

    /// The farms' unexpired leases, in farm order.
    pub fn views(&self, now: Timestamp) -> impl Iterator<Item = LeaseView<'_>> {
        self.leases.iter().filter_map(move |(farm, lease)| {
            if let Some((state, until)) = lease.state(now) {
                let host = &lease.host;
                return Some(LeaseView {
                    farm,
                    host,
                    state,
                    until,
                });
            }
            // The claim ran out unrenewed: the lease it replaced holds again.
            let old = lease.replaced.as_ref().filter(|old| old.until > now)?;
            Some(LeaseView {
                farm,
                host: &old.host,
                state: LeaseState::Lingering,
                until: old.until,
            })
        })
    }

    /// The farm's unexpired lease.
    pub fn view(&self, farm: &FarmId, now: Timestamp) -> Option<LeaseView<'_>> {
        self.views(now).find(|view| view.farm == farm)
    }

    /// Hosts on which an open tunnel, pending or stood, holds a lease, each
    /// with its farm.
    pub fn held(&self, now: Timestamp) -> impl Iterator<Item = (&FarmId, &HostId)> {
        self.leases
            .iter()
            .filter(move |(_, lease)| lease.has_tunnel(now))
            .map(|(farm, lease)| (farm, &lease.host))
    }

    /// A tunnel claims `host` in `farm` for [`CLAIM`]. False, and no claim,
    /// where another tunnel holds the farm's lease on another host: one user
    /// never has two. A doubtful tunnel moves no lease: on another host than
    /// the lease's it goes without; and it keeps no lease from a believed one.
    #[must_use]
    pub fn claim(
        &mut self,
        farm: &FarmId,
        host: &HostId,
        tunnel: &TunnelId,
        trust: Trust,
        now: Timestamp,
    ) -> bool {
        self.expire(now);
        let doubtful = trust == Trust::Doubtful;
        if let Some(lease) = self.leases.get_mut(farm).filter(|l| &l.host != host) {
            if lease.is_held_elsewhere(host, tunnel, doubtful) {
                return false;
            }
            if doubtful {
                return true;
            }
            lease.drop_doubtful();
        }
        let holder = Holder {
            tunnel: tunnel.clone(),
            stood: false,
            until: now + CLAIM,
            doubtful,
            origin: None,
        };
        match self.leases.get_mut(farm) {
            Some(lease) if &lease.host == host => {
                lease.holders.retain(|h| &h.tunnel != tunnel);
                lease.holders.push(holder);
            }
            other => {
                let replaced = other.and_then(|old| {
                    let lingering = old.lingers_until.map(|until| Lingering {
                        host: old.host.clone(),
                        until,
                    });
                    lingering.or(old.replaced.take())
                });
                let lease = Lease {
                    host: host.clone(),
                    lingers_until: None,
                    holders: vec![holder],
                    replaced,
                };
                self.leases.insert(farm.clone(), lease);
            }
        }
        true
    }

    /// The tunnel's RDP connection stood, or still stands: its hold now lasts
    /// `lease` unless renewed. False where the tunnel holds nothing here.
    pub fn stood(
        &mut self,
        tunnel: &TunnelId,
        user: &UserKey,
        lease: Duration,
        now: Timestamp,
    ) -> bool {
        let holds = self.renew_as(tunnel, true, now + lease);
        self.note_stood(tunnel, now);
        self.remember(tunnel, user, now);
        holds
    }

    /// The tunnel's logon is believed: it is this user's.
    pub fn confirm(&mut self, tunnel: &TunnelId) {
        let holders = self.leases.values_mut().flat_map(|l| &mut l.holders);
        for holder in holders.filter(|holder| &holder.tunnel == tunnel) {
            holder.doubtful = false;
        }
    }

    /// Notes where a believed tunnel has its user.
    fn remember(&mut self, tunnel: &TunnelId, user: &UserKey, now: Timestamp) {
        let holds = |l: &Lease| l.holders.iter().any(|h| &h.tunnel == tunnel && !h.doubtful);
        let held = self.leases.iter().find(|(_, lease)| holds(lease));
        if let Some((farm, lease)) = held {
            let host = lease.host.clone();
            self.history.insert(farm.clone(), Past { host, at: now });
            self.user = Some(user.clone());
        }
    }

    /// A pending tunnel is still there: its claim starts anew. False where the
    /// tunnel holds nothing here.
    pub fn renew_claim(&mut self, tunnel: &TunnelId, now: Timestamp) -> bool {
        self.renew_as(tunnel, false, now + CLAIM)
    }

    fn renew_as(&mut self, tunnel: &TunnelId, stood: bool, until: Timestamp) -> bool {
        for lease in self.leases.values_mut() {
            if let Some(holder) = lease.holders.iter_mut().find(|h| &h.tunnel == tunnel) {
                // A claim's renewal that comes late shortens nothing.
                if stood || !holder.stood {
                    holder.until = until;
                }
                holder.stood |= stood;
                if holder.stood && !holder.doubtful {
                    lease.replaced = None;
                }
                return true;
            }
        }
        false
    }

    /// The tunnel ended. Where it stood the lease lingers for `lease`; where it
    /// never stood only its own claim goes and an older lease is put back.
    pub fn end(&mut self, tunnel: &TunnelId, lease: Duration, now: Timestamp) {
        for entry in self.leases.values_mut() {
            if let Some(at) = entry.holders.iter().position(|h| &h.tunnel == tunnel) {
                let holder = entry.holders.swap_remove(at);
                let lingers = holder.stood && !holder.doubtful;
                entry.put_down(lingers.then_some(now + lease));
            }
        }
        self.expire(now);
    }

    /// The tunnel goes another way than through us: its claim lingers for
    /// `lease` as if it had stood and ended. Whether its user came is not known,
    /// so it is no history. Does nothing where the tunnel holds nothing here.
    pub fn linger(&mut self, tunnel: &TunnelId, lease: Duration, now: Timestamp) {
        for entry in self.leases.values_mut() {
            if let Some(at) = entry.holders.iter().position(|h| &h.tunnel == tunnel) {
                entry.holders.swap_remove(at);
                entry.replaced = None;
                entry.put_down(Some(now + lease));
            }
        }
    }

    /// Every tunnel of the process that wrote this record is gone: what stood
    /// lingers for `lease` from its last renewal on, what did not is put back.
    pub fn orphan(&mut self, now: Timestamp) {
        for entry in self.leases.values_mut() {
            let until = entry
                .holders
                .iter()
                .filter(|h| h.stood && !h.doubtful)
                .map(|h| h.until)
                .max();
            entry.holders.clear();
            entry.put_down(until);
        }
        self.expire(now);
    }

    /// Forgets what has run out.
    pub fn expire(&mut self, now: Timestamp) {
        self.leases.retain(|_, lease| {
            lease.holders.retain(|h| h.until > now);
            lease.replaced = lease.replaced.take().filter(|old| old.until > now);
            lease.put_down(None);
            lease.lingers_until = lease.lingers_until.filter(|&until| until > now);
            lease.state(now).is_some()
        });
        self.history.retain(|_, past| past.at + HISTORY > now);
        if self.history.is_empty() {
            self.user = None;
        }
    }
}

impl Lease {
    /// After holders left: lingers until `until` where a tunnel that stood is
    /// among them; else, with nobody left and nothing of its own, gives way to
    /// the lease it replaced.
    fn put_down(&mut self, until: Option<Timestamp>) {
        self.lingers_until = self.lingers_until.max(until);
        if self.holders.is_empty()
            && self.lingers_until.is_none()
            && let Some(old) = self.replaced.take()
        {
            self.host = old.host;
            self.lingers_until = Some(old.until);
        }
    }
}
