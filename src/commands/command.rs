//! One command, and how it stands.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::placement::{HostId, Timestamp};

/// A command's name, in the log, in lists and on its way to the agent. Sorts
/// by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandId(String);

impl CommandId {
    pub(super) fn mint() -> Self {
        Self(Uuid::now_v7().to_string())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CommandId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is asked of an agent, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandKind {
    /// Show a text to sessions.
    Message,
    /// Hang up on sessions, which go on.
    Disconnect,
    /// End sessions.
    Logoff,
    /// Restart the host.
    RestartServer,
}

impl CommandKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Disconnect => "disconnect",
            Self::Logoff => "logoff",
            Self::RestartServer => "restart_server",
        }
    }
}

/// Which sessions; everything given must fit. Nothing given is nobody.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Target {
    /// The host's own id of one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Of this user, in lower case, without a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Of this domain, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `disconnected` or `active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Every session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its name.
    pub id: CommandId,
    /// Whose agent it is for.
    pub host: HostId,
    /// What is asked.
    pub kind: CommandKind,
    /// Of which sessions.
    pub target: Target,
    /// The text of a message.
    pub message: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// Who asked.
    pub asked_by: String,
    /// From then on it is not carried out.
    pub expires_at: Timestamp,
    /// When it was given to the agent for the first time: by this process since
    /// it started, or by whichever of several replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    /// What came of it.
    pub outcome: Option<Outcome>,
    /// The order on the host's mode that it is asked for by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
}

/// A restart that was ordered for when the host is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// When that order was given.
    pub order: Timestamp,
    /// Which start of the host that was in.
    pub boot: Option<u64>,
}

/// What came of a command, by its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it was carried out.
    pub ok: bool,
    /// What the agent says of it.
    pub message: String,
    /// When we heard.
    pub at: Timestamp,
}

/// How a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The agent has not been given it.
    Waiting,
    /// It was given to the agent, which has not said what came of it.
    Delivered,
    /// It was carried out.
    Done,
    /// The agent could not or would not.
    Failed,
    /// Nothing was heard of it in time.
    Expired,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}

impl Command {
    /// How it stands.
    pub fn state(&self, now: Timestamp) -> State {
        match (&self.outcome, self.delivered_at) {
            (Some(outcome), _) if outcome.ok => State::Done,
            (Some(_), _) => State::Failed,
            (None, _) if self.expires_at <= now => State::Expired,
            (None, Some(_)) => State::Delivered,
            (None, None) => State::Waiting,
        }
    }

    /// Whether it may still be carried out.
    pub(super) fn is_pending(&self, now: Timestamp) -> bool {
        self.outcome.is_none() && self.expires_at > now
    }

    /// When there was nothing more to expect of it.
    pub(super) fn ended_at(&self) -> Timestamp {
        self.outcome
            .as_ref()
            .map_or(self.expires_at, |outcome| outcome.at)
    }

    /// Whether both ask the same of the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let what = |command: &Self| {
            let Self {
                host,
                kind,
                target,
                message,
                ..
            } = command.clone();
            (host, kind, target, message)
        };
        what(self) == what(other)
    }
}
