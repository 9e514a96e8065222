//! `/api/v1/keys`: who may. What a key is, and whether it is made, is the room
//! `keys`'s business; here it is put into HTTP. That a key was made or ended is
//! told to the trail by that room: it is done whether or not whoever asked is
//! still there.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::caller::Caller;
use super::extract::{Named, Sent};
use crate::clock::rfc3339;
use crate::keys::{CreateRequest, KeyError, Listed};

/// A key, without what could be used of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Key {
    /// Its id, as in the log.
    id: String,
    /// `broker`, `agent`, `admin-read`, `admin-write` or `enrollment`.
    role: &'static str,
    /// The host it belongs to; of `agent` and `enrollment` only.
    host: Option<String>,
    /// What somebody called it.
    label: String,
    /// `valid`, `waiting` (a token, for approval), `ending`, `replaced`, `expired`, `revoked` or `used`.
    state: &'static str,
    /// Who made it; of a configured one, where it was found.
    created_by: String,
    /// When (RFC 3339); not of a configured one.
    created_at: Option<String>,
    /// When it ends by itself.
    expires_at: Option<String>,
    /// When it was revoked.
    revoked_at: Option<String>,
    /// Who revoked it.
    revoked_by: Option<String>,
    /// Last use since the broker's start, to the minute.
    last_used: Option<String>,
}

/// Every key, good or not.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    keys: Vec<Key>,
}

/// What key to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKey {
    /// `broker`, `agent`, `admin-read`, `admin-write` or `enrollment`.
    role: String,
    /// The host, for `agent` and `enrollment` only.
    #[serde(default)]
    host: Option<String>,
    /// What people call it: at most 100 characters on one line.
    #[serde(default)]
    label: Option<String>,
    /// `30d`, or a moment in UTC: `2027-01-31`, `2027-01-31T12:00:00Z`. A token
    /// ends after a day unless it says so; other keys do not.
    #[serde(default)]
    expires: Option<String>,
}

/// A key that was just made. No other answer ever shows one.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedKey {
    id: String,
    role: &'static str,
    host: Option<String>,
    /// When it ends (RFC 3339).
    expires_at: Option<String>,
    /// The key itself, kept nowhere else.
    key: String,
    /// What may not have been meant.
    warnings: Vec<String>,
}

/// Every key, good or not
#[utoipa::path(get, path = "/keys", operation_id = "keys", responses(
    (status = 200, description = "Configured ones first.", body = KeyList),
))]
pub(super) async fn list(State(api): State<Arc<Api>>) -> Answer<KeyList> {
    let keys = api.keys.list().into_iter().map(Key::of).collect();
    Ok(Told(KeyList { keys }))
}

/// Make a key
#[utoipa::path(post, path = "/keys", operation_id = "create_key", request_body = NewKey,
    responses((status = 200, description = "The key, shown this once.", body = CreatedKey)),
)]
pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Sent(wanted): Sent<NewKey>,
) -> Answer<CreatedKey> {
    let wanted = CreateRequest {
        role: wanted.role,
        host: wanted.host,
        label: wanted.label,
        expires: wanted.expires,
    };
    let directory = &api.config.get().directory;
    let created = api.keys.create(wanted, caller.actor, directory).await?;
    Ok(Told(CreatedKey {
        id: created.id.to_string(),
        role: created.role.word(),
        host: created.role.host().map(ToString::to_string),
        expires_at: created.expires_at.map(rfc3339),
        key: created.key.expose().to_owned(),
        warnings: created.warnings,
    }))
}

/// End a key at once
///
/// One that was revoked before stays as it is.
#[utoipa::path(delete, path = "/keys/{id}", operation_id = "revoke_key",
    params(("id" = String, Path, description = "As in the list.")),
    responses((status = 200, description = "It is accepted no more.", body = Key)),
)]
pub(super) async fn revoke(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
) -> Answer<Key> {
    let revoked = api.keys.revoke(&id, caller.actor).await?;
    Ok(Told(Key::of(revoked)))
}

/// Approve an enrollment
///
/// The token may then be exchanged for a key although its host is alive and has
/// one, which stays good as every older key does. One that was approved before
/// stays as it is.
#[utoipa::path(post, path = "/keys/{id}/approve", operation_id = "approve_enrollment",
    params(("id" = String, Path, description = "The token's, as in the list.")),
    responses((status = 200, description = "Its host may enroll.", body = Key)),
)]
pub(super) async fn approve(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
) -> Answer<Key> {
    let approved = api.keys.approve(&id, caller.actor).await?;
    Ok(Told(Key::of(approved)))
}

impl Key {
    fn of(listed: Listed) -> Self {
        Self {
            id: listed.id.to_string(),
            role: listed.role.word(),
            host: listed.role.host().map(ToString::to_string),
            label: listed.label,
            state: listed.state.word(),
            created_by: listed.created_by,
            created_at: listed.created_at.map(rfc3339),
            expires_at: listed.expires_at.map(rfc3339),
            revoked_at: listed.revoked_at.map(rfc3339),
            revoked_by: listed.revoked_by,
            last_used: listed.last_used.map(rfc3339),
        }
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let text = error.to_string();
        match error {
            KeyError::Request(_) => Self::bad(text),
            KeyError::Unknown { .. } => Self::not_found(text),
            KeyError::Configured { .. }
            | KeyError::NoToken { .. }
            | KeyError::TwoAlready { .. }
            | KeyError::TooMany { .. } => Self::conflict(text),
            KeyError::Random { .. } | KeyError::Store(_) => Self::unavailable(text),
        }
    }
}
