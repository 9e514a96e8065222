//! Steps 1 to 3 of a placement: which resource, which farm, whose lease.
//! Looks at no host, so that the user's leases can be read from the store
//! before the rest is decided.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::decision::Refusal;
use super::directory::{Farm, Resource, ResourceKind};
use super::identity::{Claims, UserKey};
use super::ids::{HostId, TunnelId};
use super::lease_key::LeaseKey;
use super::resource::{self, Carriers};
use super::rules::Unmatched;
use super::snapshot::Snapshot;

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// What in the connection may name its resource.
    pub carriers: Carriers,
    /// What the connection says about its user.
    pub claims: Claims,
    /// Hosts that failed this very connection: it opens no new session there.
    /// Who has a session or a lease on one goes back to it all the same.
    pub tried: BTreeSet<HostId>,
    /// An earlier placement of the same user that this one repeats: it decides
    /// like any other that is pending, and is not counted beside this one.
    pub repeats: Option<TunnelId>,
}

/// What a request comes down to.
#[derive(Debug, Clone)]
pub struct Aim<'a> {
    /// The resource it names; `None` where it asks for any host of a farm.
    pub resource: Option<&'a Resource>,
    /// The farm to look in.
    pub farm: &'a Farm,
    /// The alias of the RemoteApp asked for: the resource's, or where that
    /// leaves the connection alone, the connection's own.
    pub remote_app: Option<String>,
    /// Who asks; `None` where Guacamole will prompt.
    pub user: Option<UserKey>,
    /// Whether that is to be believed.
    pub trust: Trust,
    /// Whose lease it stands on; `None` without a user.
    pub key: Option<LeaseKey>,
}

/// How much the user's name is worth before the logon was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Nothing speaks against it.
    #[default]
    Plain,
    /// The Guacamole login is somebody else.
    Doubtful,
    /// A bare name that several qualified users share.
    Ambiguous,
}

/// Why there is no aim, and how far it got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Astray<'a> {
    /// The resource, where one was found.
    pub resource: Option<&'a Resource>,
    /// The farm, where one was found.
    pub farm: Option<&'a Farm>,
    /// Why; `None`: the connection names no resource.
    pub refusal: Option<Refusal>,
}

impl<'a> Aim<'a> {
    /// Resolves resource, farm, user and lease key. A farm that is named but
    /// missing or disabled refuses: placement fails closed.
    ///
    /// # Errors
    /// Everything that ends a request before any host is looked at.
    pub fn take(snapshot: &'a Snapshot, request: &Request) -> Result<Self, Astray<'a>> {
        let rules = snapshot.directory.rules();
        let resource = find_resource(snapshot, &request.carriers)?;
        let farm = find_farm(snapshot, &request.carriers, resource)?;
        let domain = farm.overrides.default_domain.as_deref();
        let domain = domain.or(rules.default_domain.as_deref());
        let claims = claims_of(request, resource);
        let who = claims.who(rules, domain, &snapshot.people);
        if who.doubtful && rules.require_match {
            return Err(Astray {
                resource,
                farm: Some(farm),
                refusal: Some(Refusal::LoginMismatch),
            });
        }
        let key = who.user.as_ref().map(|user| {
            if rules.single_session_per_user {
                LeaseKey::of_user(user)
            } else {
                LeaseKey::of_resource(user, &farm.id, resource.map(|r| &r.id))
            }
        });
        Ok(Self {
            resource,
            farm,
            remote_app: remote_app(resource, &request.carriers),
            trust: match (who.doubtful, who.ambiguous) {
                (true, _) => Trust::Doubtful,
                (false, true) => Trust::Ambiguous,
                (false, false) => Trust::Plain,
            },
            user: who.user,
            key,
        })
    }

    /// What is published: without a resource, what the connection itself says.
    pub fn kind(&self) -> &ResourceKind {
        self.resource
            .map_or(&ResourceKind::AsConnected, |r| &r.kind)
    }
}

/// What of a RemoteApp a connection will ask its host for.
fn remote_app(resource: Option<&Resource>, carriers: &Carriers) -> Option<String> {
    let own = Some(&carriers.remote_app).filter(|own| !own.is_empty());
    match resource.map(|r| &r.kind) {
        Some(ResourceKind::RemoteApp(app)) => Some(app.alias.clone()),
        Some(ResourceKind::Desktop) => None,
        Some(ResourceKind::AsConnected) | None => own.cloned(),
    }
}

/// What the connection says about its user once the resource has set its own
/// `username` and `domain`: guacd logs that user on.
fn claims_of(request: &Request, resource: Option<&Resource>) -> Claims {
    let mut claims = request.claims.clone();
    let set = resource.map(|r| &r.parameters.0);
    let set = |name| set.and_then(|values| values.get(name)).cloned();
    if let Some(username) = set("username") {
        claims.username = username;
    }
    if let Some(domain) = set("domain") {
        claims.domain = domain;
    }
    claims
}

fn find_resource<'a>(
    snapshot: &'a Snapshot,
    carriers: &Carriers,
) -> Result<Option<&'a Resource>, Astray<'a>> {
    let rules = snapshot.directory.rules();
    let astray = |refusal| Astray {
        refusal,
        ..Astray::default()
    };
    if carriers.farm.is_some() && !rules.allow_farm_selector {
        return Err(astray(Some(Refusal::FarmSelectorNotAllowed)));
    }
    match resource::resolve(&snapshot.directory, carriers) {
        Ok(None) if !carriers.asks_for_any() => Err(astray(match rules.unmatched {
            Unmatched::Pass => None,
            Unmatched::Refuse => Some(Refusal::Unmatched),
        })),
        Ok(found) => Ok(found),
        Err(refusal) => Err(astray(Some(refusal))),
    }
}

/// The resource's farm, else the one asked for, else the default farm.
fn find_farm<'a>(
    snapshot: &'a Snapshot,
    carriers: &Carriers,
    resource: Option<&'a Resource>,
) -> Result<&'a Farm, Astray<'a>> {
    let directory = &snapshot.directory;
    let named = resource.and_then(|r| r.farm_id.as_ref());
    let named = named.or(carriers.farm.as_ref());
    let named = named.or(directory.rules().default_farm.as_ref());
    let farm = named.and_then(|id| directory.farm(id));
    let refusal = match (named, farm) {
        (_, Some(farm)) if farm.enabled => return Ok(farm),
        (_, Some(farm)) => Refusal::FarmDisabled(farm.id.clone()),
        (Some(id), None) => Refusal::UnknownFarm(id.clone()),
        (None, None) => Refusal::NoFarm,
    };
    Err(Astray {
        resource,
        farm,
        refusal: Some(refusal),
    })
}
