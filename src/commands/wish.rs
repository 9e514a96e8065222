//! What an administrator asks for, checked before it becomes a command.

use std::time::Duration;

use super::command::{CommandKind, Target};

/// Longest text of a message, in characters; Windows shows no more in one box.
const TEXT: usize = 1000;
/// Longest id of a session, in characters; no report has a longer one.
const ID: usize = 256;
/// How long a command may wait for its agent.
const LEAST: Duration = Duration::from_secs(10);
const MOST: Duration = Duration::from_secs(86_400);
const USUAL: Duration = Duration::from_secs(300);

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// What is asked.
    pub kind: CommandKind,
    /// Of which sessions.
    pub target: Target,
    /// The text of a message.
    pub message: Option<String>,
    /// How long the agent has; five minutes where nothing is said.
    pub expires: Option<Duration>,
}

/// What is wrong with a wish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// Nobody is meant, or two ways of meaning somebody.
    #[error("say which sessions: one of user, session_id, state and all")]
    Target,
    /// A restart is of the host.
    #[error("a restart is of the whole host: it takes no sessions")]
    WholeHost,
    /// There is no such state to choose by.
    #[error("state is disconnected or active")]
    State,
    /// No report has a session of such an id.
    #[error("session_id is 1 to {ID} characters, as the host reports it")]
    SessionId,
    /// A message without a text, or one that cannot be shown.
    #[error("a message needs a text of 1 to {TEXT} characters without control characters")]
    Text,
    /// A text that nobody would see.
    #[error("only a message takes a text")]
    NoText,
    /// Too short or too long.
    #[error("a command expires after 10s at least and 24h at most")]
    Expiry,
}

impl Wish {
    /// How long it may wait, where it can be a command.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn check(&self) -> Result<Duration, WishError> {
        let Target {
            session_id,
            user,
            domain,
            state,
            all,
        } = &self.target;
        let ways = [session_id.is_some(), user.is_some(), state.is_some(), *all];
        let ways = ways.into_iter().filter(|given| *given).count();
        match self.kind {
            CommandKind::RestartServer if ways > 0 || domain.is_some() => {
                return Err(WishError::WholeHost);
            }
            CommandKind::RestartServer => {}
            _ if ways != 1 || (domain.is_some() && user.is_none()) => {
                return Err(WishError::Target);
            }
            _ => {}
        }
        if session_id.as_ref().is_some_and(|id| !is_id(id)) {
            return Err(WishError::SessionId);
        }
        if state
            .as_ref()
            .is_some_and(|state| !matches!(state.as_str(), "disconnected" | "active"))
        {
            return Err(WishError::State);
        }
        match (self.kind, &self.message) {
            (CommandKind::Message, Some(text)) if is_shown(text) => {}
            (CommandKind::Message, _) => return Err(WishError::Text),
            (_, Some(_)) => return Err(WishError::NoText),
            (_, None) => {}
        }
        let expires = self.expires.unwrap_or(USUAL);
        match (LEAST..=MOST).contains(&expires) {
            true => Ok(expires),
            false => Err(WishError::Expiry),
        }
    }
}

fn is_id(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= ID
}

fn is_shown(text: &str) -> bool {
    let odd = |c: char| c.is_control() && c != '\n';
    !text.trim().is_empty() && text.chars().count() <= TEXT && !text.contains(odd)
}
