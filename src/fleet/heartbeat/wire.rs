//! The shapes on the wire. Fields that are not known are skipped.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::object::Object;
use super::{
    CHECKS, CommandResult, Figure, Heartbeat, HeartbeatError, NAME, PROTOCOL, ReportedSession,
    SESSIONS, name,
};
use crate::clock::read_rfc3339;
use crate::placement::Timestamp;

#[derive(Deserialize)]
pub(super) struct Wire {
    protocol_version: u32,
    agent_id: String,
    boot_id: Option<String>,
    seq: Option<u64>,
    #[serde(default)]
    server: Object<Server>,
    #[serde(default)]
    health: Object<Health>,
    sessions: Option<Vec<Object<Session>>>,
    remote_apps: Option<Vec<Object<RemoteApp>>>,
    command_results: Option<Vec<Object<CommandResult>>>,
    time: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Server {
    hostname: Option<String>,
    memory_total: Figure,
    memory_available: Figure,
    cpu_percent: Figure,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Health {
    score: Figure,
    rdp_listener_ok: Option<bool>,
    checks: Option<Vec<Object<Check>>>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    ok: bool,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Session {
    #[serde(default, deserialize_with = "text_or_number")]
    id: String,
    state: String,
    user: Option<String>,
    domain: Option<String>,
    logon_at: Option<String>,
    connect_at: Option<String>,
    disconnected_since: Option<String>,
    client_name: Option<String>,
}

#[derive(Deserialize)]
struct RemoteApp {
    alias: String,
    published: Option<bool>,
    path_exists: Option<bool>,
}

/// # Errors
/// It is not of this shape.
pub(super) fn read(body: &[u8]) -> Result<Wire, HeartbeatError> {
    // However deep a value is: one that is skipped takes no stack, and one that
    // is read gives up at a depth of 128.
    let read = serde_json::from_slice(body).map(|Object(wire)| wire);
    read.map_err(|error| HeartbeatError::Shape {
        reason: error.to_string(),
    })
}

impl TryFrom<Wire> for Heartbeat {
    type Error = HeartbeatError;

    fn try_from(wire: Wire) -> Result<Self, HeartbeatError> {
        if wire.protocol_version < PROTOCOL {
            let found = wire.protocol_version;
            return Err(HeartbeatError::Protocol { found });
        }
        let found = wire.sessions.as_ref().map_or(0, Vec::len);
        if found > SESSIONS {
            return Err(HeartbeatError::Sessions { found });
        }
        let (Object(server), Object(health)) = (wire.server, wire.health);
        let time = wire.time.as_deref().and_then(read_rfc3339);
        let sessions = wire.sessions.map(|sessions| {
            let sessions = sessions.into_iter();
            sessions.map(|Object(session)| session.read(time)).collect()
        });
        let apps = wire.remote_apps.unwrap_or_default().into_iter();
        let apps = apps.map(|Object(app)| app);
        let missing = apps.filter(RemoteApp::is_missing).map(RemoteApp::alias);
        let checks = health.checks.unwrap_or_default().into_iter();
        let checks = checks.map(|Object(check)| check);
        let results = wire.command_results.unwrap_or_default().into_iter();
        Ok(Self {
            agent_id: wire.agent_id,
            hostname: name("a host name", server.hostname.unwrap_or_default())?,
            boot_id: wire.boot_id.map(|id| name("a boot id", id)).transpose()?,
            seq: wire.seq,
            health: health.score.percent().map(whole),
            rdp_listener_ok: health.rdp_listener_ok.unwrap_or(true),
            failed_checks: checks
                .filter(|check| !check.ok)
                .take(CHECKS)
                .map(Check::said)
                .collect(),
            cpu_percent: server.cpu_percent.percent(),
            memory_used_percent: Self::memory_used(
                server.memory_total.0,
                server.memory_available.0,
            ),
            sessions: sessions.transpose()?,
            missing_remote_apps: missing.collect::<Result<_, _>>()?,
            results: results.map(|Object(result)| result).collect(),
            time,
        })
    }
}

impl Session {
    fn read(self, time: Option<Timestamp>) -> Result<ReportedSession, HeartbeatError> {
        let age = |text: &Option<String>| -> Option<Duration> {
            let at = text.as_deref().and_then(read_rfc3339)?;
            // What lies ahead of the agent's own clock is of this moment.
            Some(time?.since(at))
        };
        let logged_on = age(&self.logon_at);
        let moments = [
            age(&self.connect_at),
            age(&self.disconnected_since),
            logged_on,
        ];
        Ok(ReportedSession {
            id: name("a session id", self.id)?,
            user: name("a user name", self.user.unwrap_or_default())?,
            domain: name("a domain", self.domain.unwrap_or_default())?,
            state: name("a session state", self.state)?,
            logged_on,
            latest: moments.into_iter().flatten().min(),
            client_name: self
                .client_name
                .map(|of| name("a client name", of))
                .transpose()?,
        })
    }
}

impl RemoteApp {
    fn is_missing(&self) -> bool {
        self.published == Some(false) || self.path_exists == Some(false)
    }

    fn alias(self) -> Result<String, HeartbeatError> {
        let bare = self.alias.trim_start_matches('|');
        name("an alias", format!("||{bare}"))
    }
}

impl Check {
    fn said(self) -> String {
        let said = match self.message.filter(|message| !message.is_empty()) {
            Some(message) => format!("{}: {message}", self.name),
            None => self.name,
        };
        // It is for people, in a line of a list: a flood of words is cut, and no
        // reason to refuse who is on the host.
        said.chars().take(NAME).collect()
    }
}

/// A share of a hundred as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is from 0 to 100 by then"
)]
fn whole(percent: f64) -> u8 {
    percent.clamp(0.0, 100.0).round() as u8
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(i64),
}

/// Session and command ids are numbers with some agents and texts with others.
pub(super) fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(match TextOrNumber::deserialize(from)? {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    })
}
