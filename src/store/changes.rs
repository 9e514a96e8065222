//! What others write, as a store that replicas share tells it: as of one moment
//! at a time, so that whoever decides by it decides by what once was.

use serde::{Deserialize, Serialize};

use super::{Answer, Document, Kind, LeaseKey, Versioned};
use crate::placement::{HostId, Standing};

/// By what of a host a claim on it was decided: it is written only as long as
/// that decision would still be a right one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footing {
    /// The host that the claim is about.
    pub host: HostId,
    /// As [`Changed::standings`] told it. Orders that others gave since refuse
    /// the claim.
    pub standing: Standing,
    /// How many more than this claim's there was room for. Where more were
    /// placed there since, by others, the claim is refused.
    pub room: u32,
}

/// What tells of others' writing.
pub trait Changes: Send + Sync + 'static {
    /// All that was changed since `since`, by whomever, as of one moment; since
    /// [`Mark::default`] all there is. What was told may be told again: its
    /// version is the same then. A store of one process has nothing to tell.
    fn changes(&self, since: Mark) -> Answer<'_, Changed>;
}

/// A moment of a store, to ask from on. It says nothing to anybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// All transactions before this one have ended and were told of.
    pub(super) transaction: u64,
    /// When the server began to run that told of them, microseconds; another
    /// one may have lost some.
    pub(super) server: i64,
    /// When it was, by the database's clock, milliseconds.
    pub(super) at: u64,
    /// How many connections had been lost by then.
    pub(super) losses: u64,
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Changed {
    /// Lease records; an empty one was removed, and its version tells when.
    pub leases: Vec<(LeaseKey, Versioned)>,
    /// Documents by kind and id; `None`: removed.
    pub documents: Vec<(Kind, String, Option<Document>)>,
    /// How far hosts have come by now.
    pub standings: Vec<(HostId, Standing)>,
    /// To be asked from next.
    pub mark: Mark,
    /// It is all there is: what is not in it is not there, whatever was told
    /// before.
    pub whole: bool,
}
