//! Which resource a connection names, from the most explicit carrier to the
//! least: resource id, Guacamole connection id, connection name, then what the
//! connection carries anyway. Two enabled resources on one step are refused;
//! there is never a silent pick.

use super::decision::Refusal;
use super::directory::{Directory, Resource, ResourceKind};
use super::ids::{FarmId, ResourceId};
use super::selector::Selector;

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
    /// The RemoteApp the connection was given; may be empty.
    pub remote_app: String,
}

impl Carriers {
    /// Reads what a connection's parameters carry: the selector or name in
    /// `hostname`, the extra parameter's value, and `remote-app`.
    ///
    /// # Errors
    /// A selector that cannot be read, and two carriers that disagree.
    pub fn read(hostname: &str, extra: &str, remote_app: &str) -> Result<Self, Refusal> {
        let mut carriers = Self {
            remote_app: remote_app.trim().to_owned(),
            ..Self::default()
        };
        match Selector::parse(hostname) {
            None => carriers.hostname = hostname.trim().to_owned(),
            Some(selector) => {
                let selector = selector.map_err(Refusal::BadSelector)?;
                carriers.resource = selector.resource.map(ResourceId::from);
                carriers.connection_id = selector.id;
                carriers.connection_name = selector.name;
                carriers.farm = selector.farm.map(FarmId::from);
            }
        }
        let extra = extra.trim();
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

    fn is_explicit(&self) -> bool {
        self.resource.is_some()
            || self.connection_id.is_some()
            || self.connection_name.is_some()
            || self.farm.is_some()
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
    let steps: [&dyn Fn(&Resource) -> bool; 4] = [
        &|r| {
            carriers.connection_id.is_some() && r.guacamole_connection_id == carriers.connection_id
        },
        &|r| {
            same_name(
                r.guacamole_connection_name.as_deref(),
                carriers.connection_name.as_deref(),
            )
        },
        &|r| has_hostname(r, &carriers.hostname) && has_alias(r, &carriers.remote_app),
        &|r| {
            let desktop = r.kind == ResourceKind::Desktop && carriers.remote_app.is_empty();
            desktop && has_hostname(r, &carriers.hostname)
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

fn same_name(configured: Option<&str>, carried: Option<&str>) -> bool {
    match (configured, carried) {
        (Some(a), Some(b)) => caseless::canonical_caseless_match_str(a.trim(), b.trim()),
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
        ResourceKind::Desktop => false,
    }
}
