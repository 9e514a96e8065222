//! Steps 1 to 3 of a placement: which resource, which farm, whose lease.
//! Needs the configuration alone, so that the user's leases can be read from
//! the store before the rest is decided.

use super::decision::Refusal;
use super::directory::{Directory, Farm, Resource, ResourceKind};
use super::identity::{Claims, UserKey};
use super::lease::LeaseKey;
use super::resource::{self, Carriers};

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// What in the connection may name its resource.
    pub carriers: Carriers,
    /// What the connection says about its user.
    pub claims: Claims,
}

/// What a request comes down to.
#[derive(Debug, Clone)]
pub struct Aim<'a> {
    /// The resource it names.
    pub resource: &'a Resource,
    /// The farm to look in.
    pub farm: &'a Farm,
    /// Who asks; `None` where Guacamole will prompt.
    pub user: Option<UserKey>,
    /// Whose lease it stands on; `None` without a user.
    pub key: Option<LeaseKey>,
}

/// Why there is no aim, and how far it got.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub fn take(directory: &'a Directory, request: &Request) -> Result<Self, Astray<'a>> {
        let rules = directory.rules();
        let mut astray = Astray {
            resource: None,
            farm: None,
            refusal: None,
        };
        let carriers = &request.carriers;
        if carriers.farm.is_some() && !rules.allow_farm_selector {
            astray.refusal = Some(Refusal::FarmSelectorNotAllowed);
            return Err(astray);
        }
        let resource = match resource::resolve(directory, carriers) {
            Ok(Some(resource)) => resource,
            Ok(None) => return Err(astray),
            Err(refusal) => {
                astray.refusal = Some(refusal);
                return Err(astray);
            }
        };
        astray.resource = Some(resource);
        let named = resource.farm_id.as_ref().or(carriers.farm.as_ref());
        let Some(id) = named.or(rules.default_farm.as_ref()) else {
            astray.refusal = Some(Refusal::NoFarm);
            return Err(astray);
        };
        let Some(farm) = directory.farm(id) else {
            astray.refusal = Some(Refusal::UnknownFarm(id.clone()));
            return Err(astray);
        };
        astray.farm = Some(farm);
        if !farm.enabled {
            astray.refusal = Some(Refusal::FarmDisabled(id.clone()));
            return Err(astray);
        }
        let domain = farm.overrides.default_domain.as_deref();
        let domain = domain.or(rules.default_domain.as_deref());
        let user = request.claims.user(&rules.identity_order, domain);
        let key = user.as_ref().map(|user| {
            if rules.single_session_per_user {
                LeaseKey::of_user(user)
            } else {
                LeaseKey::of_resource(user, &farm.id, Some(&resource.id))
            }
        });
        Ok(Self {
            resource,
            farm,
            user,
            key,
        })
    }

    /// The alias of the RemoteApp asked for.
    pub fn remote_app(&self) -> Option<&str> {
        match &self.resource.kind {
            ResourceKind::RemoteApp(app) => Some(&app.alias),
            ResourceKind::Desktop => None,
        }
    }
}
