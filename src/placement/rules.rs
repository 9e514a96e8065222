//! The rules for the whole broker, with their defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::FarmId;

/// Score weights. Health and load enter the score as
/// `health * health_weight - active * ... `; see `score`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// Per health point.
    pub health: u32,
    /// Per active session.
    pub active: u32,
    /// Per disconnected session.
    pub disconnected: u32,
    /// Per CPU percent.
    pub cpu: u32,
    /// Per percent of memory used.
    pub memory: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            health: 10,
            active: 20,
            disconnected: 5,
            cpu: 2,
            memory: 1,
        }
    }
}

/// Where a user's name is taken from, in the order tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentitySource {
    /// The RDP `username` and `domain` parameters.
    Username,
    /// The Guacamole login, from the `name` instruction.
    Name,
}

/// Rules for the whole broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Whether users are taken back to sessions they left.
    pub reconnect_existing: bool,
    /// One lease per user (true) or per user, farm and resource (false).
    pub single_session_per_user: bool,
    /// How long a lease lingers after its last tunnel closed.
    pub lease: Duration,
    /// Health below which a host gets no new session, 0 to 100.
    pub min_health_score: u8,
    /// Age at which a host's report means offline for new sessions.
    pub offline_after: Duration,
    /// How long our probe must have failed before a returning user is moved.
    pub reconnect_failover: Duration,
    /// Farm of connections and resources that name none.
    pub default_farm: Option<FarmId>,
    /// Whether `farm=` in a selector is obeyed.
    pub allow_farm_selector: bool,
    /// Score weights.
    pub weights: Weights,
    /// Most users on a host at a time, for new sessions; `None`: no bound.
    pub max_sessions: Option<u32>,
    /// Most logons under way on a host at a time.
    pub max_pending_logons: u32,
    /// How long a host that turned usable is filled slowly.
    pub slow_start: Duration,
    /// Most tunnels one user may have open; `None`: no bound.
    pub max_tunnels_per_user: Option<u32>,
    /// Which claims of a host's agent about sessions are believed.
    pub trust_agents: TrustAgents,
    /// Most users who may come to a host within a minute without us before its
    /// agent is mistrusted.
    pub agent_trust_threshold: u32,
    /// What becomes of connections that name no resource.
    pub unmatched: Unmatched,
    /// Whether decisions are acted on or only logged.
    pub conduct: Conduct,
    /// Where a user's name is taken from.
    pub identity_order: Vec<IdentitySource>,
    /// Domain that qualifies a bare user name.
    pub default_domain: Option<String>,
    /// DNS domains and UPN suffixes, folded, and the domains they stand for.
    pub domains: BTreeMap<String, String>,
    /// Whether a login and an RDP user that disagree are refused.
    pub require_match: bool,
}

/// What becomes of an RDP connection that names no resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unmatched {
    /// It is passed through, unchanged in meaning.
    #[default]
    Pass,
    /// It is refused: nothing reaches a host past the broker.
    Refuse,
}

/// Which of an agent's claims that a user has a session are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrustAgents {
    /// All, until something speaks against the agent or the claim.
    #[default]
    Always,
    /// Those alone that our own tunnels, leases or history support.
    History,
}

/// Whether decisions are acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conduct {
    /// They are.
    #[default]
    Broker,
    /// They are made and logged, and nothing is changed: for the first days
    /// of an adoption.
    Observe,
}

/// What bounds one host, worked out from host, ruling farm and global rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Most users at a time, for new sessions.
    pub max_sessions: Option<u32>,
    /// Most logons under way at a time.
    pub max_pending_logons: u32,
    /// How long it is filled slowly after it turned usable.
    pub slow_start: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            reconnect_existing: true,
            single_session_per_user: true,
            lease: Duration::from_secs(900),
            min_health_score: 60,
            offline_after: Duration::from_secs(30),
            reconnect_failover: Duration::from_secs(30),
            default_farm: None,
            allow_farm_selector: false,
            weights: Weights::default(),
            max_sessions: None,
            max_pending_logons: 10,
            slow_start: Duration::from_secs(60),
            max_tunnels_per_user: None,
            trust_agents: TrustAgents::default(),
            agent_trust_threshold: 20,
            unmatched: Unmatched::default(),
            conduct: Conduct::default(),
            identity_order: vec![IdentitySource::Username, IdentitySource::Name],
            default_domain: None,
            domains: BTreeMap::new(),
            require_match: false,
        }
    }
}
