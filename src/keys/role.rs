//! What a key is for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::placement::HostId;

/// What a key is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", content = "host", rename_all = "kebab-case")]
pub enum Role {
    /// Asks where a user belongs.
    Broker,
    /// Reports for this host.
    Agent(HostId),
    /// Looks at everything.
    AdminRead,
    /// Looks at everything and changes it.
    AdminWrite,
    /// Gets this host its agent's key, once.
    Enrollment(HostId),
}

impl Role {
    /// The words a role is asked for by.
    pub const WORDS: [&'static str; 5] =
        ["broker", "agent", "admin-read", "admin-write", "enrollment"];

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Agent(_) => "agent",
            Self::AdminRead => "admin-read",
            Self::AdminWrite => "admin-write",
            Self::Enrollment(_) => "enrollment",
        }
    }

    /// The host it is bound to.
    pub fn host(&self) -> Option<&HostId> {
        match self {
            Self::Agent(host) | Self::Enrollment(host) => Some(host),
            Self::Broker | Self::AdminRead | Self::AdminWrite => None,
        }
    }
}

/// `agent of rds-1`.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.host().map_or(Ok(()), |host| write!(f, " of {host}"))
    }
}
