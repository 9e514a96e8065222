//! A small TOML file that is no part of a broker's configuration, such as the
//! agent's on another machine, read into a type of its reader's.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::files::SIZE_LIMIT;
use super::values::parse_time;

/// A time written as a number with its unit: `10s`, `500ms`, `5m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Time(pub Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = parse_time(&text).map(Self);
        time.ok_or_else(|| {
            D::Error::custom(format_args!(
                "{text:?} is no time: write a whole number and a unit, such as \"10s\" or \"500ms\""
            ))
        })
    }
}

/// Why a small file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SmallFileError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is far larger than it can have reason to be.
    #[error("{}: larger than {SIZE_LIMIT} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is no TOML, or says something its reader does not know.
    #[error("{}{place}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where in it, as far as that can be said.
        place: LineColumn,
        /// What is wrong.
        message: String,
    },
}

/// `:LINE:COLUMN`, both from 1; nothing where the place is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineColumn(Option<(usize, usize)>);

impl fmt::Display for LineColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

impl LineColumn {
    fn of(text: &str, at: usize) -> Self {
        let Some(before) = text.get(..at) else {
            return Self(None);
        };
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        Self(Some((line, column)))
    }
}

/// Reads one TOML file into a type; keys it does not know are its type's to
/// refuse.
///
/// # Errors
/// It cannot be read, or not into that type; said with line and column.
pub fn load_small<T: DeserializeOwned>(path: &Path) -> Result<T, SmallFileError> {
    let failed = |error| SmallFileError::Read {
        path: path.to_owned(),
        error,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > SIZE_LIMIT {
        return Err(SmallFileError::TooLarge {
            path: path.to_owned(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    toml::from_str(&text).map_err(|error| SmallFileError::Content {
        path: path.to_owned(),
        place: LineColumn::of(&text, error.span().map_or(usize::MAX, |span| span.start)),
        message: error.message().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        interval: Time,
    }

    fn load(text: &str) -> Result<Small, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.toml");
        std::fs::write(&path, text).unwrap();
        load_small(&path).map_err(|error| {
            let text = error.to_string();
            text.rsplit_once('/').unwrap().1.to_owned()
        })
    }

    #[test]
    fn a_small_file_is_read_or_the_place_of_its_fault_named() {
        let small = load("interval = \"10s\"\n").unwrap();
        assert_eq!(small.interval, Time(Duration::from_secs(10)));
        for (text, says) in [
            (
                "# mine\ninterval = \"10\"",
                "small.toml:2:12: \"10\" is no time",
            ),
            (
                "interval = \"10s\"\nintervall = 1",
                "small.toml:2:1: unknown field",
            ),
            ("", "small.toml:1:1: missing field"),
            ("interval = ", "small.toml:1:12: "),
        ] {
            let fault = load(text).unwrap_err();
            assert!(fault.starts_with(says), "{fault:?} for {text:?}");
        }
    }
}
