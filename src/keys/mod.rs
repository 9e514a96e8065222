//! Who may: the API's keys, from making to revoking.
//!
//! A key is a text, `sg_ROLE_ID_SECRET`, shown once. Its id is public: it stands
//! in the log, in lists, and leads to the record; of the whole text only a hash
//! is kept. Keys are kept in the store and, all of them, in memory, so that a
//! check asks nobody. A change is written first, then in force, then answered.
//! Beside the stored ones there are those that are configured.
//!
//! ```text
//! create, revoke, enroll -> change -> store -> ring -> whoever asked
//! verify ---------------------------------->  ring -> Identity | Rejected
//! first use of an agent's key --------------> uses -> store
//! ```
//!
//! # Rotation
//! A host may have two keys. Both are good until the newer one was used for the
//! first time, and the older one for [`GRACE`] after that: an agent that gets
//! its new key is never turned away, whichever of them it sends meanwhile. One
//! that never gets it goes on with the old one. Revoking ends a key at once.
//!
//! # Approval
//! A token that is shown for a host that is alive and has a key waits until an
//! administrator approves it; then it is as good as any. Nothing of the host's
//! own changes meanwhile.
//!
//! This room decides nothing about requests: it says who somebody is. What each
//! role may is the API's to know, beside its endpoints.

mod approval;
mod change;
mod digest;
mod enroll;
mod expiry;
mod follow;
mod keyring;
mod line;
mod listed;
mod record;
mod request;
mod ring;
mod role;
mod text;
mod uses;

use std::time::Duration;

use crate::config::Secret;
use crate::placement::{Actor, Timestamp};
use crate::store::StoreError;

pub use expiry::ExpiryError;
pub use keyring::Keyring;
pub use listed::{Listed, State};
pub use request::{CreateRequest, RequestError};
pub use role::Role;
pub use text::KeyId;
pub use uses::Uses;

/// How long an agent's older key is good after the newer one was first used.
pub const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Who somebody is, by the key that was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The key's id.
    pub key: KeyId,
    /// What the key is for.
    pub role: Role,
}

impl Identity {
    /// As whom to write down what this one does.
    pub fn actor(&self) -> Actor {
        Actor::Key {
            id: self.key.to_string(),
        }
    }
}

/// The key is not accepted, whatever the reason: whoever is turned away learns
/// nothing from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key is not accepted")]
pub struct Rejected;

/// A key that was just made.
#[derive(Debug)]
pub struct Created {
    /// Its id.
    pub id: KeyId,
    /// What it is for.
    pub role: Role,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// The key itself, which is kept nowhere else.
    pub key: Secret,
    /// What may not have been meant.
    pub warnings: Vec<String>,
}

/// Why a key was not made or not revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It was asked for wrongly.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// There is no such key.
    #[error("there is no key {id}{}", suggestion(near.as_ref()))]
    Unknown {
        /// The id that was asked for.
        id: KeyId,
        /// The one that was most likely meant.
        near: Option<KeyId>,
    },
    /// It is made by the configuration.
    #[error("{id} comes from the configuration: remove it there")]
    Configured {
        /// Its id.
        id: KeyId,
    },
    /// It is for something else, or its time is over.
    #[error("{id} is no enrollment token that is good; see: sessionguard keys list")]
    NoToken {
        /// Its id.
        id: KeyId,
    },
    /// One more would make the rotation ambiguous.
    #[error("{role} has two keys already, {first} and {second}: revoke one of them first")]
    TwoAlready {
        /// The host's role.
        role: Role,
        /// The older key.
        first: KeyId,
        /// The newer key.
        second: KeyId,
    },
    /// Somebody makes keys without end.
    #[error("there are {limit} keys already: revoke those that nobody uses")]
    TooMany {
        /// The most there may be.
        limit: usize,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {reason}")]
    Random {
        /// What it says.
        reason: String,
    },
    /// It cannot be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why nobody was enrolled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnrollError {
    /// The token is not accepted.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// It could not be done; the token is as good as before.
    #[error(transparent)]
    Failed(#[from] KeyError),
}

fn suggestion(near: Option<&KeyId>) -> String {
    near.map_or_else(
        || "; see: sessionguard keys list".to_owned(),
        |near| format!("; did you mean {near}?"),
    )
}

#[cfg(test)]
mod tests;
