//! `POST /api/v1/agents/enroll`: an enrollment token becomes its host's key.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tracing::info;
use utoipa::ToSchema;

use super::super::Api;
use super::super::answer::{Answer, Failure, Told};
use super::super::extract::Sent;
use crate::keys::{EnrollError, Role};
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
/// A host that is alive and has a key gets no other by a token: whoever found
/// one would take its place. Revoke its key first; the token stays good.
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
    let Ok(Role::Enrollment(host)) = identity.map(|identity| identity.role) else {
        return Err(Failure::not_accepted());
    };
    if api.intake.is_alive(&host) {
        api.has_no_key(&host)?;
    }
    let created = api.keys.enroll(token).await?;
    let shown = |text: &str| text.chars().take(LONGEST).collect::<String>();
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

impl Api {
    fn has_no_key(&self, host: &HostId) -> Result<(), Failure> {
        let keys = self.keys.list();
        let good = keys
            .iter()
            .find(|key| key.state.is_good() && matches!(&key.role, Role::Agent(of) if of == host));
        good.map_or(Ok(()), |key| {
            Err(Failure::conflict(format!(
                "{host} is alive and has a key: revoke it first (sessionguard keys revoke {}), \
                 then enroll with this token",
                key.id
            )))
        })
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
