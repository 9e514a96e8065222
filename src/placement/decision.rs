//! What was decided and why: a placement or a refusal, and what every host of
//! the farm had to say.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::aim::Trust;
use super::breaker::Opening;
use super::directory::ResourceKind;
use super::identity::UserKey;
use super::ids::{FarmId, HostId, ResourceId};
use super::lease_key::LeaseKey;
use super::mode::Order;
use super::reach::Reach;
use super::report::SessionState;
use super::score::Score;
use super::selector::SelectorError;
use super::snapshot::{Occupancy, Probe};
use super::time::Timestamp;
use super::trust::Mistrust;

/// A decision, able to explain itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Snapshot generation it was made on.
    pub generation: u64,
    /// Configuration it was made on.
    pub configuration: u64,
    /// The resource the connection names.
    pub resource: Option<ResourceId>,
    /// The farm it was looked for in.
    pub farm: Option<FarmId>,
    /// Who asked; `None` where Guacamole will prompt.
    pub user: Option<UserKey>,
    /// Whether the user's name is to be believed.
    pub trust: Trust,
    /// The lease it stands on; `None` without a user.
    pub key: Option<LeaseKey>,
    /// What came out.
    pub outcome: Outcome,
    /// Every host of the farm, in id order; empty where no farm was reached or
    /// where a tunnel already open decided alone.
    pub candidates: Vec<Candidate>,
}

/// What came out of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The user goes to this host.
    Placed(Placement),
    /// The user goes nowhere.
    Refused(Refusal),
    /// The connection names no resource: it is none of ours.
    Unmatched,
}

/// The chosen host, copied from the configuration the decision saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Which host.
    pub host: HostId,
    /// Its configured address.
    pub address: String,
    /// Its configured RDP port.
    pub port: u16,
    /// What the resource publishes there.
    pub kind: ResourceKind,
    /// Which step chose it.
    pub reason: Reason,
}

/// The step that chose a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A tunnel of this user is open there.
    Tunnel,
    /// A session of this user is there.
    Reconnect(SessionState),
    /// A lease of this user is there.
    Lease,
    /// The best score.
    Score,
    /// A lease of this user was there when the store could be asked last.
    Degraded,
}

/// Why the user goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The selector cannot be read.
    BadSelector(SelectorError),
    /// A selector names a farm, which the rules do not allow.
    FarmSelectorNotAllowed,
    /// A carrier names a resource that is not configured.
    UnknownResource,
    /// The selector and the extra parameter name different resources.
    CarriersDisagree,
    /// Two enabled resources answer to the same carrier.
    AmbiguousResource(ResourceId, ResourceId),
    /// The resource is disabled.
    ResourceDisabled(ResourceId),
    /// No farm is named and there is no default farm.
    NoFarm,
    /// The farm named is not configured.
    UnknownFarm(FarmId),
    /// The farm is disabled.
    FarmDisabled(FarmId),
    /// The farm has no host at all.
    EmptyFarm(FarmId),
    /// A tunnel of this user is open on a host that is in maintenance or has
    /// left the farm.
    HeldElsewhere(HostId),
    /// The connection names no resource, and such ones are not let through.
    Unmatched,
    /// The Guacamole login and the RDP user are two persons.
    LoginMismatch,
    /// The user has as many tunnels open as one may have.
    TooManyTunnels,
    /// Every host that could take the user has its fill of logons under way.
    /// Passes by itself: whoever asked waits and asks again.
    LogonsPending(FarmId),
    /// Hosts can be reached, but none may take a new session now.
    Busy(FarmId),
    /// No host of the farm can be reached.
    Unreachable(FarmId),
}

/// What one host of the farm had to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which host.
    pub host: HostId,
    /// Its score, whether eligible or not.
    pub score: Score,
    /// Whether new sessions could reach it at all.
    pub reach: Reach,
    /// What our own probe said, and since when.
    pub probe: Probe,
    /// When its agent's last report came; `None` where none ever did.
    pub report: Option<Timestamp>,
    /// How full it is.
    pub occupancy: Occupancy,
    /// Why it may not take a new session; `None`: it may.
    pub exclusion: Option<Exclusion>,
    /// The order that has it in drain or maintenance; `None` where the
    /// configuration does, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Arc<Order>>,
    /// How its breaker opened; `None` where it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Arc<Opening>>,
    /// Why it is not believed that the user has a session there; `None`: it is,
    /// or does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_set_aside: Option<Mistrust>,
}

/// The rule that kept a host out of a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// It is in drain.
    Drain,
    /// It is in maintenance.
    Maintenance,
    /// Nothing has been heard of it yet.
    NotProbed,
    /// Its agent's last report is too old.
    AgentSilent,
    /// Our probe of its RDP port fails.
    ProbeFails,
    /// Its breaker is open, or half open with a tunnel trying already.
    Breaker,
    /// Its agent says that nothing listens for RDP.
    NoListener,
    /// Its health is below the farm's minimum.
    Unhealthy,
    /// Its agent says that it does not publish the RemoteApp.
    RemoteAppMissing,
    /// It failed this very connection already.
    Tried,
    /// It has as many users as it may have.
    Full,
    /// It has its fill of logons under way.
    LogonsPending,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tunnel => "tunnel already open there",
            Self::Reconnect(SessionState::Active) => "active session there",
            Self::Reconnect(SessionState::Connected) => "connected session there",
            Self::Reconnect(SessionState::Disconnected) => "disconnected session there",
            Self::Lease => "lease",
            Self::Score => "best score",
            Self::Degraded => "degraded: lease as last known, the store is away",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadSelector(error) => write!(f, "{error}"),
            Self::FarmSelectorNotAllowed => {
                f.write_str("farm= in a selector needs allow_farm_selector = true")
            }
            Self::UnknownResource => f.write_str("the connection names an unknown resource"),
            Self::CarriersDisagree => {
                f.write_str("the hostname and sessionguard-resource name different resources")
            }
            Self::AmbiguousResource(a, b) => {
                write!(f, "resources {a} and {b} both answer to this connection")
            }
            Self::ResourceDisabled(id) => write!(f, "resource {id} is disabled"),
            Self::NoFarm => f.write_str("no farm is named and there is no default farm"),
            Self::UnknownFarm(id) => write!(f, "farm {id} is not configured"),
            Self::FarmDisabled(id) => write!(f, "farm {id} is disabled"),
            Self::EmptyFarm(id) => write!(f, "farm {id} has no host"),
            Self::HeldElsewhere(id) => write!(
                f,
                "the user has a tunnel open on host {id}, which may not be used now"
            ),
            Self::Unmatched => f.write_str("the connection names no resource"),
            Self::LoginMismatch => {
                f.write_str("the Guacamole login and the RDP user name are two persons")
            }
            Self::TooManyTunnels => f.write_str("the user has too many connections open"),
            Self::LogonsPending(id) => {
                write!(
                    f,
                    "every host of farm {id} has its fill of logons under way"
                )
            }
            Self::Busy(id) => write!(f, "no host of farm {id} takes new sessions now"),
            Self::Unreachable(id) => write!(f, "no host of farm {id} can be reached"),
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drain => "in drain",
            Self::Maintenance => "in maintenance",
            Self::NotProbed => "not probed yet",
            Self::AgentSilent => "agent silent",
            Self::ProbeFails => "probe fails",
            Self::Breaker => "breaker open",
            Self::NoListener => "RDP listener down",
            Self::Unhealthy => "health below minimum",
            Self::RemoteAppMissing => "RemoteApp missing",
            Self::Tried => "failed this connection",
            Self::Full => "full",
            Self::LogonsPending => "logons under way",
        })
    }
}
