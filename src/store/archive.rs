//! The archive of past decisions: written after the fact, read by whoever asks
//! why. Nothing is placed by it, so it may lag behind and it may forget.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Answer;
use crate::placement::Timestamp;

/// What an archive of decisions keeps.
///
/// Apart from [`super::Store`] since it promises less: a power cut may take the
/// last seconds of it, and a placement never waits for it.
pub trait Archive: Send + Sync + 'static {
    /// Keeps these. With `sync` they, and all kept before, are on disk once it
    /// answers; without it they are soon.
    fn keep(&self, decisions: Vec<Kept>, sync: bool) -> Answer<'_, ()>;

    /// One decision's text; `None` where it is not kept, or not any more.
    fn decision(&self, id: u128) -> Answer<'_, Option<String>>;

    /// The texts of the newest decisions, newest first, `most` at most; where a
    /// name is given only those that were kept under it.
    fn decisions<'a>(&'a self, name: Option<&'a str>, most: usize) -> Answer<'a, Vec<String>>;

    /// Forgets some of what is beyond the bounds, oldest first, and tells how
    /// many that were: zero once the bounds are kept.
    fn prune(&self, bounds: Bounds) -> Answer<'_, usize>;
}

/// A decision as an archive keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The bits of its UUIDv7, so that ids sort by time.
    pub id: u128,
    /// What it is found under besides its id: spellings of its user.
    pub names: Vec<String>,
    /// The decision as JSON.
    pub json: String,
}

/// What an archive may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Nothing from before this moment.
    pub since: Timestamp,
    /// Most decisions.
    pub rows: u64,
    /// Most bytes of JSON in all: a farm of hundreds of hosts says much.
    pub bytes: u64,
}

impl Bounds {
    /// How long a decision is kept, how many at most, and how much.
    const AGE: Duration = Duration::from_secs(30 * 24 * 3600);
    const ROWS: u64 = 200_000;
    const BYTES: u64 = 512 << 20;

    /// The bounds as they are at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self {
            since: now - Self::AGE,
            rows: Self::ROWS,
            bytes: Self::BYTES,
        }
    }
}
