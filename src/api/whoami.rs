//! `GET /api/v1/whoami`: who asks, and what they may: for a program that shows
//! only what it can do.

use axum::Extension;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::{Answer, Told};
use super::caller::Caller;

/// Whoever asks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Caller)]
pub(super) struct Me {
    /// As orders and the audit trail name them.
    name: String,
    /// `broker`, `agent`, `admin-read`, `admin-write`: what endpoints need.
    roles: Vec<String>,
    /// The host they speak for; of an agent only.
    host: Option<String>,
}

/// Who asks, and what they may
#[utoipa::path(get, path = "/whoami", operation_id = "whoami", responses(
    (status = 200, description = "Whoever asks.", body = Me),
))]
pub(super) async fn show(Extension(caller): Extension<Caller>) -> Answer<Me> {
    Ok(Told(Me {
        name: caller.actor.to_string(),
        roles: caller.roles.iter().map(ToString::to_string).collect(),
        host: caller.host.map(|id| id.to_string()),
    }))
}
