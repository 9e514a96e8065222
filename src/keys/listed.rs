//! A key as it is shown: nothing of it that could be used.

use super::{KeyId, Role};
use crate::placement::Timestamp;

/// What is shown of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: KeyId,
    /// What it is for, and of which host.
    pub role: Role,
    /// What somebody called it.
    pub label: String,
    /// Whether it is good.
    pub state: State,
    /// Who made it; a configured one, where it was found.
    pub created_by: String,
    /// When; `None` for a configured one.
    pub created_at: Option<Timestamp>,
    /// When it ends, or ended, by itself; of an agent's older key the end of
    /// its grace.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// Who revoked it.
    pub revoked_by: Option<String>,
    /// Last use since our start, to the minute.
    pub last_used: Option<Timestamp>,
}

/// Whether a key is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is.
    Valid,
    /// It is, and who showed it waits for approval.
    Waiting,
    /// It is, until its successor has been in use for a while.
    Ending,
    /// Its successor has been in use for that long.
    Replaced,
    /// Its time is over.
    Expired,
    /// Somebody ended it.
    Revoked,
    /// It was good for one use.
    Used,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Waiting => "waiting",
            Self::Ending => "ending",
            Self::Replaced => "replaced",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Used => "used",
        }
    }

    /// Whether a key in this state is accepted.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Valid | Self::Waiting | Self::Ending)
    }
}
