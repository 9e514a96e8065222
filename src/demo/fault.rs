//! Why the demo did not go as it should.

use std::io;

/// What ended the demo early.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Nobody reads the output, or it cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A part of the demo could not be set up.
    #[error("cannot set up {part}: {error}")]
    Setup {
        /// Which part.
        part: &'static str,
        /// What went wrong.
        error: String,
    },
    /// A connection broke where none should.
    #[error("{what} failed: {error}")]
    Broken {
        /// What was being done.
        what: String,
        /// What went wrong.
        error: String,
    },
    /// Something that had to come did not.
    #[error("{0} did not come in time")]
    Missing(String),
    /// What came is not what had to come.
    #[error("{what}: expected {expected}, got {got}")]
    Unexpected {
        /// What was looked at.
        what: String,
        /// What had to be there.
        expected: String,
        /// What was there.
        got: String,
    },
}

impl Fault {
    pub(super) fn setup(part: &'static str, error: impl ToString) -> Self {
        let error = error.to_string();
        Self::Setup { part, error }
    }
}

/// Refuses everything but what had to come.
pub(super) fn same(
    what: &str,
    expected: impl AsRef<str>,
    got: impl AsRef<str>,
) -> Result<(), Fault> {
    let (expected, got) = (expected.as_ref(), got.as_ref());
    that(expected == got, what, expected, got)
}

/// Refuses what does not hold, in words.
pub(super) fn that(holds: bool, what: &str, expected: &str, got: &str) -> Result<(), Fault> {
    if holds {
        return Ok(());
    }
    Err(Fault::Unexpected {
        what: what.to_owned(),
        expected: expected.to_owned(),
        got: got.to_owned(),
    })
}
