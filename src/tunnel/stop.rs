//! Every way a tunnel can stop, who is behind it, and what Guacamole is told.

use std::io;

use guac_protocol::{EncodeError, Event, HandshakeError, Side, Status};

use super::attempts::blames;
use crate::broker::{DecisionId, PlaceError, Unplaced};
use crate::placement::Refusal;

/// Why a tunnel stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// Guacamole's side sent nothing at all: a health check, or an idle scan.
    #[error("nothing was sent")]
    NothingSent,
    /// Something other than Guacamole's protocol arrived.
    #[error("another protocol arrived")]
    Foreign,
    /// A side broke the protocol.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// What we would have to write does not fit its reader.
    #[error("{0}")]
    TooLarge(#[from] EncodeError),
    /// Guacamole did not finish in time.
    #[error("the handshake was not finished in time")]
    HandshakeTimeout,
    /// A side closed its connection.
    #[error("{0} closed the connection")]
    Closed(Side),
    /// A side's socket failed.
    #[error("{}", socket_failed(*side, error))]
    Socket {
        /// Whose.
        side: Side,
        /// What the system said.
        error: io::Error,
    },
    /// A side said goodbye: `disconnect`, or `error` with its number.
    #[error("{by} ended it{}", status.map(|s| format!(" with error {s}")).unwrap_or_default())]
    Goodbye {
        /// Who.
        by: Side,
        /// The number of its `error`.
        status: Option<u16>,
    },
    /// guacd cannot be reached.
    #[error("guacd at {address} cannot be reached: {error}")]
    GuacdUnreachable {
        /// Where it should be.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// guacd is there and gets no TLS, or has none.
    #[error("no TLS with guacd at {address}: {reason}")]
    GuacdUntrusted {
        /// Where it is.
        address: String,
        /// Why, and what to do.
        reason: String,
    },
    /// guacd speaks TLS and was spoken to in plain text.
    #[error("guacd answers in TLS: set tls = true in [guacd]")]
    GuacdSpeaksTls,
    /// guacd left without an answer to `select`.
    #[error(
        "guacd at {address} closed the connection without an answer: it lacks the protocol, or it \
         was started with -C and -K and needs tls = true in [guacd]"
    )]
    GuacdHungUp {
        /// Where it is.
        address: String,
    },
    /// guacd accepts connections but does not answer.
    #[error("guacd does not answer")]
    GuacdSilent,
    /// Too many tunnels are open.
    #[error("{most} tunnels are open, which is the most that are served")]
    TunnelsFull {
        /// Most of them.
        most: usize,
    },
    /// Its turn to dial guacd did not come in time.
    #[error(
        "guacd is slow: {most} connections to it are being opened, and the turn of this one did not come"
    )]
    DialsFull {
        /// Most of them.
        most: usize,
    },
    /// A join of an id that is not ours, or whose tunnel has ended.
    #[error("no such connection")]
    UnknownJoin,
    /// The replica that has the connection cannot be asked.
    #[error("the replica at {address}, which has the connection, cannot be reached: {reason}")]
    ReplicaUnreachable {
        /// Where it should be.
        address: String,
        /// What the system said, or TLS.
        reason: String,
    },
    /// The user goes nowhere.
    #[error("{refusal} (decision {decision})")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// The decision's name.
        decision: DecisionId,
        /// The orders that keep hosts out, for the log alone.
        orders: Option<String>,
    },
    /// guacd does not announce what the placement must set.
    #[error("this guacd has no parameter {name} (decision {decision})")]
    Missing {
        /// Which one.
        name: &'static str,
        /// The decision that needed it.
        decision: DecisionId,
    },
    /// No decision in time.
    #[error(
        "{}the placement took longer than its budget (decision {decision})",
        awaited.as_ref().map(|it| format!("{it}, and ")).unwrap_or_default()
    )]
    PlacementTimeout {
        /// The name of the one that did not come about.
        decision: DecisionId,
        /// What kept it waiting, where it was waited for something better.
        awaited: Option<Refusal>,
    },
    /// No decision, since the store cannot be asked.
    #[error("{reason} (decision {decision})")]
    Store {
        /// What the store says.
        reason: String,
        /// The name of the one that did not come about.
        decision: DecisionId,
    },
    /// No host gave the user a desktop.
    #[error("no desktop: {hosts} failed before it stood (decision {decision})")]
    NoDesktop {
        /// Which ones were tried, the last one at the end.
        hosts: String,
        /// The number of guacd's `error` about the last one.
        status: Option<u16>,
        /// The last decision.
        decision: DecisionId,
    },
    /// A join of a tunnel that has no desktop yet.
    #[error("the connection to join has no desktop yet")]
    NothingToJoin,
    /// We are told to end.
    #[error("ended by shutdown")]
    Shutdown,
    /// This tunnel is told to end.
    #[error("ended by an administrator")]
    Ended,
    /// Its task panicked. It is over by then: nobody is told but the log.
    #[error("ended by a fault of sessionguard")]
    Panicked,
}

impl Stop {
    /// An event that cannot follow where the tunnel stands: somebody ended it.
    pub(super) fn unexpected(event: &Event) -> Self {
        match event {
            Event::Ended { by, status } => Self::Goodbye {
                by: *by,
                status: *status,
            },
            // The machine lets nothing else through out of turn.
            _ => Self::GuacdSilent,
        }
    }

    /// Who is behind it, in one word for the log.
    pub(super) fn by(&self) -> &'static str {
        match self {
            Self::Handshake(error) => side_name(faulty(error)),
            Self::NothingSent
            | Self::Foreign
            | Self::TooLarge(_)
            | Self::HandshakeTimeout
            | Self::UnknownJoin => "guacamole",
            Self::Closed(side) | Self::Socket { side, .. } | Self::Goodbye { by: side, .. } => {
                side_name(*side)
            }
            Self::GuacdUnreachable { .. }
            | Self::GuacdUntrusted { .. }
            | Self::GuacdSpeaksTls
            | Self::GuacdHungUp { .. }
            | Self::GuacdSilent
            | Self::DialsFull { .. }
            | Self::Missing { .. } => "guacd",
            Self::Refused { .. }
            | Self::TunnelsFull { .. }
            | Self::PlacementTimeout { .. }
            | Self::Store { .. }
            | Self::NoDesktop { .. }
            | Self::NothingToJoin
            | Self::ReplicaUnreachable { .. }
            | Self::Shutdown
            | Self::Panicked => "sessionguard",
            Self::Ended => "administrator",
        }
    }

    /// What Guacamole is told; `None`: nothing, or it is gone.
    pub(super) fn status(&self) -> Option<Status> {
        match self {
            Self::NothingSent
            | Self::Foreign
            | Self::Panicked
            | Self::Closed(Side::Guacamole)
            | Self::Socket {
                side: Side::Guacamole,
                ..
            }
            | Self::Goodbye {
                by: Side::Guacamole,
                ..
            } => None,
            Self::Handshake(error) => Some(match faulty(error) {
                Side::Guacamole => Status::ClientBadRequest,
                Side::Guacd => Status::UpstreamError,
            }),
            Self::TooLarge(_) => Some(Status::ClientBadRequest),
            Self::HandshakeTimeout => Some(Status::ClientTimeout),
            Self::Goodbye {
                by: Side::Guacd,
                status,
            }
            | Self::NoDesktop { status, .. } => Some(
                status
                    .and_then(Status::from_code)
                    // No refusal says success.
                    .filter(|status| *status != Status::Success)
                    .unwrap_or(Status::UpstreamUnavailable),
            ),
            Self::Closed(Side::Guacd)
            | Self::Socket {
                side: Side::Guacd, ..
            }
            | Self::GuacdUnreachable { .. }
            | Self::GuacdUntrusted { .. }
            | Self::GuacdSpeaksTls
            | Self::GuacdHungUp { .. }
            | Self::GuacdSilent
            | Self::ReplicaUnreachable { .. }
            | Self::Store { .. } => Some(Status::UpstreamUnavailable),
            Self::UnknownJoin | Self::Missing { .. } => Some(Status::ResourceNotFound),
            Self::Refused { refusal, .. } => Some(status_of(refusal)),
            // The page must not come back by itself and add to the flood.
            Self::TunnelsFull { .. } => Some(Status::ServerBusy),
            // It waited, and what it waited for passes: the page may try again.
            Self::DialsFull { .. } | Self::PlacementTimeout { .. } | Self::NothingToJoin => {
                Some(Status::UpstreamTimeout)
            }
            Self::Shutdown | Self::Ended => Some(Status::SessionClosed),
        }
    }

    /// What the page is told: where the store is and what it is called is none
    /// of its business.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Store { decision, .. } => {
                format!("nobody can be placed now: the store does not answer (decision {decision})")
            }
            _ => self.to_string(),
        }
    }

    /// The decision it goes by.
    pub(super) fn decision(&self) -> Option<DecisionId> {
        match self {
            Self::Refused { decision, .. }
            | Self::Missing { decision, .. }
            | Self::PlacementTimeout { decision, .. }
            | Self::Store { decision, .. }
            | Self::NoDesktop { decision, .. } => Some(*decision),
            _ => None,
        }
    }

    /// Whether guacd was lost in a way that another dial may mend: it has gone,
    /// and said nothing of why.
    pub(super) fn may_dial_again(&self) -> bool {
        matches!(
            self,
            Self::Closed(Side::Guacd)
                | Self::Socket {
                    side: Side::Guacd,
                    ..
                }
                | Self::GuacdUnreachable { .. }
        )
    }

    /// Whether a desktop that stood was lost for what may be its host's fault.
    pub(super) fn may_be_the_hosts(&self) -> bool {
        match self {
            Self::Goodbye {
                by: Side::Guacd,
                status,
            } => status.is_some() && blames(*status),
            Self::Closed(Side::Guacd)
            | Self::Socket {
                side: Side::Guacd, ..
            } => true,
            _ => false,
        }
    }
}

impl From<Unplaced> for Stop {
    fn from(unplaced: Unplaced) -> Self {
        let decision = unplaced.id;
        match unplaced.error {
            PlaceError::TimedOut => Self::PlacementTimeout {
                decision,
                awaited: unplaced.last.and_then(|last| last.refusal().cloned()),
            },
            error @ (PlaceError::Store(_) | PlaceError::Away) => Self::Store {
                reason: error.to_string(),
                decision,
            },
        }
    }
}

/// The page retries by itself on some codes: never one of those for what lasts.
fn status_of(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::BadSelector(_)
        | Refusal::UnknownResource
        | Refusal::NoFarm
        | Refusal::UnknownFarm(_)
        | Refusal::EmptyFarm(_) => Status::ResourceNotFound,
        Refusal::FarmSelectorNotAllowed
        | Refusal::Unmatched
        | Refusal::LoginMismatch
        | Refusal::ResourceDisabled(_)
        | Refusal::FarmDisabled(_) => Status::ClientForbidden,
        Refusal::CarriersDisagree | Refusal::AmbiguousResource(..) => Status::ResourceConflict,
        Refusal::HeldElsewhere(_) | Refusal::Busy(_) => Status::ServerBusy,
        Refusal::TooManyTunnels => Status::ClientTooMany,
        Refusal::LogonsPending(_) => Status::UpstreamTimeout,
        Refusal::Unreachable(_) => Status::UpstreamUnavailable,
    }
}

/// Whose fault a broken handshake is.
fn faulty(error: &HandshakeError) -> Side {
    match error {
        HandshakeError::Decode { side, .. }
        | HandshakeError::Unexpected { side, .. }
        | HandshakeError::TooMuch { side, .. } => *side,
        // What one side cannot read, the other one sent.
        HandshakeError::Encode { reader, .. } => match reader {
            Side::Guacamole => Side::Guacd,
            Side::Guacd => Side::Guacamole,
        },
        HandshakeError::DuplicateName { .. } | HandshakeError::ReadyId { .. } => Side::Guacd,
        _ => Side::Guacamole,
    }
}

/// What the system calls a timeout is one of two things, both of this side.
fn socket_failed(side: Side, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!(
            "{side} has taken nothing for as long as stall_timeout in [limits], or is gone without a word"
        ),
        _ => format!("connection to {side} failed: {error}"),
    }
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Guacamole => "guacamole",
        Side::Guacd => "guacd",
    }
}

#[cfg(test)]
mod tests;
