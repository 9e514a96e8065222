//! Collects what is found, over all files of one load.
//!
//! Everybody in the room who reads holds it and goes on after a fault, so that
//! one run tells all. It also notes which file set which setting.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::finding::{Faults, Finding, Place, Severity};
use super::node::{At, Located, SourceId};
use super::problem::Problem;
use super::source::Source;

/// Findings kept of each severity; a broken file of megabytes must not become
/// a report of gigabytes.
const KEPT: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Report {
    sources: Vec<Source>,
    faults: Kept,
    warnings: Kept,
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
    pub(super) files: Vec<PathBuf>,
    pub(super) origins: BTreeMap<String, Place>,
}

impl Report {
    pub(super) fn add_source(&mut self, path: PathBuf, text: String) -> SourceId {
        self.sources.push(Source::new(path, text));
        SourceId(self.sources.len() - 1)
    }

    pub(super) fn text(&self, source: SourceId) -> &str {
        let source = self.sources.get(source.0);
        source
            .map(|source| source.text.as_str())
            .unwrap_or_default()
    }

    pub(super) fn fault(&mut self, at: At, problem: Problem) {
        self.faults.add(problem, at, false, None);
    }

    pub(super) fn warning(&mut self, at: At, problem: Problem) {
        self.warnings.add(problem, at, false, None);
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

    /// All warnings where there was no fault, else everything.
    pub(super) fn conclude(mut self) -> Result<Summary, Faults> {
        let faults = std::mem::take(&mut self.faults);
        let warnings = std::mem::take(&mut self.warnings);
        let refused = faults.count > 0;
        let mut found = self.print(faults, Severity::Fault);
        found.extend(self.print(warnings, Severity::Warning));
        // Stable: what follows from the count stays behind what it counts.
        found.sort_by_key(|(at, _)| *at);
        let findings = found.into_iter().map(|(_, finding)| finding).collect();
        if refused {
            return Err(Faults { findings });
        }
        let origins = self.origins.iter();
        Ok(Summary {
            warnings: findings,
            origins: origins
                .map(|(key, at)| (key.clone(), self.place(*at, false)))
                .collect(),
            files: self.read_files(),
        })
    }

    /// The files that hold something; a file that was not read has no text here.
    fn read_files(&self) -> Vec<PathBuf> {
        let read = self.sources.iter().filter(|source| !source.text.is_empty());
        read.map(|source| source.path.clone()).collect()
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
        Finding {
            severity,
            problem: found.problem,
            place: self.place(found.at, found.whole_file),
            excerpt: source
                .filter(|_| !found.whole_file)
                .map(|source| source.excerpt(found.at.start, found.at.end)),
            first: found.first.map(|at| self.place(at, false)),
        }
    }

    fn place(&self, at: At, whole_file: bool) -> Place {
        match self.sources.get(at.source.0) {
            Some(source) => Place {
                file: source.path.clone(),
                position: (!whole_file).then(|| source.position(at.start)),
            },
            None => Place {
                file: PathBuf::new(),
                position: None,
            },
        }
    }
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
