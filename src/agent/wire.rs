//! The heartbeat as it stands on the wire: names and shapes of protocol 4.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The protocol these shapes are of.
pub(super) const PROTOCOL_VERSION: u32 = 4;

/// One report.
#[derive(Debug, Serialize)]
pub(super) struct Heartbeat<'a> {
    pub(super) protocol_version: u32,
    pub(super) agent_id: &'a str,
    pub(super) boot_id: &'a str,
    pub(super) seq: u64,
    pub(super) server: Figures,
    pub(super) health: Health,
    pub(super) sessions: Vec<Session>,
    pub(super) command_results: &'a [CommandResult],
    /// RFC 3339, by this host's clock.
    pub(super) time: String,
}

/// The host's load; what could not be read is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) hostname: String,
    pub(super) os: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uptime_seconds: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_total: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_available: Option<u64>,
    /// 0 to 100, over all processors, since the report before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_percent: Option<f64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disk_total: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disk_free: Option<u64>,
}

/// How fit the host is for a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Health {
    /// 0 to 100.
    pub(super) score: u8,
    pub(super) rdp_listener_ok: bool,
    pub(super) profile_store_ok: bool,
    pub(super) checks: Vec<Check>,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    pub(super) message: String,
}

/// One user's login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Session {
    /// The number of its X display.
    pub(super) id: u32,
    pub(super) state: SessionState,
    pub(super) user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) domain: Option<String>,
    pub(super) logon_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connect_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disconnected_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_name: Option<String>,
}

/// Whether somebody is connected to it. xrdp knows no state between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum SessionState {
    Active,
    Disconnected,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommandResult {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) ok: bool,
    pub(super) message: String,
    /// RFC 3339, by this host's clock.
    pub(super) finished_at: String,
}

/// What the broker answers.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Answer {
    pub(super) server_time: Option<String>,
    /// Read one by one: one that makes no sense must not hide the others.
    #[serde(default)]
    pub(super) commands: Vec<Value>,
}

/// What a broker may ask of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandKind {
    /// Show a text on the sessions' displays.
    Message,
    /// Hang up on the sessions, which go on.
    Disconnect,
    /// End the sessions.
    Logoff,
    /// Restart the host.
    RestartServer,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Command {
    #[serde(deserialize_with = "text_or_number")]
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) expires_at: Option<String>,
    /// Which sessions; every part given must fit.
    #[serde(flatten)]
    pub(super) target: Target,
    /// The text of a message.
    pub(super) message: Option<String>,
}

/// Which sessions a command is about. Nothing given is nobody, not everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Target {
    #[serde(default, deserialize_with = "some_text_or_number")]
    pub(super) session_id: Option<String>,
    pub(super) user: Option<String>,
    pub(super) domain: Option<String>,
    /// `disconnected` or `active`, any letter case.
    pub(super) state: Option<String>,
    #[serde(default)]
    pub(super) all: bool,
}

/// What an enrolling host says.
#[derive(Serialize)]
pub(super) struct EnrollQuestion<'a> {
    pub(super) enrollment_token: &'a str,
    pub(super) name: &'a str,
    pub(super) machine_id: &'a str,
}

/// What it gets.
#[derive(Deserialize)]
pub(super) struct EnrollAnswer {
    pub(super) agent_id: String,
    pub(super) token: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(u64),
}

fn text_or_number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(match TextOrNumber::deserialize(from)? {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    })
}

fn some_text_or_number<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let found = Option::<TextOrNumber>::deserialize(from)?;
    Ok(found.map(|found| match found {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    }))
}
