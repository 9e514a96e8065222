//! What is asked for when a key is to be made, and what is wrong with it.

use std::time::Duration;

use serde::Deserialize;

use super::Role;
use super::expiry::{self, ExpiryError};
use crate::placement::{Directory, HostId, Timestamp};

/// Longest host id and label, in characters.
const LONGEST_ID: usize = 128;
const LONGEST_LABEL: usize = 100;
/// A token that lies around is a risk.
const TOKEN: Duration = Duration::from_secs(86_400);
const LONGEST_TOKEN: Duration = Duration::from_secs(30 * 86_400);

/// What is asked for, as the API and the command line send it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// `broker`, `agent`, `admin-read`, `admin-write` or `enrollment`.
    pub role: String,
    /// The host, for `agent` and `enrollment` only.
    #[serde(default)]
    pub host: Option<String>,
    /// What people call it.
    #[serde(default)]
    pub label: Option<String>,
    /// `30d`, or a moment in UTC: `2027-01-31`, `2027-01-31T12:00:00Z`. A
    /// token ends after a day unless it says so; other keys do not.
    #[serde(default)]
    pub expires: Option<String>,
}

/// What is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) role: Role,
    pub(super) label: String,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) warnings: Vec<String>,
}

/// What is wrong with a request. Shows nothing of what was sent: it may be a key
/// in the wrong place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no such role.
    #[error("a role is one of {}", Role::WORDS.join(", "))]
    Role,
    /// A key of this role belongs to a host.
    #[error("a key of the role {role} belongs to a host: name it")]
    NoHost {
        /// The role.
        role: &'static str,
    },
    /// A key of this role belongs to no host.
    #[error("a key of the role {role} belongs to no host")]
    Host {
        /// The role.
        role: &'static str,
    },
    /// No host can have this id.
    #[error("a host's id is 1 to {LONGEST_ID} characters, none of ; | =")]
    HostId,
    /// It is no label.
    #[error("a label is at most {LONGEST_LABEL} characters on one line")]
    Label,
    /// A moment that is none, or will not do.
    #[error(transparent)]
    Expiry(#[from] ExpiryError),
    /// A token would be good for too long.
    #[error("an enrollment token is good for 30 days at most")]
    LongToken,
    /// It is no key's id.
    #[error("a key's id is twelve of 0-9 and a-f, as keys list shows it")]
    NotAnId,
}

impl CreateRequest {
    pub(super) fn check(
        self,
        now: Timestamp,
        directory: &Directory,
    ) -> Result<Wanted, RequestError> {
        let role = self.role()?;
        let label = self.label.unwrap_or_default().trim().to_owned();
        if label.chars().count() > LONGEST_LABEL || label.contains(char::is_control) {
            return Err(RequestError::Label);
        }
        let expires_at = self
            .expires
            .map(|text| expiry::read(&text, now))
            .transpose()?;
        let expires_at = match role {
            Role::Enrollment(_) => {
                let end = expires_at.unwrap_or(now + TOKEN);
                if end > now + LONGEST_TOKEN {
                    return Err(RequestError::LongToken);
                }
                Some(end)
            }
            _ => expires_at,
        };
        let warnings = role.host().and_then(|host| unknown(host, directory));
        Ok(Wanted {
            label,
            expires_at,
            warnings: warnings.into_iter().collect(),
            role,
        })
    }

    fn role(&self) -> Result<Role, RequestError> {
        let word = Role::WORDS.into_iter().find(|word| *word == self.role);
        let role = word.ok_or(RequestError::Role)?;
        let host = self.host.as_deref().map(str::trim);
        let bound = |make: fn(HostId) -> Role| {
            let host = host.ok_or(RequestError::NoHost { role })?;
            is_id(host)
                .then(|| make(HostId::from(host)))
                .ok_or(RequestError::HostId)
        };
        let free = |made: Role| match host {
            None => Ok(made),
            Some(_) => Err(RequestError::Host { role }),
        };
        match role {
            "broker" => free(Role::Broker),
            "admin-read" => free(Role::AdminRead),
            "admin-write" => free(Role::AdminWrite),
            "agent" => bound(Role::Agent),
            _ => bound(Role::Enrollment),
        }
    }
}

fn is_id(text: &str) -> bool {
    let other = |c: char| matches!(c, ';' | '|' | '=') || c.is_control();
    (1..=LONGEST_ID).contains(&text.chars().count()) && !text.contains(other)
}

/// A host may be configured after its key was made, so this is no error. A key
/// for a host that never comes opens nothing.
fn unknown(host: &HostId, directory: &Directory) -> Option<String> {
    const SLIPS: usize = 2;
    let mut known = directory.hosts().map(|known| &known.id);
    if known.any(|known| known == host) {
        return None;
    }
    let known = directory.hosts().map(|known| known.id.as_str());
    let near = known
        .map(|known| (strsim::osa_distance(known, host.as_str()), known))
        .min();
    let near = near.filter(|(distance, _)| *distance <= SLIPS);
    let near = near.map_or_else(String::new, |(_, near)| format!("; did you mean {near}?"));
    Some(format!(
        "no host {host} is configured: the key opens nothing until there is one{near}"
    ))
}
