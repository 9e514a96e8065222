//! Collects what is found, over all files of one load.
//!
//! Everybody in the room who reads holds it and goes on after a fault, so that
//! one run tells all. It also notes which file set which setting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::finding::{Faults, Finding, Place, Severity};
use super::node::{At, Located, SourceId};
use super::problem::Problem;
use super::source::{Origin, Source};

/// Findings kept of each severity; a broken file of megabytes must not become
/// a report of gigabytes.
const KEPT: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Report {
    sources: Vec<Source>,
    faults: Kept,
    warnings: Kept,
    advice: Kept,
    origins: BTreeMap<String, At>,
}

/// Findings of one severity: the first ones, and how many there were.
#[derive(Debug, Default)]
struct Kept {
    first: Vec<Found>,
    count: usize,
}

#[derive(Debug)]
struct Found {
    problem: Problem,
    at: At,
    /// The file as a whole is meant, not a line of it.
    whole_file: bool,
    first: Option<At>,
}

/// What a report comes to.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) warnings: Vec<Finding>,
    pub(super) advice: Vec<Finding>,
    pub(super) files: Vec<PathBuf>,
    pub(super) origins: BTreeMap<String, Place>,
}

impl Report {
    pub(super) fn add_source(&mut self, path: PathBuf, text: String) -> SourceId {
        self.add(Origin::File(path), text)
    }

    /// Takes in an environment variable; the place is the whole of it.
    pub(super) fn add_variable(&mut self, name: String, text: String) -> At {
        let end = text.len();
        let source = self.add(Origin::Variable(name), text);
        At {
            source,
            start: 0,
            end,
        }
    }

    /// Takes in a file whose text is nobody's business.
    pub(super) fn add_file(&mut self, path: PathBuf) -> At {
        self.whole(path)
    }

    fn add(&mut self, origin: Origin, text: String) -> SourceId {
        self.sources.push(Source::new(origin, text));
        SourceId(self.sources.len() - 1)
    }

    /// A path as seen from the folder of the main file, which is read first.
    pub(super) fn beside_main_file(&self, path: impl AsRef<Path>) -> PathBuf {
        let main = match self.sources.first().map(|source| &source.origin) {
            Some(Origin::File(main)) => main.parent(),
            _ => None,
        };
        main.unwrap_or(Path::new("")).join(path)
    }

    pub(super) fn text(&self, source: SourceId) -> &str {
        let source = self.sources.get(source.0);
        source
            .map(|source| source.text.as_str())
            .unwrap_or_default()
    }

    /// Keeps a value out of every excerpt.
    pub(super) fn conceal(&mut self, at: At) {
        if let Some(source) = self.sources.get_mut(at.source.0) {
            source.conceal(at.start..at.end);
        }
    }

    pub(super) fn fault(&mut self, at: At, problem: Problem) {
        self.faults.add(problem, at, false, None);
    }

    pub(super) fn warning(&mut self, at: At, problem: Problem) {
        self.warnings.add(problem, at, false, None);
    }

    pub(super) fn advice(&mut self, at: At, problem: Problem) {
        self.advice.add(problem, at, false, None);
    }

    /// Whether no fault was found so far.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.count == 0
    }

    /// A fault of two places that collide.
    pub(super) fn collision(&mut self, at: At, first: At, problem: Problem) {
        self.faults.add(problem, at, false, Some(first));
    }

    /// A fault of a file that was not even read.
    pub(super) fn unreadable(&mut self, path: PathBuf, problem: Problem) {
        let at = self.whole(path);
        self.faults.add(problem, at, true, None);
    }

    /// A file that is passed over though it looks like configuration.
    pub(super) fn passed_over(&mut self, path: PathBuf, problem: Problem) {
        let at = self.whole(path);
        self.warnings.add(problem, at, true, None);
    }

    pub(super) fn faults(&mut self, problems: Vec<Located<Problem>>) {
        for problem in problems {
            self.fault(problem.at, problem.value);
        }
    }

    /// Notes that a setting was made here; a later file's word replaces it.
    pub(super) fn origin(&mut self, setting: String, at: At) {
        self.origins.insert(setting, at);
    }

    pub(super) fn origin_of(&self, setting: &str) -> Option<At> {
        self.origins.get(setting).copied()
    }

    fn whole(&mut self, path: PathBuf) -> At {
        let source = self.add_source(path, String::new());
        At {
            source,
            start: 0,
            end: 0,
        }
    }

    /// Warnings and advice where there was no fault, else faults and warnings.
    pub(super) fn conclude(mut self) -> Result<Summary, Faults> {
        let refused = !self.is_sound();
        let faults = std::mem::take(&mut self.faults);
        let warnings = std::mem::take(&mut self.warnings);
        let mut found = self.print(faults, Severity::Fault);
        found.extend(self.print(warnings, Severity::Warning));
        let findings = in_order(found);
        if refused {
            return Err(Faults { findings });
        }
        let advice = std::mem::take(&mut self.advice);
        let origins = self.origins.iter();
        Ok(Summary {
            warnings: findings,
            advice: in_order(self.print(advice, Severity::Advice)),
            origins: origins
                .map(|(key, at)| (key.clone(), self.place(*at, false)))
                .collect(),
            files: self.read_files(),
        })
    }

    /// The files that hold something; a file that was not read has no text here.
    fn read_files(&self) -> Vec<PathBuf> {
        let read = self.sources.iter().filter(|source| !source.text.is_empty());
        let files = read.filter_map(|source| match &source.origin {
            Origin::File(path) => Some(path.clone()),
            Origin::Variable(_) => None,
        });
        files.collect()
    }

    fn print(&self, kept: Kept, severity: Severity) -> Vec<(At, Finding)> {
        let unlisted = kept.count - kept.first.len();
        let last = kept.first.last().map(|found| found.at);
        let mut findings: Vec<_> = kept
            .first
            .into_iter()
            .map(|found| (found.at, self.finding(found, severity)))
            .collect();
        if let (true, Some(at)) = (unlisted > 0, last) {
            let more = Found {
                problem: Problem::More { count: unlisted },
                at,
                whole_file: true,
                first: None,
            };
            let end = At {
                source: SourceId(usize::MAX),
                ..at
            };
            findings.push((end, self.finding(more, severity)));
        }
        findings
    }

    fn finding(&self, found: Found, severity: Severity) -> Finding {
        let source = self.sources.get(found.at.source.0);
        // A variable is named, not shown: its value is all there is of it.
        let whole = found.whole_file || source.is_some_and(|source| source.text.is_empty());
        let in_file = source.filter(|source| matches!(source.origin, Origin::File(_)));
        Finding {
            severity,
            problem: found.problem,
            place: self.place(found.at, whole),
            excerpt: in_file
                .filter(|_| !whole)
                .map(|source| source.excerpt(found.at.start, found.at.end)),
            first: found.first.map(|at| self.place(at, false)),
        }
    }

    /// Where a place is, for people.
    pub(super) fn place(&self, at: At, whole_file: bool) -> Place {
        let Some(source) = self.sources.get(at.source.0) else {
            return Place::File {
                path: PathBuf::new(),
                position: None,
            };
        };
        match &source.origin {
            Origin::File(path) => Place::File {
                path: path.clone(),
                position: (!whole_file).then(|| source.position(at.start)),
            },
            Origin::Variable(name) => Place::Variable { name: name.clone() },
        }
    }
}

/// Stable: what follows from the count stays behind what it counts.
fn in_order(mut found: Vec<(At, Finding)>) -> Vec<Finding> {
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, finding)| finding).collect()
}

impl Kept {
    fn add(&mut self, problem: Problem, at: At, whole_file: bool, first: Option<At>) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(Found {
                problem,
                at,
                whole_file,
                first,
            });
        }
    }
}
