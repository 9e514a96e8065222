//! What comes of a tunnel's attempt to reach its host, for the host's breaker.

use std::sync::Arc;

use tracing::{info, warn};

use super::{Fleet, Seat, State};
use crate::placement::{HostId, Timestamp, TunnelView};

impl Seat {
    /// The tunnel's RDP connection stood.
    pub fn stood(&self, now: Timestamp) {
        let host = &self.host;
        let closed = self.fleet.change(|state| {
            let mut closed = false;
            state.host(host, |view| {
                if let Some(tunnel) = view.tunnels.iter_mut().find(|t| t.tunnel == self.tunnel) {
                    Arc::make_mut(tunnel).stood = Some(now);
                    closed = view.attempt_stood(now);
                }
            });
            closed
        });
        if closed {
            info!(%host, tunnel = %self.tunnel, "A host's breaker closed: a tunnel stood there");
        }
    }

    /// The tunnel's attempt failed before its RDP connection stood.
    pub fn failed(&self, now: Timestamp) {
        if let Some(attempt) = self.attempt() {
            attempt.failed(now);
        }
    }

    /// The tunnel's attempt, for whoever will know only later that it failed.
    pub fn attempt(&self) -> Option<SeatAttempt> {
        let snapshot = self.fleet.snapshot();
        let view = snapshot.hosts.get(&self.host)?;
        let tunnel = view.tunnels.iter().find(|t| t.tunnel == self.tunnel)?;
        Some(SeatAttempt {
            fleet: Arc::clone(&self.fleet),
            host: self.host.clone(),
            tunnel: Arc::clone(tunnel),
        })
    }
}

/// An attempt to reach a host, as its seat was when it was made; the seat may be
/// elsewhere by now.
#[derive(Debug)]
pub struct SeatAttempt {
    fleet: Arc<Fleet>,
    host: HostId,
    tunnel: Arc<TunnelView>,
}

impl SeatAttempt {
    /// It failed before its RDP connection stood.
    pub fn failed(&self, now: Timestamp) {
        let (host, tunnel) = (&self.host, &self.tunnel);
        self.fleet.change(|state| {
            let mut opened = false;
            state.host(host, |view| opened = view.attempt_failed(tunnel, now));
            if opened {
                state.say_opened(host, now);
            }
        });
    }
}

impl State {
    pub(super) fn say_opened(&self, host: &HostId, now: Timestamp) {
        let view = self.snapshot.hosts.get(host);
        if let Some(opening) = view.and_then(|view| view.breaker(now).opening()) {
            let seconds = opening.until.since(now).as_secs();
            let (cause, why) = (opening.cause.word(), opening.cause.to_string());
            warn!(%host, seconds, cause, why, "A host's breaker opened: nobody new is placed there");
        }
    }
}

#[cfg(test)]
mod tests;
