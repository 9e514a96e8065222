//! Finds and reads the files of a configuration.
//!
//! The main file, then `conf.d` beside it in name order. Hidden names are
//! passed over: editors leave them behind, and Kubernetes keeps the versions of
//! a mounted ConfigMap in `..data` and its like, with the visible names as links
//! into it. Nothing is opened that could block or never end.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::node::SourceId;
use super::problem::Problem;
use super::report::Report;

/// Largest file read; thousands of hosts take a tenth of it.
pub(super) const SIZE_LIMIT: u64 = 8 * 1024 * 1024;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// How the text of a file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    Json,
}

impl Format {
    /// By the end of the name; none for names that are no configuration.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The main file may have any name; it is TOML unless it says it is JSON.
    pub(super) fn of_main(path: &Path) -> Self {
        Self::of(path).unwrap_or(Self::Toml)
    }
}

/// A file that was read and is to be parsed.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) source: SourceId,
    pub(super) format: Format,
}

/// What was read, and whether that is everything there is.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) opened: Vec<Opened>,
    pub(super) incomplete: bool,
}

impl Files {
    fn open(&mut self, path: PathBuf, format: Format, report: &mut Report) {
        let text = read(&path).and_then(check);
        self.add(path, format, text, report);
    }

    /// Takes a text as if it had been read from a file.
    pub(super) fn take(&mut self, path: PathBuf, text: &str, report: &mut Report) {
        let format = Format::of_main(&path);
        let text = check(text.as_bytes().to_vec());
        self.add(path, format, text, report);
    }

    fn add(
        &mut self,
        path: PathBuf,
        format: Format,
        text: Result<String, Problem>,
        report: &mut Report,
    ) {
        match text {
            Ok(text) => {
                let source = report.add_source(path, text);
                self.opened.push(Opened { source, format });
            }
            Err(problem) => {
                self.incomplete = true;
                report.unreadable(path, problem);
            }
        }
    }
}

/// Reads the main file and all of `conf.d` beside it.
pub(super) fn gather(main: &Path, report: &mut Report) -> Files {
    let mut files = Files::default();
    match (Format::of_main(main), read(main).and_then(check)) {
        // Nothing in it may be what is meant where everything is in `conf.d`.
        (Format::Toml, Err(Problem::Empty)) => report.passed_over(main.to_owned(), Problem::Empty),
        (format, text) => files.add(main.to_owned(), format, text, report),
    }
    if files.incomplete {
        // Without the main file `conf.d` is most likely not the one meant.
        return files;
    }
    let directory = main.with_file_name("conf.d");
    let paths = match list(&directory) {
        Ok(paths) => paths,
        Err(error) if error.kind() == ErrorKind::NotFound => return files,
        Err(error) => {
            let problem = match error.kind() {
                ErrorKind::NotADirectory => Problem::NotADirectory,
                kind => unreadable(kind),
            };
            files.incomplete = true;
            report.unreadable(directory, problem);
            return files;
        }
    };
    for path in paths {
        match Format::of(&path) {
            Some(format) => files.open(path, format, report),
            None if looks_like_yaml(&path) => report.passed_over(path, Problem::OtherFormat),
            None => {}
        }
    }
    files
}

/// The visible names in a directory, sorted.
pub(super) fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn looks_like_yaml(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml")
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let because = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Problem::Missing,
        kind => unreadable(kind),
    };
    // Asked before opening: to open a pipe is to wait for its other end.
    let kind = fs::metadata(path).map_err(because)?;
    if kind.is_dir() {
        return Err(Problem::Directory);
    }
    if !kind.is_file() {
        return Err(Problem::NotRegular);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(because)?;
    // One byte more than allowed tells a file that grew since it was asked.
    file.take(SIZE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(because)?;
    Ok(bytes)
}

fn unreadable(kind: ErrorKind) -> Problem {
    Problem::Unreadable {
        reason: kind.to_string(),
    }
}

/// What every text must be before it is worth parsing.
fn check(bytes: Vec<u8>) -> Result<String, Problem> {
    let limit = SIZE_LIMIT;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(Problem::TooLarge { limit });
    }
    let text = String::from_utf8(bytes).map_err(|error| Problem::NotUtf8 {
        offset: error.utf8_error().valid_up_to(),
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        return Err(Problem::ByteOrderMark);
    }
    // A file cut to nothing by a full disk must not pass for "all defaults"
    // without a word.
    if text.trim().is_empty() {
        return Err(Problem::Empty);
    }
    Ok(text)
}
