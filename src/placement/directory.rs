//! What the administrator wrote down: hosts, farms, resources and the rules
//! between them, checked. One immutable value per configuration generation.
//!
//! Built by the configuration room, read by every decision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::{FarmId, HostId, ResourceId};
use super::mode::Mode;
use super::rules::{Caps, Rules, Weights};

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
    /// Most users on it at a time, for new sessions; the farm's where `None`.
    pub max_sessions: Option<u32>,
    /// Most logons under way at a time; the farm's where `None`.
    pub max_pending_logons: Option<u32>,
    /// Connection parameters set for every tunnel to this host.
    pub parameters: ParameterValues,
}

/// Connection parameters by name. Some are secrets, so values are not printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ParameterValues(pub BTreeMap<String, String>);

impl fmt::Debug for ParameterValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
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
    /// Most users on each host at a time, for new sessions.
    pub max_sessions: Option<u32>,
    /// Most logons under way on each host at a time.
    pub max_pending_logons: Option<u32>,
    /// How long a host that turned usable is filled slowly.
    pub slow_start: Option<Duration>,
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
    /// The source the connection id and name belong to, where ids of several
    /// Guacamole databases arrive; `None`: of any.
    pub source: Option<String>,
    /// Host names (a DNS round-robin name, say) that stand for this resource.
    pub hostnames: Vec<String>,
    /// `load-balance-info` that stands for this resource.
    pub load_balance_info: Option<String>,
    /// How long other hosts are tried for it, from `select` on; `None`: as long
    /// as for every resource.
    pub attempt_deadline: Option<Duration>,
    /// Parameters left as Guacamole sent them though a placement clears them.
    pub keep_parameters: BTreeSet<String>,
    /// Connection parameters set for every tunnel of this resource; they win
    /// over the host's.
    pub parameters: ParameterValues,
}

/// What a resource publishes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// A whole desktop.
    Desktop,
    /// One application.
    RemoteApp(RemoteApp),
    /// Whatever the connection itself asks for.
    AsConnected,
}

/// A RemoteApp as guacd is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteApp {
    /// Alias with exactly one leading `||`.
    // INVARIANT: starts with `||` and a third character that is not `|`.
    pub alias: String,
    /// Working directory on the host; may be empty.
    pub dir: String,
    /// Command-line arguments; may be empty.
    pub args: String,
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
    // INVARIANT: derived; one entry a host.
    caps: BTreeMap<HostId, Caps>,
    // INVARIANT: derived; `members` in order, each with its caps.
    rosters: BTreeMap<FarmId, Vec<(HostId, Caps)>>,
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
        let mut directory = Self {
            rules,
            hosts,
            farms,
            resources,
            members,
            caps: BTreeMap::new(),
            rosters: BTreeMap::new(),
        };
        let caps = |host: &Host| (host.id.clone(), directory.work_out_caps(host));
        directory.caps = directory.hosts.values().map(caps).collect();
        let roster = |(farm, ids): (&FarmId, &BTreeSet<HostId>)| {
            let bounded = ids
                .iter()
                .filter_map(|id| Some((id.clone(), directory.caps(id)?)));
            (farm.clone(), bounded.collect())
        };
        directory.rosters = directory.members.iter().map(roster).collect();
        directory
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

    /// The farm's hosts, in id order, each with what bounds it.
    pub(super) fn roster(&self, farm: &FarmId) -> &[(HostId, Caps)] {
        self.rosters.get(farm).map_or(&[], Vec::as_slice)
    }

    /// What bounds a host; `None` for one that is not here.
    pub fn caps(&self, host: &HostId) -> Option<Caps> {
        self.caps.get(host).copied()
    }

    /// The domain of users whom the host names without one.
    pub fn default_domain(&self, host: &HostId) -> Option<&str> {
        let ruling = self.hosts.get(host).and_then(|host| self.ruling_farm(host));
        let own = ruling.and_then(|farm| farm.overrides.default_domain.as_deref());
        own.or(self.rules.default_domain.as_deref())
    }

    /// Of several farms the first of the host's own `farm_ids` rules it, then
    /// the first in id order.
    fn ruling_farm(&self, host: &Host) -> Option<&Farm> {
        let own = host.farm_ids.iter().filter_map(|id| self.farms.get(id));
        let others = self
            .farms
            .values()
            .filter(|farm| self.is_member(&farm.id, &host.id));
        own.chain(others).next()
    }

    /// The host's own word, then that of the farm that rules it, then the
    /// global rules.
    fn work_out_caps(&self, host: &Host) -> Caps {
        let overrides = self.ruling_farm(host).map(|farm| &farm.overrides);
        let of_farm = |pick: fn(&FarmOverrides) -> Option<u32>| overrides.and_then(pick);
        Caps {
            max_sessions: host
                .max_sessions
                .or(of_farm(|o| o.max_sessions))
                .or(self.rules.max_sessions),
            max_pending_logons: host
                .max_pending_logons
                .or(of_farm(|o| o.max_pending_logons))
                .unwrap_or(self.rules.max_pending_logons),
            slow_start: overrides
                .and_then(|o| o.slow_start)
                .unwrap_or(self.rules.slow_start),
        }
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
