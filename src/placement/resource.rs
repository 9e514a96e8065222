//! Which resource a connection names, from the most explicit carrier to the
//! least: resource id, Guacamole connection id, connection name, then what the
//! connection carries anyway. Two enabled resources on one step are refused;
//! there is never a silent pick.

use super::decision::Refusal;
use super::directory::{Directory, Resource, ResourceKind};
use super::identity::fold;
use super::ids::{FarmId, ResourceId};
use super::selector::{Selector, SelectorError};

/// A hostname that stands for whatever host is chosen.
const ANY_HOST: &str = "${SESSIONGUARD_HOST}";

/// What in a connection may name its resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carriers {
    /// A resource's id.
    pub resource: Option<ResourceId>,
    /// The Guacamole connection's id.
    pub connection_id: Option<String>,
    /// The Guacamole connection's name.
    pub connection_name: Option<String>,
    /// A farm's id.
    pub farm: Option<FarmId>,
    /// The hostname the connection was given; empty where a selector stood there.
    pub hostname: String,
    /// The hostname is the literal token for "the chosen host".
    pub any_host: bool,
    /// The RemoteApp the connection was given; may be empty.
    pub remote_app: String,
    /// The `load-balance-info` the connection was given; may be empty.
    pub load_balance_info: String,
    /// Where the connection came from: its ids are unique there only.
    pub source: Option<String>,
}

/// What a connection carries, as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried<'a> {
    /// Its `hostname`.
    pub hostname: &'a str,
    /// Our own extra parameter.
    pub extra: &'a str,
    /// Its `remote-app`.
    pub remote_app: &'a str,
    /// Its `load-balance-info`.
    pub load_balance_info: &'a str,
    /// The source of the listener it came in by.
    pub source: Option<&'a str>,
}

impl Carriers {
    /// Reads what a connection carries.
    ///
    /// # Errors
    /// A selector that cannot be read, a token left unfilled, and two carriers
    /// that disagree.
    pub fn read(carried: Carried<'_>) -> Result<Self, Refusal> {
        let hostname = carried.hostname.trim();
        let mut carriers = Self {
            any_host: hostname == ANY_HOST,
            remote_app: carried.remote_app.trim().to_owned(),
            load_balance_info: carried.load_balance_info.trim().to_owned(),
            source: carried.source.map(str::to_owned),
            ..Self::default()
        };
        match Selector::parse(hostname) {
            None if carriers.any_host => {}
            None => carriers.hostname = hostname.to_owned(),
            Some(selector) => {
                let selector = selector.map_err(Refusal::BadSelector)?;
                carriers.resource = selector.resource.map(ResourceId::from);
                carriers.connection_id = selector.id;
                carriers.connection_name = selector.name;
                carriers.farm = selector.farm.map(FarmId::from);
            }
        }
        let extra = carried.extra.trim();
        if extra.contains("${") {
            return Err(Refusal::BadSelector(SelectorError::UnfilledToken));
        }
        if !extra.is_empty() {
            let extra = ResourceId::from(extra);
            if carriers
                .resource
                .as_ref()
                .is_some_and(|named| *named != extra)
            {
                return Err(Refusal::CarriersDisagree);
            }
            carriers.resource = Some(extra);
        }
        Ok(carriers)
    }

    /// Whether a carrier names a resource; it must then lead to one.
    fn is_explicit(&self) -> bool {
        self.resource.is_some() || self.connection_id.is_some() || self.connection_name.is_some()
    }

    /// Whether the connection asks for a host of a farm even without a resource.
    pub(super) fn asks_for_any(&self) -> bool {
        self.any_host || self.farm.is_some()
    }
}

/// The resource these carriers name; `None`: none of ours.
///
/// # Errors
/// A carrier that leads nowhere, to two resources, or to a disabled one.
pub(super) fn resolve<'a>(
    directory: &'a Directory,
    carriers: &Carriers,
) -> Result<Option<&'a Resource>, Refusal> {
    if let Some(id) = &carriers.resource {
        // An id that is written out is meant: a misspelt one does not fall
        // through to a weaker carrier.
        return match directory.resource(id) {
            Some(resource) if resource.enabled => Ok(Some(resource)),
            Some(resource) => Err(Refusal::ResourceDisabled(resource.id.clone())),
            None => Err(Refusal::UnknownResource),
        };
    }
    let mut disabled = None;
    let steps: [&dyn Fn(&Resource) -> bool; 5] = [
        &|r| {
            let id = &carriers.connection_id;
            id.is_some() && r.guacamole_connection_id == *id && of_source(r, carriers)
        },
        &|r| {
            let name = carriers.connection_name.as_deref();
            same_name(r.guacamole_connection_name.as_deref(), name) && of_source(r, carriers)
        },
        &|r| has_hostname(r, &carriers.hostname) && has_alias(r, &carriers.remote_app),
        &|r| {
            let info = &carriers.load_balance_info;
            !info.is_empty() && r.load_balance_info.as_deref().map(str::trim) == Some(info)
        },
        &|r| {
            let fits = match r.kind {
                ResourceKind::Desktop => carriers.remote_app.is_empty(),
                ResourceKind::AsConnected => true,
                ResourceKind::RemoteApp(_) => false,
            };
            fits && has_hostname(r, &carriers.hostname)
        },
    ];
    for step in steps {
        let (on, off): (Vec<_>, Vec<_>) = directory
            .resources()
            .filter(|r| step(r))
            .partition(|r| r.enabled);
        match on.as_slice() {
            [] => disabled = disabled.or(off.first().map(|r| r.id.clone())),
            [resource] => return Ok(Some(resource)),
            [a, b, ..] => {
                return Err(Refusal::AmbiguousResource(a.id.clone(), b.id.clone()));
            }
        }
    }
    match disabled {
        // It must not slip unbrokered onto a host that is drained for a reason.
        Some(id) => Err(Refusal::ResourceDisabled(id)),
        None if carriers.is_explicit() => Err(Refusal::UnknownResource),
        None => Ok(None),
    }
}

/// A resource that names a source is found from there only.
fn of_source(resource: &Resource, carriers: &Carriers) -> bool {
    resource.source.is_none() || resource.source == carriers.source
}

fn same_name(configured: Option<&str>, carried: Option<&str>) -> bool {
    match (configured, carried) {
        (Some(a), Some(b)) => fold(a.trim()) == fold(b.trim()),
        _ => false,
    }
}

/// Host names are ASCII without regard to case; a final dot means the same name.
fn has_hostname(resource: &Resource, hostname: &str) -> bool {
    let bare = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let wanted = bare(hostname);
    !wanted.is_empty() && resource.hostnames.iter().any(|name| bare(name) == wanted)
}

/// Windows compares aliases without regard to case; `||` is the protocol's
/// mark, not part of the name.
fn has_alias(resource: &Resource, remote_app: &str) -> bool {
    let bare = |alias: &str| alias.trim_start_matches('|').to_lowercase();
    match &resource.kind {
        ResourceKind::RemoteApp(app) => {
            !remote_app.is_empty() && bare(&app.alias) == bare(remote_app)
        }
        ResourceKind::Desktop | ResourceKind::AsConnected => false,
    }
}
