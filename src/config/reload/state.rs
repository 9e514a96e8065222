//! What a reload came to, and how things stand since: for whoever asked, for
//! `status` and for the metrics.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::beside::Noticed;
use crate::config::change::Changes;
use crate::placement::Timestamp;

/// Why the files were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The process has just started.
    Start,
    /// Something happened to them.
    Files,
    /// It is done now and then.
    Poll,
    /// SIGHUP.
    Signal,
    /// An administrator asked.
    Request,
}

impl Cause {
    /// Whether somebody waits to be told what came of it.
    pub(super) fn is_asked(self) -> bool {
        matches!(self, Self::Signal | Self::Request)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Files => "files",
            Self::Poll => "poll",
            Self::Signal => "signal",
            Self::Request => "request",
        })
    }
}

/// What came of a look at the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Reloaded {
    /// They say what is in force already.
    Unchanged {
        /// The generation in force.
        generation: u64,
    },
    /// They were good and are in force.
    Applied {
        /// The generation in force from now on; as before where everything
        /// that differs needs a restart.
        generation: u64,
        /// What differs.
        changes: Arc<Changes>,
    },
    /// They cannot be used; nothing has changed.
    Refused {
        /// The generation that stays in force.
        generation: u64,
        /// What is wrong: each with its file, line and column, a few lines long.
        findings: Arc<[String]>,
    },
    /// The process is ending, and nothing is reloaded any more.
    Ending,
}

/// The same with what came of the files beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// What came of the configuration.
    #[serde(flatten)]
    pub reloaded: Reloaded,
    /// What came of the files of certificates.
    #[serde(flatten)]
    pub beside: Noticed,
}

/// How the configuration in force and the files stand to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadState {
    /// The generation in force: one at the start, one more with each that was
    /// taken over.
    pub generation: u64,
    /// When it came into force.
    pub applied: Timestamp,
    /// When the files were last looked at.
    pub looked: Timestamp,
    /// The last time files were read that differ from those before; `None`
    /// since the start.
    pub attempt: Option<Attempt>,
    /// Settings that differ in the files and wait for a restart.
    pub restart: Vec<&'static str>,
}

/// One reading of files that differed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// When.
    pub at: Timestamp,
    /// Why then.
    pub cause: Cause,
    /// What is wrong with them; empty where they were taken over.
    pub findings: Arc<[String]>,
}

impl ReloadState {
    pub(super) fn started(generation: u64) -> Self {
        Self {
            generation,
            applied: now(),
            looked: now(),
            attempt: None,
            restart: Vec::new(),
        }
    }

    /// What is wrong with the files as they are; empty where nothing is.
    pub fn findings(&self) -> &[String] {
        self.attempt
            .as_ref()
            .map_or(&[], |attempt| &attempt.findings)
    }

    /// Whether the files are in force as far as they can be without a restart.
    pub fn is_ok(&self) -> bool {
        self.findings().is_empty()
    }
}

/// By the wall clock, which is what an administrator compares it with.
pub(super) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::default() + since_epoch.unwrap_or(Duration::ZERO)
}
