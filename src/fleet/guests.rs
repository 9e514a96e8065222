//! Tunnels that no lease record tells of: their users are not known yet, or not
//! believed, or on the way past us. Each replica tells the others by a list.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fleet, State};
use crate::placement::{
    CLAIM, FarmId, HostId, ReplicaId, ResourceId, Timestamp, Trust, TunnelId, TunnelView, UserKey,
};

/// A tunnel as its replica tells others of it. Spans instead of moments, since
/// clocks differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Which tunnel.
    pub tunnel: TunnelId,
    /// On which host.
    pub host: HostId,
    /// The farm it was placed in.
    pub farm: FarmId,
    /// The resource it was placed for; `None` where any host would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceId>,
    /// Whom it names; `None` where nobody is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserKey>,
    /// Milliseconds since it was placed.
    pub placed_ms: u64,
    /// Milliseconds since its RDP connection stood; `None` while pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_ms: Option<u64>,
}

/// What other replicas told in lists.
#[derive(Debug, Default)]
pub(super) struct Listed {
    replicas: HashMap<ReplicaId, List>,
}

#[derive(Debug)]
struct List {
    tunnels: Vec<(HostId, TunnelId)>,
    heard: Timestamp,
}

impl Fleet {
    /// Our own tunnels that others have to be told of.
    pub fn guests(&self, now: Timestamp) -> Vec<Guest> {
        let snapshot = self.snapshot();
        let hosts = snapshot.hosts.iter();
        let tunnels = hosts.flat_map(|(host, view)| view.tunnels.iter().map(move |t| (host, t)));
        let guests = tunnels.filter(|(_, tunnel)| !tunnel.elsewhere && is_unrecorded(tunnel));
        guests
            .map(|(host, tunnel)| Guest::of(host, tunnel, now))
            .collect()
    }
}

/// Whether a lease record may say nothing of it.
fn is_unrecorded(tunnel: &TunnelView) -> bool {
    tunnel.key.is_none() || tunnel.trust == Trust::Doubtful || tunnel.tunnel.is_visit()
}

impl Guest {
    fn of(host: &HostId, tunnel: &TunnelView, now: Timestamp) -> Self {
        let ago = |at| u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        Self {
            tunnel: tunnel.tunnel.clone(),
            host: host.clone(),
            farm: tunnel.farm.clone(),
            resource: tunnel.resource.clone(),
            user: tunnel.user.clone(),
            placed_ms: ago(tunnel.since),
            stood_ms: tunnel.stood.map(ago),
        }
    }

    /// Whether both say the same besides how long ago it was.
    pub fn is_like(&self, other: &Self) -> bool {
        self.tunnel == other.tunnel
            && self.host == other.host
            && self.user == other.user
            && self.stood_ms.is_some() == other.stood_ms.is_some()
    }

    fn view(self, now: Timestamp) -> (HostId, TunnelView) {
        let at = |ago| now - Duration::from_millis(ago);
        let view = TunnelView {
            tunnel: self.tunnel,
            // It holds no lease.
            key: None,
            user: self.user,
            trust: Trust::Doubtful,
            farm: self.farm,
            resource: self.resource,
            since: at(self.placed_ms),
            stood: self.stood_ms.map(at),
            elsewhere: true,
        };
        (self.host, view)
    }
}

impl State {
    /// Another replica's list, in the place of its last one.
    pub(super) fn list_guests(&mut self, replica: &ReplicaId, guests: Vec<Guest>, now: Timestamp) {
        if self.sharing.as_ref().is_some_and(|it| &it.me == replica) {
            return;
        }
        self.unlist(replica);
        let mut tunnels = Vec::with_capacity(guests.len());
        for guest in guests {
            let (host, view) = guest.view(now);
            tunnels.push((host.clone(), view.tunnel.clone()));
            self.host(&host, |known| known.tunnels.push(Arc::new(view)));
        }
        if !tunnels.is_empty() {
            let list = List {
                tunnels,
                heard: now,
            };
            self.listed.replicas.insert(replica.clone(), list);
        }
    }

    fn unlist(&mut self, replica: &ReplicaId) {
        let list = self.listed.replicas.remove(replica);
        for (host, tunnel) in list.into_iter().flat_map(|list| list.tunnels) {
            self.host(&host, |view| {
                let is_it = |t: &TunnelView| t.elsewhere && t.tunnel == tunnel && t.key.is_none();
                view.tunnels.retain(|t| !is_it(t));
            });
        }
    }

    /// Lists that were not heard again in time: their replicas are gone. True
    /// where there was one.
    pub(super) fn expire_guests(&mut self, now: Timestamp) -> bool {
        let lists = self.listed.replicas.iter();
        let over = lists.filter(|(_, list)| now.since(list.heard) >= CLAIM);
        let over: Vec<_> = over.map(|(replica, _)| replica.clone()).collect();
        over.iter().for_each(|replica| self.unlist(replica));
        !over.is_empty()
    }
}
