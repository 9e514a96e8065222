//! A heartbeat, read: from what an agent sent to figures that can be used.
//!
//! The names and shapes are those of agents of protocol 4. What the shape is
//! about (who is on the host) must be as it says or the heartbeat is refused
//! whole; figures that make no sense are unknown or clamped, since a broken
//! counter must not take a host away. Nothing here is believed yet, and no
//! address is taken from it.

mod figure;
mod object;
mod wire;

use std::time::Duration;

use serde::Deserialize;

pub use figure::Figure;

use crate::placement::Timestamp;

/// The oldest protocol that is understood.
const PROTOCOL: u32 = 4;

/// Most sessions one host may report; Windows has far lower bounds of its own.
const SESSIONS: usize = 10_000;

/// Failed checks that are told; further ones are left out.
const CHECKS: usize = 32;

/// Longest name of a user, a domain, a client or an alias, in characters.
const NAME: usize = 256;

/// What an agent said, in our units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heartbeat {
    /// Whom it says to be.
    pub agent_id: String,
    /// What the host calls itself; for people.
    pub hostname: String,
    /// Which start of the host this is; only compared.
    pub boot_id: Option<String>,
    /// Grows with every heartbeat of one boot.
    pub seq: Option<u64>,
    /// 0 to 100; `None` where the agent gave none.
    pub health: Option<u8>,
    /// Whether something listens for RDP there; `true` where nothing was said.
    pub rdp_listener_ok: bool,
    /// The checks that failed, the first of them: name and message in at most
    /// 256 characters, for people.
    pub failed_checks: Vec<String>,
    /// 0 to 100.
    pub cpu_percent: Option<f64>,
    /// 0 to 100.
    pub memory_used_percent: Option<f64>,
    /// Who is there; `None` where the agent could not tell, which is not the
    /// same as nobody.
    pub sessions: Option<Vec<ReportedSession>>,
    /// Aliases, each with one `||`, that cannot be started there.
    pub missing_remote_apps: Vec<String>,
    /// What became of commands.
    pub results: Vec<CommandResult>,
    /// When the agent made it, by its own clock; only compared with others of
    /// its.
    pub time: Option<Timestamp>,
}

/// One login as it was reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedSession {
    /// The host's own number for it.
    pub id: String,
    /// As the host has it, `DOMAIN\user` included; empty for a listener.
    pub user: String,
    /// Empty where the host names none.
    pub domain: String,
    /// Windows' name of its state.
    pub state: String,
    /// How long before the report it was logged on.
    pub logged_on: Option<Duration>,
    /// How long before the report it was last connected, disconnected or
    /// logged on, whichever was last.
    pub latest: Option<Duration>,
    /// What the machine it is used from calls itself.
    pub client_name: Option<String>,
}

/// What became of one command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CommandResult {
    /// Which command.
    #[serde(deserialize_with = "wire::text_or_number")]
    pub id: String,
    /// Whether it was carried out.
    pub ok: bool,
    /// What the agent says about it.
    #[serde(default)]
    pub message: String,
}

/// Why a heartbeat cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// It is no JSON, or not of this shape.
    #[error("the heartbeat: {reason}")]
    Shape {
        /// What was expected, and where.
        reason: String,
    },
    /// An agent of another time.
    #[error(
        "the agent speaks protocol {found}, understood are {PROTOCOL} and later: update the agent"
    )]
    Protocol {
        /// What it speaks.
        found: u32,
    },
    /// More sessions than a host can have.
    #[error("{found} sessions, a host has {SESSIONS} at most")]
    Sessions {
        /// How many were named.
        found: usize,
    },
    /// A name that nobody can have.
    #[error("{what} of {found} characters, {NAME} are the most")]
    Name {
        /// Whose name.
        what: &'static str,
        /// How long it is.
        found: usize,
    },
}

impl Heartbeat {
    /// Reads the body of a heartbeat. Ages are worked out from the agent's own
    /// clock (its `time` less the moment it names), so that a clock that is
    /// wrong by a day changes none.
    ///
    /// # Errors
    /// It is not what an agent sends.
    pub fn read(body: &[u8]) -> Result<Self, HeartbeatError> {
        wire::read(body)?.try_into()
    }

    /// Less than nothing or more than all of it is no share; a total of zero
    /// says nothing.
    fn memory_used(total: Option<f64>, available: Option<f64>) -> Option<f64> {
        let (total, available) = (total?, available?);
        (total > 0.0).then(|| ((total - available) / total * 100.0).clamp(0.0, 100.0))
    }
}

fn name(what: &'static str, text: String) -> Result<String, HeartbeatError> {
    match text.chars().count() {
        found if found > NAME => Err(HeartbeatError::Name { what, found }),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests;
