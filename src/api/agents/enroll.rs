//! `POST /api/v1/agents/enroll`: an enrollment token becomes its host's key.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracing::info;
use utoipa::ToSchema;

use super::super::Api;
use super::super::answer::{Answer, Failure, Told};
use super::super::extract::Sent;
use crate::keys::{EnrollError, KeyId, Role};
use crate::placement::HostId;

/// What an enrolling host says. The key is of the host that the token was made
/// for, whatever it calls itself.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) struct Enrolling {
    /// The token.
    enrollment_token: String,
    /// What the host calls itself; for people.
    #[serde(default)]
    name: String,
    /// What tells the machine from others; for people.
    #[serde(default)]
    machine_id: String,
}

/// What it gets.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Enrolled {
    /// The host that the key is of: how its agent is to call itself.
    agent_id: String,
    /// The key, shown this once.
    token: String,
}

/// Exchange an enrollment token for the key of its host
///
/// For a host that is alive and has a key the token waits until an administrator
/// approves (`approve_enrollment`), for whoever found one would take the host's
/// place: 409 with the code `approval_required`. It stays good meanwhile; ask
/// again with it.
#[utoipa::path(post, path = "/agents/enroll", operation_id = "enroll",
    request_body = Enrolling,
    responses((status = 200, description = "The token is spent.", body = Enrolled)),
)]
pub(in crate::api) async fn enroll(
    State(api): State<Arc<Api>>,
    Sent(enrolling): Sent<Enrolling>,
) -> Answer<Enrolled> {
    let token = enrolling.enrollment_token.trim();
    let identity = api.keys.verify(token);
    let Some((id, host)) = identity.ok().and_then(|identity| match identity.role {
        Role::Enrollment(host) => Some((identity.key, host)),
        _ => None,
    }) else {
        return Err(Failure::not_accepted());
    };
    if api.intake.is_alive(&host) && api.has_key(&host) && !api.keys.is_approved(&id) {
        return Err(api.wait_for_approval(&id, &host, &enrolling).await);
    }
    let created = api.keys.enroll(token).await?;
    info!(
        %host,
        key = %created.id,
        name = shown(&enrolling.name),
        machine_id = shown(&enrolling.machine_id),
        "Host enrolled"
    );
    Ok(Told(Enrolled {
        agent_id: host.to_string(),
        token: created.key.expose().to_owned(),
    }))
}

/// Longest text of a host's that is logged, in characters.
const LONGEST: usize = 100;

/// What a program reads in the answer.
const APPROVAL_REQUIRED: &str = "approval_required";

fn shown(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

impl Api {
    fn has_key(&self, host: &HostId) -> bool {
        let keys = self.keys.list();
        let mut good = keys.iter().filter(|key| key.state.is_good());
        good.any(|key| matches!(&key.role, Role::Agent(of) if of == host))
    }

    async fn wait_for_approval(
        &self,
        token: &KeyId,
        host: &HostId,
        enrolling: &Enrolling,
    ) -> Failure {
        let who = shown(&enrolling.name);
        if let Err(error) = self.keys.ask_approval(token, &who).await {
            return error.into();
        }
        Failure::conflict(format!(
            "{host} is alive and has a key, so that this waits for an administrator's approval: \
             once \"sessionguard keys approve {token}\" was run on the broker, enroll again with \
             the same token"
        ))
        .coded(APPROVAL_REQUIRED)
    }
}

impl From<EnrollError> for Failure {
    fn from(error: EnrollError) -> Self {
        match error {
            EnrollError::Rejected(_) => Self::not_accepted(),
            EnrollError::Failed(error) => error.into(),
        }
    }
}
