//! `/api/v1/hosts/{id}/commands`: what agents are asked to do, and what came of
//! it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::caller::Caller;
use super::extract::{Filter, Named, Sent};
use super::hosts::known_host;
use super::listing::Nothing;
use super::whole::to_its_end;
use crate::clock::rfc3339;
use crate::commands::{self, CommandError, CommandKind, Target, Wish};
use crate::config::Time;
use crate::placement::{HostId, Snapshot, Timestamp, UserKey};

/// One command.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Command {
    id: String,
    host: String,
    /// `message`, `disconnect`, `logoff` or `restart_server`.
    r#type: &'static str,
    /// `waiting`, `delivered`, `done`, `failed` or `expired`.
    state: &'static str,
    /// Which sessions; everything given must fit.
    #[schema(value_type = Object)]
    target: Target,
    /// The text of a message.
    message: Option<String>,
    asked_by: String,
    /// When it was asked for (RFC 3339).
    asked_at: String,
    /// From then on it is not carried out.
    expires_at: String,
    /// When its agent was given it, since the broker's start.
    delivered_at: Option<String>,
    /// When its agent said what came of it.
    answered_at: Option<String>,
    /// What its agent said.
    answer: Option<String>,
}

/// A command that waits for its agent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AskedCommand {
    command: Command,
    /// False where the same waited already.
    is_new: bool,
}

/// A host's commands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CommandList {
    commands: Vec<Command>,
}

/// What an agent is to do.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCommand {
    /// `message`, `disconnect`, `logoff` or `restart_server`.
    #[schema(value_type = String)]
    r#type: CommandKind,
    /// Sessions of this user, spelled any way.
    #[serde(default)]
    user: Option<String>,
    /// The session with this id, as the host reports it.
    #[serde(default)]
    session_id: Option<String>,
    /// Sessions in this state: `disconnected` or `active`.
    #[serde(default)]
    state: Option<String>,
    /// Every session.
    #[serde(default)]
    all: bool,
    /// The text of a message.
    #[serde(default)]
    message: Option<String>,
    /// How long the agent has for it: `10s` to `24h`, five minutes where
    /// nothing is said.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    expires: Option<Time>,
}

/// A host's commands, the newest first
///
/// Those that are over are listed for a week.
#[utoipa::path(get, path = "/hosts/{id}/commands", operation_id = "commands",
    params(("id" = String, Path, description = "The host's id.")),
    responses((status = 200, description = "Whatever became of them.", body = CommandList)),
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Named(id): Named,
    Filter(Nothing {}): Filter<Nothing>,
) -> Answer<CommandList> {
    let host = known_host(&api.fleet.snapshot(), &id)?;
    let now = api.clock.now();
    let commands = api.commands.of_host(&host).into_iter();
    let commands = commands.map(|command| Command::of(command, now)).collect();
    Ok(Told(CommandList { commands }))
}

/// Have a host's agent do something
///
/// It is told with its next heartbeat. The same again, while it waits, is the
/// same command.
#[utoipa::path(post, path = "/hosts/{id}/commands", operation_id = "give_command",
    params(("id" = String, Path, description = "The host's id.")),
    request_body = NewCommand,
    responses((status = 200, description = "It waits for the agent.", body = AskedCommand)),
)]
pub(super) async fn give(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Sent(wanted): Sent<NewCommand>,
) -> Answer<AskedCommand> {
    let snapshot = api.fleet.snapshot();
    let host = known_host(&snapshot, &id)?;
    if api.intake.said(&host).is_none() {
        return Err(Failure::conflict(format!(
            "no agent of {host} was ever heard: nobody would carry it out"
        )));
    }
    let wish = wanted.wish(&snapshot, &host)?;
    to_its_end(async move {
        let by = caller.actor.to_string();
        let asked = api.commands.ask(&host, wish, by).await?;
        if asked.is_new {
            api.tell_of_asked(&caller.actor, &asked.command);
        }
        Ok(Told(AskedCommand {
            command: Command::of(asked.command, api.clock.now()),
            is_new: asked.is_new,
        }))
    })
    .await
}

impl NewCommand {
    /// Names are read by the identity rules, and told as the agent compares
    /// them: user and domain apart.
    fn wish(self, snapshot: &Snapshot, host: &HostId) -> Result<Wish, Failure> {
        let rules = snapshot.directory.rules();
        let user = self.user.map(|name| {
            let key = UserKey::new(&name, "").ok_or_else(|| Failure::bad("user is blank"))?;
            let key = key.translated(&rules.domains);
            Ok::<_, Failure>(key.qualified_by(snapshot.directory.default_domain(host)))
        });
        let user = user.transpose()?;
        let domain = user.as_ref().and_then(UserKey::domain);
        Ok(Wish {
            kind: self.r#type,
            target: Target {
                session_id: self.session_id,
                domain: domain.map(str::to_owned),
                user: user.as_ref().map(|key| key.user().to_owned()),
                state: self.state.map(|state| state.to_lowercase()),
                all: self.all,
            },
            message: self.message,
            expires: self.expires.map(|Time(time)| time),
        })
    }
}

impl Command {
    fn of(command: commands::Command, now: Timestamp) -> Self {
        let outcome = command.outcome.as_ref();
        Self {
            id: command.id.to_string(),
            host: command.host.to_string(),
            r#type: command.kind.word(),
            state: command.state(now).word(),
            message: command.message.clone(),
            asked_by: command.asked_by.clone(),
            asked_at: rfc3339(command.asked_at),
            expires_at: rfc3339(command.expires_at),
            delivered_at: command.delivered_at.map(rfc3339),
            answered_at: outcome.map(|outcome| rfc3339(outcome.at)),
            answer: outcome.map(|outcome| outcome.message.clone()),
            target: command.target,
        }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        let text = error.to_string();
        match error {
            CommandError::Wish(_) => Self::bad(text),
            CommandError::TooMany { .. } => Self::conflict(text),
            CommandError::Store(_) => Self::unavailable(text),
        }
    }
}
