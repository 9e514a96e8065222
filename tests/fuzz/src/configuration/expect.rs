//! What may be said of a case.

use std::path::Path;

use sessionguard::config::{Config, Faults, Finding, Loaded, Place, Secrets, Severity};
use sessionguard::placement::{Directory, Host, ParameterValues, Resource};

use super::case::{Case, PIECE};

/// What findings about a file as a whole begin with.
const OF_WHOLE_FILES: &[&str] = &[
    "not UTF-8 text",
    "begins with a byte order mark",
    "the file is empty",
    "the broker key",
    "the admin key",
    "everybody on this machine may read",
];

/// Longest that is said at one place.
const FINDING_MAX: usize = 16 * 1024;

pub(super) struct Told<'a> {
    pub(super) folder: &'a Path,
    pub(super) case: &'a Case,
}

impl Told<'_> {
    pub(super) fn loaded(&self, loaded: &Loaded) {
        for (findings, severity) in [
            (&loaded.warnings, Severity::Warning),
            (&loaded.advice, Severity::Advice),
        ] {
            for finding in findings {
                assert_eq!(finding.severity(), severity);
                self.finding(finding);
            }
        }
        for place in loaded.origins.values() {
            self.place(place, "");
        }
        self.conceals(&format!("{loaded:?}"));
    }

    pub(super) fn refused(&self, faults: &Faults) {
        let findings = faults.findings();
        let is_fault = |finding: &Finding| finding.severity() == Severity::Fault;
        assert!(findings.iter().any(is_fault), "a fault among {findings:?}");
        for finding in findings {
            assert_ne!(finding.severity(), Severity::Advice);
            self.finding(finding);
        }
        self.conceals(&format!("{faults:?}"));
    }

    fn finding(&self, finding: &Finding) {
        let message = finding.message();
        assert!(!message.trim().is_empty());
        self.place(finding.place(), &message);
        if let Some(place) = finding.first_place() {
            self.place(place, "");
        }
        let printed = finding.to_string();
        let tame = |c: char| !c.is_control() || c == '\n';
        assert!(printed.chars().all(tame), "{printed:?}");
        assert!(printed.len() < FINDING_MAX, "{printed}");
        self.conceals(&printed);
    }

    /// It exists.
    fn place(&self, place: &Place, message: &str) {
        let (path, position) = match place {
            Place::File { path, position } => (path, position),
            Place::Variable { name } => {
                assert!(name.starts_with("SESSIONGUARD_"), "{name}");
                return;
            }
        };
        let files = self.case.files.iter();
        let mut files = files.map(|(name, text)| (self.folder.join(name), text));
        let text = files.find(|(name, _)| name == path).map(|(_, text)| text);
        let Some(position) = position else {
            let of_whole = OF_WHOLE_FILES
                .iter()
                .any(|start| message.starts_with(start));
            let of_rest = message.ends_with(" more are not listed");
            assert!(
                of_whole || of_rest || message.is_empty(),
                "no place: {message}"
            );
            return;
        };
        let text = text.unwrap_or_else(|| panic!("{}: {message}", path.display()));
        let text = std::str::from_utf8(text).unwrap();
        let line = text.split('\n').nth(position.line - 1);
        let line = line.unwrap_or_else(|| panic!("{place}: {message}"));
        let columns = line.chars().count() + 1;
        assert!(
            (1..=columns).contains(&position.column),
            "{place}: {message}"
        );
    }

    /// Nothing of a secret is in what is printed.
    pub(super) fn conceals(&self, printed: &str) {
        let is_shown = self.case.is_telling && printed.contains(PIECE);
        assert!(!is_shown, "{printed}");
    }
}

/// The same configuration with every parameter's value masked, without secrets.
pub(super) fn masked(config: &Config) -> Config {
    let mask = |values: &ParameterValues| {
        let names = values.0.keys().cloned();
        ParameterValues(names.map(|name| (name, "***".to_owned())).collect())
    };
    let directory = &config.directory;
    let hosts = directory.hosts().cloned().map(|host| Host {
        parameters: mask(&host.parameters),
        ..host
    });
    let resources = directory.resources().cloned().map(|resource| Resource {
        parameters: mask(&resource.parameters),
        ..resource
    });
    let farms = directory.farms().cloned();
    let masked = Directory::new(directory.rules().clone(), hosts, farms, resources);
    let mut masked = Config {
        directory: masked.into(),
        ..config.clone()
    };
    masked.api.secrets = Secrets::default();
    masked.store.postgres.password = None;
    masked
}
