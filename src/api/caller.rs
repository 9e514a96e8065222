//! Who asks, and what they may.

use std::fmt;
use std::net::IpAddr;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use utoipa::openapi::path::Paths;
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::{UtoipaMethodRouter, UtoipaMethodRouterExt};

use super::answer::Failure;
use crate::keys::{self, Identity};
use crate::placement::{Actor, HostId};

/// What an endpoint needs, and a caller has; in the words that keys are asked
/// for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To have users placed.
    Broker,
    /// To report a host's state.
    Agent,
    /// To look.
    AdminRead,
    /// To change something.
    AdminWrite,
    /// To show an enrollment token in place of a key.
    Enrollment,
}

/// Who asks, as the listener that took the request knows them. Every request
/// carries one; what a request itself says of its caller counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub actor: Actor,
    /// What they may.
    pub roles: &'static [Role],
    /// The host they speak for; of an agent only.
    pub host: Option<HostId>,
}

/// The address a request came from, over TCP; for people only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

const BROKER: &[Role] = &[Role::Broker];
const AGENT: &[Role] = &[Role::Agent];
const READ: &[Role] = &[Role::AdminRead];
const WRITE: &[Role] = &[Role::AdminRead, Role::AdminWrite];

/// The roles of keys that one asks with, and what each may.
pub(super) const ASKING: [(&str, &[Role]); 4] = [
    ("broker", BROKER),
    ("agent", AGENT),
    ("admin-read", READ),
    ("admin-write", WRITE),
];
/// Of somebody who shows no key, and has a token to show.
pub(super) const ENROLLING: &[Role] = &[Role::Enrollment];
const NO_SCOPES: [&str; 0] = [];

impl Caller {
    /// Somebody who shows no key, where none is needed.
    pub(super) fn enrolling() -> Self {
        Self {
            actor: Actor::User {
                uid: None,
                name: None,
            },
            roles: ENROLLING,
            host: None,
        }
    }

    /// Who asks with this key. The one place that says what each role of a key
    /// may: an administrator who may write may look, and an enrollment token is
    /// no key to ask with.
    pub fn of(identity: Identity) -> Self {
        let roles: &[Role] = match &identity.role {
            keys::Role::Broker => BROKER,
            keys::Role::Agent(_) => AGENT,
            keys::Role::AdminRead => READ,
            keys::Role::AdminWrite => WRITE,
            keys::Role::Enrollment(_) => &[],
        };
        Self {
            actor: identity.actor(),
            roles,
            host: match identity.role {
                keys::Role::Agent(host) => Some(host),
                _ => None,
            },
        }
    }
}

impl Role {
    /// Every role: the admin socket's.
    pub const ALL: &'static [Self] = &[
        Self::Broker,
        Self::Agent,
        Self::AdminRead,
        Self::AdminWrite,
        Self::Enrollment,
    ];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broker => "broker",
            Self::Agent => "agent",
            Self::AdminRead => "admin-read",
            Self::AdminWrite => "admin-write",
            Self::Enrollment => "enrollment",
        })
    }
}

/// An endpoint that is there for callers with this role alone, which its
/// description says.
pub(super) fn guarded<S: Clone + Send + Sync + 'static>(
    role: Role,
    (schemas, mut paths, methods): UtoipaMethodRouter<S>,
) -> UtoipaMethodRouter<S> {
    let who = match role {
        Role::Enrollment => "Needs no key: the token is in the body.".to_owned(),
        role => format!("Needs the role {role}."),
    };
    describe(&mut paths, &who, |held| held.contains(&role));
    let guard = middleware::from_fn(move |request, next| admit(role, request, next));
    (schemas, paths, methods).map(|methods| methods.route_layer(guard))
}

/// An endpoint that is there for whoever may anything at all.
pub(super) fn open<S: Clone + Send + Sync + 'static>(
    (schemas, mut paths, methods): UtoipaMethodRouter<S>,
) -> UtoipaMethodRouter<S> {
    describe(&mut paths, "Needs a key of any role.", |_| true);
    (schemas, paths, methods)
}

/// Writes down who may ask.
fn describe(paths: &mut Paths, who: &str, may: impl Fn(&[Role]) -> bool) {
    let keys = || ASKING.into_iter().filter(|(_, held)| may(held));
    for item in paths.paths.values_mut() {
        for operation in super::openapi::operations(item) {
            let said = operation.description.take().unwrap_or_default();
            operation.description = Some(format!("{said}\n\n{who}").trim_start().to_owned());
            let schemes = keys().map(|(name, _)| SecurityRequirement::new(name, NO_SCOPES));
            operation.security = Some(schemes.collect());
        }
    }
}

async fn admit(role: Role, request: Request, next: Next) -> Result<Response, Failure> {
    let caller = request.extensions().get::<Caller>();
    if caller.is_some_and(|caller| caller.roles.contains(&role)) {
        Ok(next.run(request).await)
    } else {
        Err(Failure::lacks(role))
    }
}

/// Lets nobody in who may nothing at all: not even what there is would be told.
pub(super) async fn known(request: Request, next: Next) -> Result<Response, Failure> {
    if let Some(failure) = request.extensions().get::<Failure>() {
        return Err(failure.clone());
    }
    let caller = request.extensions().get::<Caller>();
    match caller.is_some_and(|caller| !caller.roles.is_empty()) {
        true => Ok(next.run(request).await),
        false => Err(Failure::forbidden()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a caller gets from an endpoint that needs the role.
    async fn status(needed: Role, caller: Option<&'static [Role]>) -> u16 {
        use utoipa_axum::{router::OpenApiRouter, routes};

        #[utoipa::path(get, path = "/x")]
        async fn x() -> &'static str {
            "in"
        }
        let router = OpenApiRouter::new().routes(guarded(needed, routes!(x)));
        let mut router = axum::Router::from(router).layer(middleware::from_fn(known));
        let mut request = Request::builder().uri("/x");
        if let Some(roles) = caller {
            let actor = Actor::User {
                uid: Some(7),
                name: None,
            };
            let host = None;
            request = request.extension(Caller { actor, roles, host });
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = tower_service::Service::call(&mut router, request).await;
        answer.unwrap().status().as_u16()
    }

    #[test]
    fn a_key_may_what_its_role_is_called() {
        let host = HostId::from("rds1");
        for (role, may) in [
            (keys::Role::Broker, "broker"),
            (keys::Role::Agent(host.clone()), "agent"),
            (keys::Role::AdminRead, "admin-read"),
            (keys::Role::AdminWrite, "admin-read admin-write"),
            (keys::Role::Enrollment(host.clone()), ""),
        ] {
            let speaks_for = matches!(role, keys::Role::Agent(_)).then(|| host.clone());
            let key = keys::KeyId::read("0123456789ab").unwrap();
            let caller = Caller::of(Identity { key, role });
            let roles: Vec<_> = caller.roles.iter().map(Role::to_string).collect();
            assert_eq!(roles.join(" "), may);
            assert_eq!(caller.host, speaks_for);
        }
        for role in Role::ALL {
            assert!(keys::Role::WORDS.contains(&role.to_string().as_str()));
        }
    }

    #[tokio::test]
    async fn an_endpoint_is_there_for_its_role_alone() {
        for &needed in Role::ALL {
            for roles in Role::ALL.chunks(1) {
                let wanted = if roles == [needed] { 200 } else { 403 };
                assert_eq!(status(needed, Some(roles)).await, wanted, "{roles:?}");
            }
            assert_eq!(status(needed, Some(Role::ALL)).await, 200);
            assert_eq!(status(needed, Some(&[])).await, 403);
            assert_eq!(status(needed, None).await, 403, "nobody said who it is");
        }
    }
}
