//! A tunnel's place on a host, taken and moved in the step that decides.

use std::sync::Arc;

use super::{Fleet, State};
use crate::placement::{Decision, HostId, Outcome, Snapshot, Timestamp, TunnelId, TunnelView};

/// A tunnel's place on a host: counted from the decision until it is dropped.
#[derive(Debug)]
pub struct Seat {
    pub(super) fleet: Arc<Fleet>,
    pub(super) tunnel: TunnelId,
    pub(super) host: HostId,
}

impl Fleet {
    /// Makes a decision on the picture as it stands and, where it places
    /// somebody, takes the seat in the same step: the next decision counts it.
    pub fn seat(
        self: &Arc<Self>,
        tunnel: &TunnelId,
        now: Timestamp,
        decide: impl FnOnce(&Snapshot) -> Decision,
    ) -> (Decision, Option<Seat>) {
        self.change_if(|state| {
            let decision = decide(&state.snapshot);
            let seat = state.sit(tunnel, &decision, now).map(|host| Seat {
                fleet: Arc::clone(self),
                tunnel: tunnel.clone(),
                host,
            });
            (seat.is_some(), (decision, seat))
        })
    }

    /// The same for somebody who has a seat: the decision is made as if it were
    /// free, and where it places the tunnel the seat is moved in the same step,
    /// so that nobody sees it twice or not at all. Elsewise it stays where it
    /// is. True where it was moved.
    pub fn move_seat(
        &self,
        seat: &mut Seat,
        tunnel: &TunnelId,
        now: Timestamp,
        decide: impl FnOnce(&Snapshot) -> Decision,
    ) -> (Decision, bool) {
        self.change_if(|state| {
            let before = state.snapshot.hosts.get(&seat.host).cloned();
            state.host(&seat.host, |view| {
                view.tunnels.retain(|known| known.tunnel != seat.tunnel);
            });
            let decision = decide(&state.snapshot);
            let Some(host) = state.sit(tunnel, &decision, now) else {
                if let Some(before) = before {
                    state.snapshot.hosts.insert(seat.host.clone(), before);
                }
                return (false, (decision, false));
            };
            seat.host = host;
            seat.tunnel = tunnel.clone();
            (true, (decision, true))
        })
    }
}

impl State {
    /// Counts the tunnel where it was placed, and says where that is.
    fn sit(&mut self, tunnel: &TunnelId, decision: &Decision, now: Timestamp) -> Option<HostId> {
        let (Outcome::Placed(placement), Some(farm)) = (&decision.outcome, &decision.farm) else {
            return None;
        };
        let view = TunnelView {
            tunnel: tunnel.clone(),
            key: decision.key.clone(),
            user: decision.user.clone(),
            trust: decision.trust,
            farm: farm.clone(),
            resource: decision.resource.clone(),
            since: now,
            stood: None,
            elsewhere: false,
        };
        self.host(&placement.host, |known| {
            // Copied with the picture each time: room for more is never used.
            known.tunnels.reserve_exact(1);
            known.tunnels.push(Arc::new(view));
        });
        Some(placement.host.clone())
    }
}

impl Seat {
    fn update(&self, change: impl FnOnce(&mut Vec<Arc<TunnelView>>)) {
        let host = &self.host;
        self.fleet
            .change(|state| state.host(host, |view| change(&mut view.tunnels)));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.update(|tunnels| tunnels.retain(|t| t.tunnel != self.tunnel));
    }
}
