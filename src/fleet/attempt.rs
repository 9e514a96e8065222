//! What comes of a tunnel's attempt to reach its host, for the host's breaker.

use tracing::{info, warn};

use super::{Seat, State};
use crate::placement::{HostId, Timestamp};

impl Seat {
    /// The tunnel's RDP connection stood.
    pub fn stood(&self, now: Timestamp) {
        let host = &self.host;
        let closed = self.fleet.change(|state| {
            let mut closed = false;
            state.host(host, |view| {
                if let Some(tunnel) = view.tunnels.iter_mut().find(|t| t.tunnel == self.tunnel) {
                    tunnel.stood = Some(now);
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
        let host = &self.host;
        self.fleet.change(|state| {
            let mut opened = false;
            state.host(host, |view| {
                let tunnel = view.tunnels.iter().find(|t| t.tunnel == self.tunnel);
                if let Some(tunnel) = tunnel.cloned() {
                    opened = view.attempt_failed(&tunnel, now);
                }
            });
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
