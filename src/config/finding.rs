//! What the administrator reads: a finding, its place, and how it is printed.
//!
//! Built by [`super::report`]; printed by the command line, the log at start
//! and at reload. The first line of each is `file:line:column: severity: text`,
//! which editors and CI systems know how to follow.

use std::fmt;
use std::path::PathBuf;

use super::problem::{Problem, Shown};
use super::source::{Excerpt, Position};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Fault,
    /// It can be used, and part of it will not do what was meant.
    Warning,
    /// Nothing is wrong; this is what is left to do elsewhere.
    Advice,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Advice => "advice",
        })
    }
}

/// Where something was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// The file, as it was named when it was opened.
        path: PathBuf,
        /// Line and column; none where the whole file is meant.
        position: Option<Position>,
    },
    /// In an environment variable.
    Variable {
        /// Its name.
        name: String,
    },
}

impl Place {
    /// Line and column, where there are any.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::File { position, .. } => *position,
            Self::Variable { .. } => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, position } => {
                write!(f, "{}", path.display())?;
                match position {
                    Some(Position { line, column }) => write!(f, ":{line}:{column}"),
                    None => Ok(()),
                }
            }
            Self::Variable { name } => write!(f, "{}", Shown(name)),
        }
    }
}

/// One thing that is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub(super) severity: Severity,
    pub(super) problem: Problem,
    pub(super) place: Place,
    pub(super) excerpt: Option<Excerpt>,
    /// The earlier place that this one collides with.
    pub(super) first: Option<Place>,
}

impl Finding {
    /// How serious it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The other place involved, where two collide.
    pub fn first_place(&self) -> Option<&Place> {
        self.first.as_ref()
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> String {
        self.problem.to_string()
    }

    /// What to do about it, where the message does not say so itself.
    pub fn help(&self) -> Option<String> {
        self.problem.help()
    }
}

/// Several lines without one at the end: the place and what is wrong, the line
/// of the file with the place marked, the other place, what to do.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.severity, self.problem)?;
        if let (Some(excerpt), Some(position)) = (&self.excerpt, self.place.position()) {
            let line = position.line.to_string();
            let (gutter, indent, width) = (line.len(), excerpt.indent, excerpt.width);
            write!(f, "\n  {line} | {}", excerpt.text)?;
            write!(f, "\n  {:gutter$} | {:indent$}{:^<width$}", "", "", "^")?;
        }
        if let Some(first) = &self.first {
            write!(f, "\n  the other: {first}")?;
        }
        match self.help() {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// Why a configuration was refused: every fault, and the warnings beside them,
/// in the order of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    // INVARIANT: at least one is a fault.
    pub(super) findings: Vec<Finding>,
}

impl Faults {
    /// Faults and warnings in the order of the files.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether a secret is among what is wrong: its file is none of those that
    /// make a configuration.
    pub(super) fn concern_secrets(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Fault && finding.problem.is_of_a_secret())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, finding) in self.findings.iter().enumerate() {
            if nth > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
