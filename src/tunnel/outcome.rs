//! What became of a tunnel: one log line when it was placed, one at its end
//! that tells who ended it, in which phase, after how long and how much.

use std::fmt;
use std::thread;

use arcstr::literal;
use guac_protocol::Status;
use tokio::time::Instant;
use tracing::{Span, debug, info, warn};

use super::limits::Counted;
use super::open::{Entry, Facts, Kind};
use super::rewrite::Rewritten;
use super::stop::Stop;
use super::trace::Trace;
use crate::broker::DecisionId;
use crate::placement::{self, Decision, HostId, Placement, Refusal, Trust, TunnelId, UserKey};

/// How far a tunnel came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No `ready` yet.
    Handshake,
    /// Placed and tried: Guacamole has its `ready`, and nothing of guacd yet.
    Attempting,
    /// Placed; whether the RDP connection stands is not known yet.
    Pending,
    /// The RDP connection stood.
    Stood,
    /// Relayed without a placement: another protocol, a join, none of ours.
    Relayed,
}

/// A tunnel's record in the making.
#[derive(Debug)]
pub(super) struct Outcome {
    entry: Entry,
    /// Its part of the tunnels that are served at a time, once it asked for one.
    pub(super) counted: Option<Counted>,
    opened: Instant,
    pub(super) phase: Phase,
    /// Hosts that were tried, one that was tried twice counted twice.
    pub(super) attempts: u32,
    pub(super) trace: Trace,
}

/// A fault of ours ends the tunnel's task between any two steps: its line comes
/// all the same, with what is known by then.
impl Drop for Outcome {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        if self.entry.has_stood() {
            self.phase = Phase::Stood;
        }
        self.log(&Stop::Panicked);
    }
}

impl Outcome {
    pub(super) fn new(entry: Entry) -> Self {
        Self {
            entry,
            counted: None,
            opened: Instant::now(),
            phase: Phase::Handshake,
            attempts: 0,
            trace: Trace::none(),
        }
    }

    /// The first byte is there; the span of what follows.
    pub(super) fn begin_trace(&mut self) -> Span {
        self.trace.begin(self.entry.id())
    }

    pub(super) fn tunnel(&self) -> &TunnelId {
        self.entry.id()
    }

    /// The host its RDP connection stood on.
    pub(super) fn stood_on(&self) -> Option<HostId> {
        let stood = self.phase == Phase::Stood;
        self.entry.host().filter(|_| stood)
    }

    /// Its line in the list of open tunnels.
    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The line at placement. Cleared parameters appear by name, never by value.
    pub(super) fn placed(
        &self,
        id: &DecisionId,
        decision: &Decision,
        placement: &Placement,
        names: &Rewritten,
    ) {
        let user = decision.user.as_ref().map(ToString::to_string);
        let mut candidates = decision.candidates.iter();
        let chosen = candidates.find(|c| c.host == placement.host);
        info!(
            tunnel = %self.tunnel(),
            decision_id = %id,
            user = user.as_deref().unwrap_or("(asked later)"),
            resource = %Shown(decision.resource.as_ref()),
            farm = %Shown(decision.farm.as_ref()),
            host = %placement.host,
            reason = %placement.reason,
            score = chosen.map(|c| c.score.total),
            cleared = names.cleared.join(","),
            set = names.set.join(","),
            unknown = names.unknown.join(","),
            generation = decision.generation,
            "Placed"
        );
        self.warn_of_name(decision);
        self.entry.note(|facts| {
            *facts = Facts {
                host: Some(placement.host.clone()),
                ..decided(facts, id, decision, Kind::Brokered)
            };
        });
    }

    /// What the user's name is not worth, said once a placement.
    fn warn_of_name(&self, decision: &Decision) {
        let (tunnel, user) = (self.tunnel(), Shown(decision.user.as_ref()));
        match decision.trust {
            Trust::Plain => {}
            Trust::Doubtful => warn!(
                %tunnel, %user,
                "The Guacamole login is another than the RDP user: the lease is left as it was until the session has lasted"
            ),
            Trust::Ambiguous => warn!(
                %tunnel, %user,
                "Several domains know this bare user name: set default_domain to tell them apart"
            ),
        }
    }

    /// The line of a connection that is none of ours.
    pub(super) fn passed_through(&self, protocol: &str, user: Option<UserKey>) {
        info!(tunnel = %self.tunnel(), protocol, "Passed through");
        self.entry.note(|facts| {
            facts.kind = Kind::PassThrough;
            facts.protocol = Some(protocol.into());
            facts.user = user;
        });
    }

    /// The line of a seat in another tunnel, by the id that was issued for it.
    /// `replica` has that tunnel, where it is not ours.
    pub(super) fn joined(&self, connection: &str, tunnel: Option<TunnelId>, replica: Option<&str>) {
        info!(tunnel = %self.tunnel(), connection, replica, "Joined");
        self.entry.note(|facts| {
            facts.kind = Kind::Join;
            facts.joined = tunnel;
        });
    }

    /// The line of a decision that is only watched.
    pub(super) fn observed(&self, id: &DecisionId, decision: &Decision) {
        let (tunnel, decision_id) = (self.tunnel(), id);
        let user = Shown(decision.user.as_ref());
        self.entry
            .note(|facts| *facts = decided(facts, id, decision, Kind::PassThrough));
        match &decision.outcome {
            placement::Outcome::Placed(Placement { host, reason, .. }) => {
                info!(%tunnel, %decision_id, %user, %host, %reason, "Would place");
            }
            placement::Outcome::Refused(reason) => {
                info!(%tunnel, %decision_id, %user, %reason, "Would refuse");
            }
            placement::Outcome::Unmatched => {
                info!(%tunnel, %decision_id, "Would pass through");
            }
        }
    }

    /// The line at the end.
    pub(super) fn log(&self, stop: &Stop) {
        let status = self.told(stop).map(Status::name);
        let bytes = self.entry.bytes();
        let reached = (self.phase, self.attempts);
        self.trace.end((stop, status), reached, bytes);
        self.trace.connection().in_scope(|| self.tell(stop, status));
    }

    fn tell(&self, stop: &Stop, status: Option<&'static str>) {
        // A health check leaves no line; what is foreign left its own.
        if matches!(stop, Stop::NothingSent | Stop::Foreign) {
            debug!(tunnel = %self.tunnel(), "Closed without a handshake");
            return;
        }
        self.log_refusal(stop);
        let (to_guacd, to_guacamole) = self.entry.bytes();
        info!(
            tunnel = %self.tunnel(),
            by = stop.by(),
            phase = %self.phase,
            how = %stop,
            status,
            attempts = (self.attempts > 0).then_some(self.attempts),
            to_guacd,
            to_guacamole,
            seconds = self.opened.elapsed().as_secs_f64(),
            "Tunnel ended"
        );
    }

    /// What Guacamole was told. Once the handshake is over it hears guacd itself, and of us only
    /// that we end it; a side that simply leaves says nothing.
    fn told(&self, stop: &Stop) -> Option<Status> {
        match stop {
            _ if matches!(self.phase, Phase::Handshake | Phase::Attempting) => stop.status(),
            Stop::Shutdown | Stop::Ended => stop.status(),
            Stop::Goodbye {
                status: Some(_), ..
            } => stop.status(),
            _ => None,
        }
    }

    fn log_refusal(&self, stop: &Stop) {
        let tunnel = self.tunnel();
        match stop {
            Stop::Refused {
                refusal,
                decision,
                orders,
            } => {
                let (decision_id, reason) = (decision, refusal);
                let orders = orders.as_deref();
                match refusal {
                    Refusal::Busy(_) | Refusal::Unreachable(_) | Refusal::HeldElsewhere(_) => {
                        warn!(%tunnel, %decision_id, %reason, orders, "Refused");
                    }
                    _ => info!(%tunnel, %decision_id, %reason, "Refused"),
                }
            }
            Stop::Store { decision, .. }
            | Stop::PlacementTimeout { decision, .. }
            | Stop::Missing { decision, .. }
            | Stop::NoDesktop { decision, .. } => {
                warn!(%tunnel, decision_id = %decision, reason = %stop, "Refused");
            }
            Stop::GuacdUnreachable { .. }
            | Stop::GuacdUntrusted { .. }
            | Stop::GuacdSpeaksTls
            | Stop::GuacdHungUp { .. }
            | Stop::GuacdSilent
            | Stop::ReplicaUnreachable { .. }
            | Stop::TunnelsFull { .. }
            | Stop::DialsFull { .. } => {
                warn!(%tunnel, reason = %stop, "Refused");
            }
            _ => {}
        }
    }
}

/// What a decision adds to what is known.
fn decided(facts: &Facts, id: &DecisionId, decision: &Decision, kind: Kind) -> Facts {
    Facts {
        kind,
        protocol: Some(literal!("rdp")),
        user: decision.user.clone(),
        farm: decision.farm.clone(),
        resource: decision.resource.clone(),
        decision: Some(*id),
        ..facts.clone()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake => "handshake",
            Self::Attempting => "attempting",
            Self::Pending => "pending",
            Self::Stood => "stood",
            Self::Relayed => "relayed",
        })
    }
}

/// A value or nothing, for a log field.
struct Shown<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |value| value.fmt(f))
    }
}
