//! `POST /api/v1/agents/heartbeat`: a host's state in, commands out.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::Api;
use super::super::answer::{Answer, Failure, Told};
use super::super::caller::{Caller, Peer};
use super::super::extract::{unquoted, whole};
use super::super::whole::to_its_end;
use super::host_of;
use super::shape::HeartbeatBody;
use crate::clock::rfc3339;
use crate::commands::{Command, Target};
use crate::fleet::{Heartbeat, HeartbeatError};
use crate::placement::Timestamp;

/// Largest heartbeat that is read, in bytes: agents may list processes.
const LARGEST: usize = 1 << 20;

/// A heartbeat as it came.
pub(in crate::api) struct Sent {
    heartbeat: Heartbeat,
    /// When it began to arrive: it says nothing of what came later.
    arrived: Timestamp,
    /// In bytes.
    size: usize,
}

/// What an agent is told.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct HeartbeatAnswer {
    /// Now (RFC 3339): what commands expire by.
    server_time: String,
    /// Whether it was news. One that is none changed nothing, and need not be
    /// sent again.
    taken: bool,
    /// What to do. Each is told until a result is reported or it expires, with
    /// the same id every time.
    commands: Vec<AgentCommand>,
}

/// One command, as agents read it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct AgentCommand {
    id: String,
    /// `message`, `disconnect`, `logoff` or `restart_server`.
    r#type: &'static str,
    /// From then on it must not be carried out (RFC 3339).
    expires_at: String,
    /// Which sessions; everything given must fit.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    target: Target,
    /// The text of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl FromRequest<Arc<Api>> for Sent {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Failure> {
        let arrived = api.clock.now();
        let bytes = whole(request.into_body(), LARGEST).await?;
        let heartbeat = Heartbeat::read(&bytes)?;
        Ok(Self {
            heartbeat,
            arrived,
            size: bytes.len(),
        })
    }
}

/// Report a host's state
///
/// The key says which host: `X-Agent-ID` and `agent_id` must agree. Names and
/// shapes are those of protocol 4; fields that are not known are skipped. At
/// most 1 MiB.
#[utoipa::path(post, path = "/agents/heartbeat", operation_id = "heartbeat",
    params(("X-Agent-ID" = String, Header, description = "The host that the key is of.")),
    request_body = HeartbeatBody,
    responses((status = 200, description = "It was understood.", body = HeartbeatAnswer)),
)]
pub(in crate::api) async fn heartbeat(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    sent: Sent,
) -> Answer<HeartbeatAnswer> {
    let Sent {
        mut heartbeat,
        arrived,
        size,
    } = sent;
    let host = host_of(&caller, &headers, &heartbeat.agent_id)?;
    let from = peer.map(|Extension(Peer(address))| address.to_string());
    to_its_end(async move {
        let results = std::mem::take(&mut heartbeat.results);
        let heard = api
            .intake
            .hear(&api.broker, &host, heartbeat, (arrived, size, from));
        // One that comes late may bring a result that no later one repeats.
        for command in api.commands.answered(&host, &results).await {
            api.tell_of_answered(&caller.actor, &command);
        }
        if heard.taken
            && let Some((restart, by)) = api.restarts.heard(&host).await
        {
            // The agent only came along.
            api.tell_of_asked(&by, &restart);
        }
        // What is no news may come from where the key was copied to.
        let commands = match heard.taken {
            true => api.commands.deliver(&host),
            false => Vec::new(),
        };
        Ok(Told(HeartbeatAnswer {
            server_time: rfc3339(api.clock.now()),
            taken: heard.taken,
            commands: commands.into_iter().map(AgentCommand::of).collect(),
        }))
    })
    .await
}

impl AgentCommand {
    fn of(command: Command) -> Self {
        Self {
            id: command.id.to_string(),
            r#type: command.kind.word(),
            expires_at: rfc3339(command.expires_at),
            target: command.target,
            message: command.message,
        }
    }
}

impl From<HeartbeatError> for Failure {
    fn from(error: HeartbeatError) -> Self {
        let text = error.to_string();
        match error {
            HeartbeatError::Shape { .. } => Self::unreadable(unquoted(&text)),
            _ => Self::bad(text),
        }
    }
}
