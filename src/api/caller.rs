//! Who asks, and what they may.

use std::fmt;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use utoipa_axum::router::{UtoipaMethodRouter, UtoipaMethodRouterExt};

use super::answer::Failure;

/// What an endpoint needs, and a caller has.
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
}

/// Who asks, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A user of this machine, by number; `None` where the system could not
    /// tell.
    User(Option<u32>),
}

/// Who asks, as the listener that took the request knows them. Every request
/// carries one; what a request itself says of its caller counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub actor: Actor,
    /// What they may.
    pub roles: &'static [Role],
}

impl Role {
    /// Every role: the admin socket's.
    pub const ALL: &'static [Self] =
        &[Self::Broker, Self::Agent, Self::AdminRead, Self::AdminWrite];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broker => "broker",
            Self::Agent => "agent",
            Self::AdminRead => "admin read",
            Self::AdminWrite => "admin write",
        })
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(Some(uid)) => write!(f, "uid {uid}"),
            Self::User(None) => f.write_str("unknown"),
        }
    }
}

/// An endpoint that is there for callers with this role alone, which its
/// description says.
pub(super) fn guarded<S: Clone + Send + Sync + 'static>(
    role: Role,
    (schemas, mut paths, methods): UtoipaMethodRouter<S>,
) -> UtoipaMethodRouter<S> {
    for item in paths.paths.values_mut() {
        for operation in super::openapi::operations(item) {
            let said = operation.description.take().unwrap_or_default();
            let said = format!("{said}\n\nNeeds the role {role}.");
            operation.description = Some(said.trim_start().to_owned());
        }
    }
    let guard = middleware::from_fn(move |request, next| admit(role, request, next));
    (schemas, paths, methods).map(|methods| methods.route_layer(guard))
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
            let actor = Actor::User(Some(7));
            request = request.extension(Caller { actor, roles });
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = tower_service::Service::call(&mut router, request).await;
        answer.unwrap().status().as_u16()
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
