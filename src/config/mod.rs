//! The configuration room: files in, one checked [`Config`] out.
//!
//! Reads one TOML file and everything in `conf.d` beside it, TOML or JSON over
//! one model, in name order; settings of a later file replace earlier ones,
//! listeners, hosts, farms and resources add up. It reports everything that is
//! wrong in one run, each finding with its place and what to do, and refuses
//! unknown keys, values out of range, and objects that could be mistaken for one
//! another. It holds no secrets, opens nothing but these files, changes nothing,
//! and keeps nothing: a reload is a second load.
//!
//! Called by the command line (`check`, `serve`), by the reload and by the demo.
//! The way of a file through the room:
//!
//! ```text
//! files -> parse_toml | parse_json -> node tree -> document -> sections, objects -> check -> Config
//!                                     every fault on the way -> report -> Finding
//! ```

mod check;
mod document;
mod draft;
mod files;
mod finding;
mod mask;
mod names;
mod network;
mod node;
mod objects;
mod parse_json;
mod parse_toml;
mod problem;
mod reader;
mod report;
mod sections;
mod settings;
mod shape;
mod source;
#[cfg(test)]
mod tests;
mod value_error;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use draft::Gathered;
use files::{Files, Format};
use report::Report;

pub use finding::{Faults, Finding, Place, Severity};
pub use settings::{
    Config, Guacd, HostPort, Listen, LogFormat, LogLevel, LogSettings, Probe, StoreSettings,
    Timeouts,
};
pub use source::Position;

/// A configuration that can be used, and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What will not do what was meant; none of it is a fault.
    pub warnings: Vec<Finding>,
    /// The files it came from, in the order read.
    pub files: Vec<PathBuf>,
    /// Where each setting was made that a file made (`broker.lease_seconds`);
    /// the others have their defaults.
    pub origins: BTreeMap<String, Place>,
}

/// Loads a configuration file and `conf.d` beside it.
///
/// # Errors
///
/// Everything that is wrong with it, warnings included.
pub fn load(path: &Path) -> Result<Loaded, Faults> {
    let mut report = Report::default();
    let files = files::gather(path, &mut report);
    conclude(files, report)
}

/// Loads a configuration from a text, read as JSON where the name ends in
/// `.json`, else as TOML. The name stands for the file in findings.
///
/// # Errors
///
/// Everything that is wrong with it, warnings included.
pub fn load_text(name: &str, text: &str) -> Result<Loaded, Faults> {
    let mut report = Report::default();
    let mut files = Files::default();
    files.take(PathBuf::from(name), text, &mut report);
    conclude(files, report)
}

fn conclude(files: Files, mut report: Report) -> Result<Loaded, Faults> {
    let mut gathered = Gathered {
        incomplete: files.incomplete,
        ..Gathered::default()
    };
    for file in files.opened {
        let text = report.text(file.source);
        let parsed = match file.format {
            Format::Toml => parse_toml::parse(text, file.source),
            Format::Json => parse_json::parse(text, file.source),
        };
        match parsed {
            Ok(root) => document::read(&root, file.format, &mut report, &mut gathered),
            Err(problems) => {
                gathered.incomplete = true;
                report.faults(problems);
            }
        }
    }
    let config = check::conclude(gathered, &mut report);
    let summary = report.conclude()?;
    Ok(Loaded {
        config,
        warnings: summary.warnings,
        files: summary.files,
        origins: summary.origins,
    })
}
