//! `GET /api/v1/sessions`: what hosts report; and of one user everything that
//! says where they are.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::answer::{Answer, Told};
use super::extract::Filter;
use super::hosts::{known_farm, known_host};
use super::leases::Lease;
use super::listing::given;
use super::tunnels::Tunnel;
use super::whose::Whose;
use crate::clock::rfc3339;
use crate::placement::{self, HostId, SessionState, Timestamp};

/// One user's login on a host, as the host reports it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    user: String,
    host: String,
    /// `active`, `connected` or `disconnected`.
    #[schema(value_type = String)]
    state: SessionState,
    /// When it was last connected or logged on (RFC 3339); where the agent says.
    latest: Option<String>,
    seconds_ago: Option<u64>,
    /// Age of the report that says so.
    report_age_seconds: u64,
}

/// Where somebody is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sessions {
    /// By host and user; none of hosts without an agent.
    sessions: Vec<Session>,
    /// The user's open tunnels; only where a user is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    tunnels: Option<Vec<Tunnel>>,
    /// The user's leases; only where a user is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    leases: Option<Vec<Lease>>,
}

/// Whose sessions, and where.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Of this user, spelled any way; with tunnels and leases.
    user: Option<String>,
    /// On this host.
    host: Option<String>,
    /// On hosts of this farm.
    farm: Option<String>,
}

/// Reported sessions; of a user tunnels and leases, too
#[utoipa::path(get, path = "/sessions", operation_id = "sessions", params(Asked), responses(
    (status = 200, description = "Where somebody is now, in one answer.", body = Sessions),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(asked): Filter<Asked>,
) -> Answer<Sessions> {
    let (snapshot, now) = (api.fleet.snapshot(), api.clock.now());
    let user = given("user", asked.user.as_deref())?;
    let user = user.map(|name| Whose::read(name, &snapshot)).transpose()?;
    let host = given("host", asked.host.as_deref())?;
    let host = host.map(|id| known_host(&snapshot, id)).transpose()?;
    let farm = given("farm", asked.farm.as_deref())?;
    let farm = farm.map(|id| known_farm(&snapshot, id)).transpose()?;
    let here = |id: &HostId| {
        let in_farm = |farm| snapshot.directory.is_member(farm, id);
        host.as_ref().is_none_or(|host| host == id) && farm.as_ref().is_none_or(in_farm)
    };
    let mut sessions = Vec::new();
    for (id, view) in snapshot.hosts.iter().filter(|(id, _)| here(id)) {
        let Some(report) = &view.report else { continue };
        let of_user = |session: &&placement::Session| {
            let mut user = user.iter();
            user.all(|user| user.is_session_of(&session.user))
        };
        let mut there: Vec<_> = report.sessions.iter().filter(of_user).collect();
        there.sort_by(|a, b| (&a.user, a.state).cmp(&(&b.user, b.state)));
        let received = report.received;
        sessions.extend(there.into_iter().map(|s| Session::of(id, s, received, now)));
    }
    let (mut tunnels, mut leases) = (None, None);
    if let Some(user) = &user {
        let here = |id: Option<&str>| id.is_none_or(|id| here(&HostId::from(id)));
        let mut open = api.open(None, Some(user)).await;
        open.retain(|tunnel| here(tunnel.host.as_deref()));
        let mut held = api.leases_of(user).await?;
        held.retain(|lease| here(Some(&lease.host)));
        (tunnels, leases) = (Some(open), Some(held));
    }
    Ok(Told(Sessions {
        sessions,
        tunnels,
        leases,
    }))
}

impl Session {
    fn of(
        host: &HostId,
        session: &placement::Session,
        received: Timestamp,
        now: Timestamp,
    ) -> Self {
        // What is of an unknown age is kept as the oldest there can be.
        let latest = Some(session.latest).filter(|latest| *latest != Timestamp::default());
        Self {
            user: session.user.to_string(),
            host: host.to_string(),
            state: session.state,
            latest: latest.map(rfc3339),
            seconds_ago: latest.map(|latest| now.since(latest).as_secs()),
            report_age_seconds: now.since(received).as_secs(),
        }
    }
}
