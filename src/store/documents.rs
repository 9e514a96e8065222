//! Small documents that outlive the process and that many may write: host
//! modes, last reports, keys. What they say is their owners' business; here
//! they are text under a kind and an id.

use serde::{Deserialize, Serialize};

use super::{Answer, Version};

/// What a document is about; ids are unique within one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The orders on a host's mode, under the host's id.
    Mode,
    /// A host's last report, under the host's id.
    Report,
    /// An API key, under the key's id.
    Key,
    /// A command for a host's agent, under the command's id.
    Command,
    /// A replica that is there, under the replica's id.
    Replica,
    /// A replica's tunnels that no lease tells of, under the replica's id.
    Guests,
}

impl Kind {
    /// Every kind there is.
    pub(super) const ALL: [Self; 6] = [
        Self::Mode,
        Self::Report,
        Self::Key,
        Self::Command,
        Self::Replica,
        Self::Guests,
    ];

    /// The name it is stored under; never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Report => "report",
            Self::Key => "key",
            Self::Command => "command",
            Self::Replica => "replica",
            Self::Guests => "guests",
        }
    }

    /// The kind that is stored under this name; `None` where only a newer
    /// release knows it.
    pub(super) fn from_stored(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What became of edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edited {
    /// All were made.
    Done,
    /// Somebody wrote one of the documents in between; none was made.
    Conflict,
}

/// What keeps documents.
///
/// As for [`super::Store`]: a call that was cancelled may or may not have taken
/// effect, an answer means that it has.
pub trait Documents: Send + Sync + 'static {
    /// Every document of a kind, in the order of their ids.
    fn documents(&self, kind: Kind) -> Answer<'_, Vec<Document>>;

    /// One document; `None` where there is none.
    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>>;

    /// Makes these edits, at most one a document, all of them or, where one of the documents is not of
    /// the version its edit expects, none. With `sync` they are on disk once it
    /// answers; without it they are soon.
    fn edit(&self, edits: Vec<Edit>, sync: bool) -> Answer<'_, Edited>;
}

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its id within its kind.
    pub id: String,
    /// Which writing this is, to be named when it is edited.
    pub version: Version,
    /// What was written.
    pub text: String,
}

/// One change of one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// What it is about.
    pub kind: Kind,
    /// Its id within its kind.
    pub id: String,
    /// The version it must have: [`Version::ABSENT`] where there must be none.
    /// `None`: whatever there is.
    pub expected: Option<Version>,
    /// What it shall say; `None` removes it.
    pub text: Option<String>,
}
