//! The configuration room: files and environment in, one checked [`Config`] out.
//!
//! Reads one TOML file and everything in `conf.d` beside it, TOML or JSON over
//! one model, in name order; settings of a later file replace earlier ones,
//! those of the environment replace them all; listeners, hosts, farms and
//! resources add up. It reports everything that is wrong in one run, each
//! finding with its place and what to do, and refuses unknown keys, values out
//! of range, and objects that could be mistaken for one another. It opens
//! nothing but these files and those that hold secrets, changes nothing, shows no connection parameter's
//! value and no secret, and keeps nothing: a reload is a second load.
//!
//! Called by the command line (`check`, `serve`, `config`), by the reload and by
//! the demo. The way of a file through the room:
//!
//! ```text
//! files -> parse_toml | parse_json -> node tree -> document -> sections, objects -> check -> Config
//! environment ----------------------> node tree ---^
//!                                     every fault on the way -> report -> Finding
//! ```
//!
//! What may be written at all is one list, `keys`; `schema` and `show` are made
//! of it.

mod change;
mod check;
mod current;
mod document;
mod draft;
mod environment;
mod files;
mod finding;
mod form;
mod guacd;
mod keys;
mod mask;
mod names;
mod network;
mod node;
mod objects;
mod overlaps;
mod parameters;
mod parse_json;
mod parse_toml;
mod problem;
mod reader;
mod references;
mod reload;
mod report;
mod schema;
mod secret;
mod secrets;
mod sections;
mod settings;
mod shape;
mod show;
mod small;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod tls;
mod url;
mod value_error;
mod values;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use draft::Gathered;
use files::{Files, Format};
use node::Node;
use report::Report;
use shape::Shape;

pub use change::{Changes, Objects, change};
pub use current::{Current, InForce};
pub use finding::{Faults, Finding, Place, Severity};
pub use guacd::{Advertised, Guacd, GuacdPool};
pub use reload::{
    Apply, Attempt, Beside, Cause, Looked, Noticed, Origin, Reload, ReloadState, Reloaded, Reloader,
};
pub use secret::{Secret, SecretError};
pub use secrets::{Configured, Purpose, Secrets};
pub use settings::{
    AdminSocket, ApiSettings, Attempts, AuditTarget, Config, HealthSettings, HostPort, Limits,
    Listen, LogFormat, LogLevel, LogSettings, Probe, Timeouts,
};
pub use small::{LineColumn, SmallFileError, Time, load_small};
pub use source::Position;
pub use store::{Degraded, PostgresSettings, StoreKind, StoreSettings};
pub use tls::{Fingerprint, GuacdTls, ServerTls};
pub use url::shown_url;

/// A configuration that can be used, and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What will not do what was meant; none of it is a fault.
    pub warnings: Vec<Finding>,
    /// What is left to do elsewhere; nothing is wrong with it. For who checks a
    /// configuration, not for a start or a reload.
    pub advice: Vec<Finding>,
    /// The files it came from, in the order read.
    pub files: Vec<PathBuf>,
    /// Where each setting was made that a file or variable made
    /// (`broker.lease_seconds`); the others have their defaults.
    pub origins: BTreeMap<String, Place>,
}

/// Loads a configuration file, `conf.d` beside it, and what the environment
/// sets: `SESSIONGUARD_BROKER__LEASE_SECONDS` and its like. Hand it
/// [`std::env::vars_os`]; variables of other names are passed over.
///
/// # Errors
///
/// Everything that is wrong with it, warnings included.
pub fn load(
    path: &Path,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, Faults> {
    let mut report = Report::default();
    let files = files::gather(path, &mut report);
    conclude(files, Some(environment), report)
}

/// Loads a configuration from a text, read as JSON where the name ends in
/// `.json`, else as TOML. The name stands for the file in findings; the
/// environment has no say.
///
/// # Errors
///
/// Everything that is wrong with it, warnings included.
pub fn load_text(name: &str, text: &str) -> Result<Loaded, Faults> {
    let mut report = Report::default();
    let mut files = Files::default();
    files.take(PathBuf::from(name), text, &mut report);
    conclude(files, None::<[(OsString, OsString); 0]>, report)
}

/// Loads as [`load`] does and writes down every setting as one TOML document
/// that loads again: what was set and what is so by default. Values of
/// connection parameters are masked. With `origins` each line says where its
/// value came from.
///
/// # Errors
///
/// Everything that is wrong with it, warnings included.
pub fn show(
    path: &Path,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    origins: bool,
) -> Result<String, Faults> {
    let mut report = Report::default();
    let files = files::gather(path, &mut report);
    let (variables, given) = secrets::part(environment);
    let read = Read::all(files, variables, &mut report);
    let settings = show::Settings::of(&read);
    let config = check::conclude(read.gathered, &mut report);
    let secrets = secrets::gather(&config, given, &mut report);
    let shown = settings.print(&report, origins, &secrets);
    report.conclude().map(|_| shown)
}

/// Where the admin socket is according to files that have faults; `None` where
/// they do not say for sure, since one that says so may be among those that
/// cannot be read.
pub fn socket_despite_faults(
    path: &Path,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Option<PathBuf> {
    let mut report = Report::default();
    let files = files::gather(path, &mut report);
    let read = Read::all(files, environment, &mut report);
    let incomplete = read.gathered.incomplete;
    let config = check::conclude(read.gathered, &mut report);
    let said = ["api.socket", "store.path"]
        .iter()
        .any(|setting| report.origin_of(setting).is_some());
    config.admin_socket().filter(|_| said || !incomplete)
}

/// The JSON Schema of a configuration document, for editors and for whoever
/// writes one by program.
pub fn schema() -> String {
    schema::print()
}

/// Without an environment nothing but the files has a say.
fn conclude(
    files: Files,
    environment: Option<impl IntoIterator<Item = (OsString, OsString)>>,
    mut report: Report,
) -> Result<Loaded, Faults> {
    let (variables, given) = environment.map(secrets::part).unzip();
    let variables = variables.unwrap_or_default();
    let read = Read::all(files, variables, &mut report);
    let mut config = check::conclude(read.gathered, &mut report);
    if let Some(given) = given {
        secrets::gather(&config, given, &mut report).settle(&mut config);
    }
    let summary = report.conclude()?;
    Ok(Loaded {
        config,
        warnings: summary.warnings,
        advice: summary.advice,
        files: summary.files,
        origins: summary.origins,
    })
}

/// Everything read, before it is judged as a whole.
struct Read {
    gathered: Gathered,
    /// The files that parse, in the order read.
    files: Vec<(Format, Node)>,
    /// What the environment says, table by table.
    variables: Vec<(Shape, Node)>,
}

impl Read {
    fn all(
        files: Files,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        report: &mut Report,
    ) -> Self {
        let mut gathered = Gathered {
            incomplete: files.incomplete,
            ..Gathered::default()
        };
        let mut parsed = Vec::with_capacity(files.opened.len());
        for file in files.opened {
            let text = report.text(file.source);
            let root = match file.format {
                Format::Toml => parse_toml::parse(text, file.source),
                Format::Json => parse_json::parse(text, file.source),
            };
            match root {
                Ok(root) => {
                    document::read(&root, file.format, report, &mut gathered);
                    parsed.push((file.format, root));
                }
                Err(problems) => {
                    gathered.incomplete = true;
                    report.faults(problems);
                }
            }
        }
        let variables = environment::read(environment, report);
        for (shape, node) in &variables {
            match shape {
                Shape::Listen => sections::only_listener(node, report, &mut gathered),
                _ => document::table(*shape, node, report, &mut gathered),
            }
        }
        Self {
            gathered,
            files: parsed,
            variables,
        }
    }
}
