//! The secrets that are configured, wherever they are: in a file that a setting
//! names, in a credential of systemd, in a variable.
//!
//! Where one is given in several places the variable goes first, then the
//! credential, then the file; the others are warned of. What is no good as a
//! secret, or is given twice or for two purposes, is a fault.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::files;
use super::finding::Place;
use super::node::At;
use super::problem::Problem;
use super::report::Report;
use super::secret::{Secret, SecretError};
use super::settings::Config;
use super::shape::Shape;

/// Where systemd puts the credentials of a unit.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// What a secret is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Who may ask where a user belongs.
    BrokerKey,
    /// An administrator who may change things, before there are keys of the
    /// command line's making.
    AdminKey,
    /// What the database asks us for.
    DatabasePassword,
}

/// One configured secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// What it is for.
    pub purpose: Purpose,
    /// The secret.
    pub secret: Secret,
    /// Where it was found.
    pub place: Place,
}

/// All configured secrets, at most one for each purpose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secrets(Vec<Configured>);

impl Secrets {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Configured> {
        self.0.iter()
    }

    /// Puts each where it is looked for: the database's password is no key.
    pub(super) fn settle(self, config: &mut Config) {
        let (passwords, keys) = self
            .0
            .into_iter()
            .partition(|found| found.purpose == Purpose::DatabasePassword);
        config.api.secrets = Self(keys);
        let passwords: Vec<Configured> = passwords;
        let password = passwords.into_iter().next();
        config.store.postgres.password = password.map(|found| found.secret);
    }

    /// The one for this.
    pub(super) fn of(&self, purpose: Purpose) -> Option<&Secret> {
        let mut all = self.0.iter();
        let found = all.find(|configured| configured.purpose == purpose);
        found.map(|configured| &configured.secret)
    }

    /// The files they were read from.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter_map(Configured::file)
    }

    /// Whether these files hold them still. Blocks.
    pub(super) fn stand(&self) -> bool {
        self.0.iter().all(|configured| {
            let read = configured.file().map(|path| read(configured.purpose, path));
            read.is_none_or(|read| read.is_ok_and(|held| held.as_ref() == Ok(&configured.secret)))
        })
    }
}

impl Configured {
    fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::File { path, .. } => Some(path),
            Place::Variable { .. } => None,
        }
    }
}

impl FromIterator<Configured> for Secrets {
    fn from_iter<I: IntoIterator<Item = Configured>>(secrets: I) -> Self {
        Self(secrets.into_iter().collect())
    }
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 3] = [Self::BrokerKey, Self::AdminKey, Self::DatabasePassword];

    /// What findings call it.
    fn what(self) -> &'static str {
        match self {
            Self::BrokerKey => "the broker key",
            Self::AdminKey => "the admin key",
            Self::DatabasePassword => "the database password",
        }
    }

    /// The table it belongs to.
    pub(super) fn table(self) -> Shape {
        match self {
            Self::BrokerKey | Self::AdminKey => Shape::Api,
            Self::DatabasePassword => Shape::Store,
        }
    }

    /// The variable that may hold it.
    fn variable(self) -> &'static str {
        match self {
            Self::BrokerKey => "SESSIONGUARD_BROKER_API_KEY",
            Self::AdminKey => "SESSIONGUARD_ADMIN_API_KEY",
            Self::DatabasePassword => "SESSIONGUARD_DATABASE_PASSWORD",
        }
    }

    /// The credential that may hold it, by its name in the unit.
    fn credential(self) -> &'static str {
        match self {
            Self::BrokerKey => "broker-api-key",
            Self::AdminKey => "admin-api-key",
            Self::DatabasePassword => "database-password",
        }
    }

    /// The file that may hold it, and the setting that names it.
    fn file(self, config: &Config) -> Option<(&'static str, &Path)> {
        let Config { api, store, .. } = config;
        let (setting, path) = match self {
            Self::BrokerKey => ("api.broker_key_file", &api.broker_key_file),
            Self::AdminKey => ("api.admin_key_file", &api.admin_key_file),
            Self::DatabasePassword => ("store.password_file", &store.postgres.password_file),
        };
        path.as_deref().map(|path| (setting, path))
    }

    /// A password may have been chosen by somebody whom we cannot tell how.
    fn judge(self, text: &str) -> Result<Secret, SecretError> {
        match self {
            Self::BrokerKey | Self::AdminKey => Secret::chosen(text),
            Self::DatabasePassword => Secret::password(text),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what())
    }
}

/// What the surroundings give.
#[derive(Default)]
pub(super) struct Given {
    variables: Vec<(Purpose, Zeroizing<String>)>,
    /// Variables that hold no text.
    unreadable: Vec<Purpose>,
    credentials: Option<PathBuf>,
}

/// Takes what holds a secret, or leads to one, out of the variables.
pub(super) fn part(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Vec<(OsString, OsString)>, Given) {
    let (mut others, mut given) = (Vec::new(), Given::default());
    for (name, value) in environment {
        let purpose = Purpose::ALL
            .into_iter()
            .find(|purpose| name == purpose.variable());
        match (purpose, value) {
            (Some(purpose), value) => match value.into_string() {
                Ok(text) => given.variables.push((purpose, Zeroizing::new(text))),
                Err(_) => given.unreadable.push(purpose),
            },
            (None, value) if name == CREDENTIALS => given.credentials = Some(value.into()),
            (None, value) => others.push((name, value)),
        }
    }
    (others, given)
}

/// Reads and judges every secret that is given.
pub(super) fn gather(config: &Config, given: Given, report: &mut Report) -> Secrets {
    let mut found: Vec<(At, bool, Configured)> = Vec::new();
    for purpose in Purpose::ALL {
        let mut used: Option<Place> = None;
        for held in holders(purpose, config, &given, report) {
            let Some(secret) = held.read(purpose, report) else {
                // A fault was found: what comes after it is not looked for.
                used.get_or_insert_with(|| held.place.clone());
                continue;
            };
            let what = purpose.what();
            let same = found.iter().find(|(_, _, other)| other.secret == secret);
            match (same, &used) {
                (Some((first, _, other)), _) if other.purpose == purpose => {
                    report.collision(held.at, *first, Problem::SecretTwice { what });
                }
                (Some((first, _, other)), _) => {
                    let other = other.purpose.what();
                    report.collision(held.at, *first, Problem::SecretForTwo { what, other });
                }
                (None, Some(used)) => {
                    let used = used.to_string();
                    report.warning(held.at, Problem::SecretOverruled { what, used });
                }
                (None, None) => {}
            }
            let is_used = used.is_none();
            let place = used.get_or_insert(held.place).clone();
            found.push((
                held.at,
                is_used,
                Configured {
                    purpose,
                    secret,
                    place,
                },
            ));
        }
    }
    let used = found.into_iter().filter(|(_, is_used, _)| *is_used);
    used.map(|(_, _, configured)| configured).collect()
}

/// A place that is said to hold a secret.
struct Held<'a> {
    /// What a finding points at.
    at: At,
    place: Place,
    text: Text<'a>,
}

enum Text<'a> {
    Variable(&'a str),
    Unreadable,
    File(PathBuf),
}

/// All places where a secret may be, the first to be used first.
fn holders<'a>(
    purpose: Purpose,
    config: &Config,
    given: &'a Given,
    report: &mut Report,
) -> Vec<Held<'a>> {
    let mut holders = Vec::new();
    let variables = given.variables.iter().filter(|(of, _)| *of == purpose);
    let texts = variables.map(|(_, text)| Text::Variable(text));
    let unreadable = given.unreadable.iter().filter(|of| **of == purpose);
    for text in texts.chain(unreadable.map(|_| Text::Unreadable)) {
        // The report gets the name alone: what it does not know it cannot show.
        let at = report.add_variable(purpose.variable().to_owned(), String::new());
        holders.push((at, text));
    }
    let credential = given.credentials.as_ref();
    let credential = credential.map(|folder| folder.join(purpose.credential()));
    if let Some(path) = credential.filter(|path| path.exists()) {
        let at = report.add_file(path.clone());
        holders.push((at, Text::File(path)));
    }
    if let Some((setting, path)) = purpose.file(config)
        && let Some(at) = report.origin_of(setting)
    {
        holders.push((at, Text::File(path.to_owned())));
    }
    let placed = holders.into_iter().map(|(at, text)| Held {
        at,
        place: match &text {
            Text::File(path) => Place::File {
                path: path.clone(),
                position: None,
            },
            Text::Variable(_) | Text::Unreadable => report.place(at, true),
        },
        text,
    });
    placed.collect()
}

impl Held<'_> {
    /// The secret, if it is good; else that was reported.
    fn read(&self, purpose: Purpose, report: &mut Report) -> Option<Secret> {
        let what = purpose.what();
        let (judged, path) = match &self.text {
            Text::Variable(text) => (purpose.judge(text), None),
            Text::Unreadable => (Err(SecretError::Character), None),
            Text::File(path) => match read(purpose, path) {
                Ok(judged) => (judged, Some(path)),
                Err(problem) => {
                    let (path, problem) = (path.clone(), Box::new(problem));
                    report.fault(
                        self.at,
                        Problem::SecretFile {
                            what,
                            path,
                            problem,
                        },
                    );
                    return None;
                }
            },
        };
        if let Some(path) = path.filter(|path| is_exposed(path)) {
            let path = path.clone();
            report.warning(self.at, Problem::SecretExposed { what, path });
        }
        let path = path.cloned();
        let refuse = |error| report.fault(self.at, Problem::Secret { what, path, error });
        judged.map_err(refuse).ok()
    }
}

/// What a file holds, judged as a secret.
fn read(purpose: Purpose, path: &Path) -> Result<Result<Secret, SecretError>, Problem> {
    let bytes = Zeroizing::new(files::read(path)?);
    let text = std::str::from_utf8(&bytes);
    Ok(text.map_or(Err(SecretError::Character), |text| purpose.judge(text)))
}

/// Whether everybody on the machine may read it.
fn is_exposed(path: &Path) -> bool {
    const OTHERS_READ: u32 = 0o004;
    fs::metadata(path).is_ok_and(|file| file.permissions().mode() & OTHERS_READ != 0)
}
