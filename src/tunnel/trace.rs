//! The spans of a connection's trace, for who collects them; where nobody does,
//! nothing is made of them.
//!
//! ```text
//! connection               first byte to last line
//!   handshake              to guacd's ready, or to a place
//!     placement            a decision; in it the claim, a span of the broker's
//!   attempt                at a desktop, each
//!   placement              after one that failed
//!   relay                  to the end
//! ```
//!
//! In them stand ids, names from the configuration, fixed words and numbers; who
//! is placed in `user` alone, which is taken out unless it may be told.

use std::fmt::Display;

use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use super::outcome::Phase;
use super::stop::Stop;
use crate::broker::DecisionId;
use crate::metrics::{self, Attempted};
use crate::placement::{Decision, HostId, Outcome, TunnelId};

/// Of the connection as a whole, and of its last part; they end with this.
// `None` where nobody collects them: a tunnel that only waits shall be small.
#[derive(Debug)]
pub(super) struct Trace(Option<Box<Spans>>);

#[derive(Debug)]
struct Spans {
    // In the order in which they are dropped.
    relay: Span,
    connection: Span,
}

impl Trace {
    /// Nothing was said yet.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// The first byte is there; the span of the handshake.
    pub(super) fn begin(&mut self, tunnel: &TunnelId) -> Span {
        let connection = info_span!(
            target: "trace",
            parent: None,
            "connection",
            %tunnel,
            by = Empty,
            phase = Empty,
            status = Empty,
            attempts = Empty,
            otel.status_code = Empty
        );
        let handshake = info_span!(target: "trace", parent: &connection, "handshake");
        let is_collected = !connection.is_disabled();
        self.0 = is_collected.then(|| {
            let relay = Span::none();
            Box::new(Spans { relay, connection })
        });
        handshake
    }

    /// For what belongs to the connection and to none of its parts.
    pub(super) fn connection(&self) -> Span {
        let Self(spans) = self;
        let spans = spans.as_ref();
        spans.map_or_else(Span::none, |spans| spans.connection.clone())
    }

    /// The relay begins.
    pub(super) fn relay(&mut self) {
        let Self(Some(spans)) = self else {
            return;
        };
        spans.relay = info_span!(
            target: "trace",
            parent: &spans.connection,
            "relay",
            to_guacd = Empty,
            to_guacamole = Empty
        );
    }

    /// It is over.
    pub(super) fn end(
        &self,
        (stop, status): (&Stop, Option<&'static str>),
        (phase, attempts): (Phase, u32),
        (to_guacd, to_guacamole): (u64, u64),
    ) {
        let Self(Some(spans)) = self else {
            return;
        };
        let Spans { relay, connection } = &**spans;
        relay.record("to_guacd", to_guacd);
        relay.record("to_guacamole", to_guacamole);
        // A span ends where it was left last, the connection behind its last line.
        relay.in_scope(|| ());
        connection.record("by", stop.by());
        connection.record("phase", display(phase));
        if let Some(status) = status {
            connection.record("status", status);
            connection.record("otel.status_code", "ERROR");
        }
        if attempts > 0 {
            connection.record("attempts", attempts);
        }
    }
}

/// A decision about a place, and the claim of it.
pub(super) fn placement() -> Span {
    info_span!(
        target: "trace",
        "placement",
        decision_id = Empty,
        user = Empty,
        resource = Empty,
        farm = Empty,
        host = Empty,
        reason = Empty,
        refusal = Empty,
        otel.status_code = Empty
    )
}

/// What was decided.
pub(super) fn decided(span: &Span, id: &DecisionId, decision: &Decision) {
    span.record("decision_id", display(id));
    note(span, "user", decision.user.as_ref());
    note(span, "resource", decision.resource.as_ref());
    note(span, "farm", decision.farm.as_ref());
    match &decision.outcome {
        Outcome::Placed(placement) => {
            span.record("host", display(&placement.host));
            span.record("reason", display(placement.reason));
        }
        Outcome::Refused(refusal) => {
            span.record("refusal", metrics::refused(refusal));
            span.record("otel.status_code", "ERROR");
        }
        Outcome::Unmatched => {}
    }
}

/// Nothing could be.
pub(super) fn undecided(span: &Span, id: &DecisionId) {
    span.record("decision_id", display(id));
    span.record("otel.status_code", "ERROR");
}

fn note(span: &Span, name: &'static str, value: Option<&impl Display>) {
    if let Some(value) = value {
        span.record(name, display(value));
    }
}

/// A try at a desktop on this host.
pub(super) fn attempt(number: u32, host: &HostId) -> Span {
    info_span!(
        target: "trace",
        "attempt",
        number,
        %host,
        result = Empty,
        otel.status_code = Empty
    )
}

/// What came of it.
pub(super) fn attempted(span: &Span, came: Attempted) {
    span.record("result", came.word());
    if !matches!(came, Attempted::Stood | Attempted::Released) {
        span.record("otel.status_code", "ERROR");
    }
}
