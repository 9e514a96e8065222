//! The memory: lease records that outlive the process, documents such as host
//! modes, and the archive of past decisions.
//!
//! A store holds one [`LeaseRecord`] a [`LeaseKey`] and changes it only by
//! conditional replacement: a writer names the version it read, and loses where
//! somebody else wrote in between. Nothing else is needed to give one user one
//! host, so nothing else is offered there. [`Documents`] holds what is written
//! rarely and read at the start, by the same rule; the [`Archive`] is apart from
//! both: nobody is placed by it.

mod archive;
mod changes;
mod documents;
mod embedded;
mod losses;
mod movable;
mod opened;
mod postgres;
mod spoken;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::placement::{LeaseKey, LeaseRecord};

pub use archive::{Archive, Bounds, Kept};
pub use changes::{Changed, Changes, Footing, Mark};
pub use documents::{Document, Documents, Edit, Edited, Kind};
pub use embedded::Embedded;
#[cfg(test)]
pub(crate) use embedded::counted;
pub use losses::{Connections, Losses};
pub use movable::Movable;
pub use opened::{Opened, open};
pub use postgres::Postgres;
pub use spoken::{Call, Errand, Told, answer};

/// What a store call gives back.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The contract every store keeps.
///
/// Moments in a record are of the clock the process goes by. A store that
/// replicas share dates them by a clock of its own, so that a lease ends at one
/// moment for all of them, whatever their clocks say.
///
/// A call that was cancelled may or may not have taken effect. An answer means
/// that it has, durably.
pub trait Store: Send + Sync + 'static {
    /// The record of a key as last written; an empty one where none is stored.
    fn read<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, Versioned>;

    /// Writes `record` where the stored version still is `expected`; an empty
    /// record removes the key. With a `footing` only where nobody else has given
    /// an order for that host since, or claimed more on it than it has room for;
    /// a store of one process has no others.
    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> Answer<'a, Replaced>;

    /// At most so many records whose keys come after this one, in key order.
    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> Answer<'a, Vec<(LeaseKey, Versioned)>>;

    /// Whether others may be writing to it: then tunnels that are in it at the
    /// start may be open at another replica.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether it costs so much to ask it that what it said is worth remembering.
    /// Such a store takes the version of a removal for that of a record that is
    /// not there.
    fn is_far(&self) -> bool {
        self.is_shared()
    }

    /// Tells whenever the way to it is lost. A store of this process has none
    /// that could be.
    fn losses(&self) -> Losses {
        Losses::default()
    }

    /// How its connections are used, where it has any.
    fn connections(&self) -> Option<Connections> {
        None
    }
}

/// Which writing of a record this is; [`Version::ABSENT`] where none is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(u64);

impl Version {
    /// The version of a key that is not stored.
    pub const ABSENT: Self = Self(0);

    /// The one after so many, for a store of a test.
    #[cfg(test)]
    pub(crate) const fn nth(number: u64) -> Self {
        Self(number)
    }
}

/// A record and the version to name when replacing it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Versioned {
    /// Which writing this is.
    pub version: Version,
    /// What was written.
    pub record: LeaseRecord,
}

/// What became of a conditional replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replaced {
    /// Written; the version to name when replacing it.
    Done(Version),
    /// Somebody wrote in between; nothing was changed.
    Conflict,
    /// Since then others gave an order for the host of the footing, or claimed
    /// more on it than it had room for; nothing was changed. What others changed
    /// has to be taken over first, then decided again.
    Behind,
}

impl Replaced {
    /// Whether it was written.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// Why a store cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process has the file open.
    #[error(
        "{} is in use by another process: give each sessionguard a store path of its own",
        path.display()
    )]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// The file cannot be opened or made.
    #[error("cannot open {}: {reason}", path.display())]
    Open {
        /// The store's file.
        path: PathBuf,
        /// What the system or the database said.
        reason: String,
    },
    /// A newer release wrote the file.
    #[error(
        "{} was written by a newer release (schema {found}, this one knows {known}): start that release, or move the file away",
        path.display()
    )]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// Schema number in the file.
        found: u64,
        /// Highest schema number this release knows.
        known: u64,
    },
    /// The database cannot be reached, does not answer, or refuses.
    #[error("cannot use the database {database} at {address}: {reason}; {help}")]
    Database {
        /// Name and port as configured.
        address: String,
        /// Its name.
        database: String,
        /// What it, or the system, said.
        reason: String,
        /// What to do.
        help: &'static str,
    },
    /// Whether a change was made cannot be told: the connection was lost in the
    /// middle of it, and another change followed. What is there now can be read.
    #[error(
        "the connection to the database {database} at {address} was lost in the middle of a change, and another change followed; see that the connection to it is steady"
    )]
    InDoubt {
        /// Name and port as configured.
        address: String,
        /// Its name.
        database: String,
    },
    /// A newer release changed the database.
    #[error(
        "the database {database} at {address} was changed by a newer release (schema {found}, this one knows {known}): start that release, or use another database"
    )]
    NewerDatabase {
        /// Name and port as configured.
        address: String,
        /// Its name.
        database: String,
        /// Schema number in the database.
        found: i32,
        /// Highest schema number this release knows.
        known: i32,
    },
    /// Another process took the store over and cannot be asked.
    #[error("the sessionguard that took the store over does not answer: start it again")]
    Successor,
    /// Reading or writing failed.
    #[error("the store failed: {reason}")]
    Failed {
        /// What the database said.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether it speaks of the way to a store that others share: it is away,
    /// and not one record in it that cannot be read.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Database { .. } | Self::Successor)
    }
}

#[cfg(test)]
mod tests;
