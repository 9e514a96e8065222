//! What the files of a configuration hold, without keeping it: enough to tell
//! whether anything differs from the last time.
//!
//! Contents count, nothing else. Times and sizes lie (a ConfigMap keeps one
//! time for all its files), and names alone say nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::files::{Format, list, read};
use crate::config::problem::Problem;

/// One look at the main file and all of `conf.d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    files: BTreeMap<PathBuf, Print>,
}

/// One file. Its text is not kept: passwords may be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Print {
    Text {
        length: usize,
        // 64 bits without a secret key: this tells versions of one file apart,
        // it holds out against nobody.
        hash: u64,
        blank: bool,
    },
    Unreadable(Problem),
}

impl Fingerprint {
    /// Looks at everything a load of this main file would read. Blocks.
    pub(super) fn of(main: &Path) -> Self {
        let mut files = BTreeMap::from([(main.to_owned(), Print::of(main))]);
        let directory = more(main);
        match list(&directory) {
            Ok(paths) => {
                let read = paths.into_iter().filter(|path| Format::of(path).is_some());
                files.extend(read.map(|path| {
                    let print = Print::of(&path);
                    (path, print)
                }));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let reason = error.kind().to_string();
                files.insert(directory, Print::Unreadable(Problem::Unreadable { reason }));
            }
        }
        Self { files }
    }

    /// Files that held something here and nothing in `later`: most likely one
    /// is being written at this moment, or the disk is full.
    pub(super) fn emptied<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = &'a Path> {
        self.files.iter().filter_map(|(path, print)| {
            let before = matches!(print, Print::Text { blank: false, .. });
            let now = matches!(later.files.get(path), Some(Print::Text { blank: true, .. }));
            (before && now).then_some(path.as_path())
        })
    }
}

impl Print {
    fn of(path: &Path) -> Self {
        match read(path) {
            Ok(bytes) => {
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                Self::Text {
                    length: bytes.len(),
                    hash: hasher.finish(),
                    blank: bytes.trim_ascii().is_empty(),
                }
            }
            Err(problem) => Self::Unreadable(problem),
        }
    }
}

/// The directories in which something must happen when one of the files, or of
/// those `beside` them, changes: those that list the names, and those in which the files lie that
/// the names are links to. As the system names them now, links resolved. Blocks.
pub(super) fn directories(main: &Path, beside: &[&Path]) -> BTreeSet<PathBuf> {
    let files = list(&more(main)).unwrap_or_default();
    let files = files.iter().map(PathBuf::as_path).chain([main]);
    let files = files.chain(beside.iter().copied());
    let lie_in = files.filter_map(|file| Some(fs::canonicalize(file).ok()?.parent()?.to_owned()));
    let listing = beside.iter().copied().chain([main]).map(folder);
    let listing = listing.chain([more(main)]);
    let listing = listing.filter_map(|path| fs::canonicalize(path).ok());
    lie_in.chain(listing).collect()
}

fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn more(main: &Path) -> PathBuf {
    main.with_file_name("conf.d")
}
