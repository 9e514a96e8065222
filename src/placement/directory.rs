//! What the administrator wrote down: hosts, farms, resources and the rules
//! between them, checked. One immutable value per configuration generation.
//!
//! Built by the configuration room, read by every decision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::{FarmId, HostId, ResourceId};

/// An RDP session host as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The host's id; also its agent's id.
    pub id: HostId,
    /// Name or IP address. Comes from configuration only, never from a report.
    pub address: String,
    /// RDP port, 3389 by default.
    pub port: u16,
    /// Farms the host says it belongs to; the order rules where one must be chosen.
    pub farm_ids: Vec<FarmId>,
    /// Tags a farm may ask for.
    pub tags: BTreeMap<String, String>,
    /// Mode at first start; a stored mode wins.
    pub mode: Mode,
}

/// Who may be placed on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everybody.
    #[default]
    Online,
    /// Returning users only; running tunnels untouched.
    Drain,
    /// Nobody; running tunnels untouched.
    Maintenance,
}

/// A named group of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Farm {
    /// The farm's id.
    pub id: FarmId,
    /// What people call it.
    pub name: String,
    /// A disabled farm places nobody.
    pub enabled: bool,
    /// Hosts the farm lists.
    pub agent_ids: Vec<HostId>,
    /// Tags that make a host a member; empty matches nobody.
    pub required_tags: BTreeMap<String, String>,
    /// Overrides of the global rules for this farm.
    pub overrides: FarmOverrides,
}

/// What a farm may decide for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FarmOverrides {
    /// Whether users are taken back to sessions they left.
    pub reconnect_existing: Option<bool>,
    /// Health below which a host gets no new session, 0 to 100.
    pub min_health_score: Option<u8>,
    /// Score weights.
    pub weights: Option<Weights>,
    /// Domain that qualifies a bare user name.
    pub default_domain: Option<String>,
}

/// A published desktop or RemoteApp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The resource's id.
    pub id: ResourceId,
    /// What people call it.
    pub name: String,
    /// What is published.
    pub kind: ResourceKind,
    /// The farm it lives on; without one the default farm.
    pub farm_id: Option<FarmId>,
    /// A disabled resource is refused, never passed through.
    pub enabled: bool,
    /// Id of the Guacamole connection that stands for this resource.
    pub guacamole_connection_id: Option<String>,
    /// Name of that connection, compared without regard to case.
    pub guacamole_connection_name: Option<String>,
    /// Host names (a DNS round-robin name, say) that stand for this resource.
    pub hostnames: Vec<String>,
}

/// What a resource publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceKind {
    /// A whole desktop.
    Desktop,
    /// One application.
    RemoteApp(RemoteApp),
}

/// A RemoteApp as guacd is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteApp {
    /// Alias with exactly one leading `||`.
    // INVARIANT: starts with `||` and a third character that is not `|`.
    pub alias: String,
    /// Working directory on the host; may be empty.
    pub dir: String,
    /// Command-line arguments; may be empty.
    pub args: String,
}

/// Score weights. Health and load enter the score as
/// `health * health_weight - active * ... `; see `score`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Where a user's name is taken from.
    pub identity_order: Vec<IdentitySource>,
    /// Domain that qualifies a bare user name.
    pub default_domain: Option<String>,
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
            identity_order: vec![IdentitySource::Username, IdentitySource::Name],
            default_domain: None,
        }
    }
}

/// Everything configured that a decision reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directory {
    rules: Rules,
    hosts: BTreeMap<HostId, Host>,
    farms: BTreeMap<FarmId, Farm>,
    resources: BTreeMap<ResourceId, Resource>,
    // INVARIANT: derived from `hosts` and `farms`; every id in it is a host here.
    members: BTreeMap<FarmId, BTreeSet<HostId>>,
}

impl Directory {
    /// Builds the directory and works out who belongs where. Of two objects
    /// with one id the later stays; the configuration room refuses that first.
    pub fn new(
        rules: Rules,
        hosts: impl IntoIterator<Item = Host>,
        farms: impl IntoIterator<Item = Farm>,
        resources: impl IntoIterator<Item = Resource>,
    ) -> Self {
        let hosts: BTreeMap<_, _> = hosts.into_iter().map(|h| (h.id.clone(), h)).collect();
        let farms: BTreeMap<_, _> = farms.into_iter().map(|f| (f.id.clone(), f)).collect();
        let resources = resources.into_iter().map(|r| (r.id.clone(), r)).collect();
        let members = farms
            .values()
            .map(|farm| {
                let of_farm = hosts.values().filter(|host| farm.has_member(host));
                (farm.id.clone(), of_farm.map(|h| h.id.clone()).collect())
            })
            .collect();
        Self {
            rules,
            hosts,
            farms,
            resources,
            members,
        }
    }

    /// Rules for the whole broker.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Every host, in id order.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    /// Every farm, in id order.
    pub fn farms(&self) -> impl Iterator<Item = &Farm> {
        self.farms.values()
    }

    /// Every resource, in id order.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
    }

    /// One host.
    pub fn host(&self, id: &HostId) -> Option<&Host> {
        self.hosts.get(id)
    }

    /// One farm.
    pub fn farm(&self, id: &FarmId) -> Option<&Farm> {
        self.farms.get(id)
    }

    /// One resource.
    pub fn resource(&self, id: &ResourceId) -> Option<&Resource> {
        self.resources.get(id)
    }

    /// The farm's hosts, in id order; none for a farm that is not here.
    pub fn members(&self, farm: &FarmId) -> impl Iterator<Item = &HostId> {
        self.members.get(farm).into_iter().flatten()
    }

    /// Whether the host belongs to the farm.
    pub fn is_member(&self, farm: &FarmId, host: &HostId) -> bool {
        self.members.get(farm).is_some_and(|m| m.contains(host))
    }
}

impl Farm {
    /// Whether the host belongs to this farm: it says so itself, the farm lists
    /// it, or it carries every tag the farm requires (exact key and value; a
    /// farm that requires none gains nobody by tags).
    fn has_member(&self, host: &Host) -> bool {
        let by_tags = !self.required_tags.is_empty()
            && self
                .required_tags
                .iter()
                .all(|(key, value)| host.tags.get(key) == Some(value));
        by_tags || host.farm_ids.contains(&self.id) || self.agent_ids.contains(&host.id)
    }
}
