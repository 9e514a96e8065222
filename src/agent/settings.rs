//! `agent.toml`: what the host's administrator decides.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::http::{Server, ServerError};
use super::trust::{PinError, Trust};
use super::wire::CommandKind;
use crate::config::{LogFormat, LogLevel, LogSettings, SmallFileError, Time, load_small};

/// The shortest and longest time between two heartbeats.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
const POLL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
const DEBOUNCE: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(10));

/// Everything the agent goes by.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The broker's API, in the order tried. Never empty.
    pub servers: Vec<Server>,
    /// Where the key made at enrolment is.
    pub key_file: PathBuf,
    /// This host's id, where the key file does not say it.
    pub agent_id: Option<String>,
    /// Where the agent remembers what outlives it.
    pub state_file: PathBuf,
    /// Between two heartbeats.
    pub interval: Duration,
    /// Between two looks at the sessions.
    pub poll: Duration,
    /// From a change to its report, so that a burst is one report.
    pub debounce: Duration,
    /// The commands this host carries out.
    pub commands: Vec<CommandKind>,
    /// The program and arguments that restart the host. Never empty.
    pub restart_command: Vec<String>,
    /// The program and arguments that show a message, read from standard
    /// input, on a session's display. Never empty.
    pub message_command: Vec<String>,
    /// The file system that figures and health are about.
    pub disk: PathBuf,
    /// Where the users' profiles are.
    pub profile_store: PathBuf,
    /// xrdp's own settings.
    pub xrdp_ini: PathBuf,
    /// Its session manager's settings.
    pub sesman_ini: PathBuf,
    /// Where the kernel shows processes.
    pub proc: PathBuf,
    /// The log.
    pub log: LogSettings,
}

/// Why `agent.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] SmallFileError),
    /// No broker is named.
    #[error("{}: server is empty: name the broker's API, such as \"https://broker:9822\"", path.display())]
    NoServer {
        /// The file.
        path: PathBuf,
    },
    /// A broker is named in a way that cannot be used.
    #[error("{}: server: {error}", path.display())]
    Server {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ServerError,
    },
    /// A broker's certificate is named in a way that cannot be used.
    #[error("{}: pin_sha256: {error}", path.display())]
    Pin {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: PinError,
    },
    /// A time is out of range.
    #[error("{}: {key} is {got:?}: it must be from {least:?} to {most:?}", path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// Which time.
        key: &'static str,
        /// What it is.
        got: Duration,
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// A command line is empty.
    #[error("{}: {key} is empty: name a program and its arguments", path.display())]
    NoProgram {
        /// The file.
        path: PathBuf,
        /// Which command line.
        key: &'static str,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    server: Servers,
    #[serde(default = "key_file")]
    key_file: PathBuf,
    agent_id: Option<String>,
    #[serde(default = "state_file")]
    state_file: PathBuf,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    pin_sha256: Vec<String>,
    #[serde(default)]
    insecure: bool,
    interval: Option<Time>,
    poll: Option<Time>,
    debounce: Option<Time>,
    #[serde(default)]
    commands: Vec<CommandKind>,
    restart_command: Option<Vec<String>>,
    message_command: Option<Vec<String>>,
    disk: Option<PathBuf>,
    profile_store: Option<PathBuf>,
    #[serde(default)]
    xrdp: Xrdp,
    #[serde(default)]
    log: Log,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Servers {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Xrdp {
    xrdp_ini: Option<PathBuf>,
    sesman_ini: Option<PathBuf>,
    proc: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    #[serde(default)]
    level: Level,
    #[serde(default)]
    format: Format,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Text,
    Json,
}

fn key_file() -> PathBuf {
    "/etc/sessionguard/agent.key".into()
}

fn state_file() -> PathBuf {
    "/var/lib/sessionguard-agent/state.json".into()
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

impl Settings {
    /// Reads `agent.toml`.
    ///
    /// # Errors
    /// It cannot be read, or says something that cannot be used.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        let file: File = load_small(path)?;
        let named = match file.server {
            Servers::One(server) => vec![server],
            Servers::Several(servers) => servers,
        };
        if named.is_empty() {
            return Err(SettingsError::NoServer { path: path.into() });
        }
        let trust = Trust::read(file.ca_file, &file.pin_sha256);
        let trust = trust.map_err(|error| SettingsError::Pin {
            path: path.into(),
            error,
        })?;
        let servers = Server::all(&named, &trust, file.insecure);
        let servers = servers.map_err(|error| SettingsError::Server {
            path: path.into(),
            error,
        })?;
        let time = |key, time: Option<Time>, default, (least, most)| {
            let got = time.map_or(default, |time| time.0);
            if (least..=most).contains(&got) {
                return Ok(got);
            }
            Err(SettingsError::Range {
                path: path.into(),
                key,
                got,
                least,
                most,
            })
        };
        let program = |key, line: Option<Vec<String>>, default: &[&str]| {
            let line = line.unwrap_or_else(|| words(default));
            if line.first().is_some_and(|program| !program.is_empty()) {
                return Ok(line);
            }
            Err(SettingsError::NoProgram {
                path: path.into(),
                key,
            })
        };
        let message: &[&str] = &["xmessage", "-center", "-buttons", "OK:0", "-file", "-"];
        Ok(Self {
            servers,
            key_file: file.key_file,
            agent_id: file.agent_id,
            state_file: file.state_file,
            interval: time("interval", file.interval, Duration::from_secs(10), INTERVAL)?,
            poll: time("poll", file.poll, Duration::from_secs(1), POLL)?,
            debounce: time(
                "debounce",
                file.debounce,
                Duration::from_millis(200),
                DEBOUNCE,
            )?,
            commands: file.commands,
            restart_command: program(
                "restart_command",
                file.restart_command,
                &["systemctl", "reboot"],
            )?,
            message_command: program("message_command", file.message_command, message)?,
            disk: file.disk.unwrap_or_else(|| "/".into()),
            profile_store: file.profile_store.unwrap_or_else(|| "/home".into()),
            xrdp_ini: file
                .xrdp
                .xrdp_ini
                .unwrap_or_else(|| "/etc/xrdp/xrdp.ini".into()),
            sesman_ini: file
                .xrdp
                .sesman_ini
                .unwrap_or_else(|| "/etc/xrdp/sesman.ini".into()),
            proc: file.xrdp.proc.unwrap_or_else(|| "/proc".into()),
            log: LogSettings {
                level: match file.log.level {
                    Level::Error => LogLevel::Error,
                    Level::Warn => LogLevel::Warn,
                    Level::Info => LogLevel::Info,
                    Level::Debug => LogLevel::Debug,
                    Level::Trace => LogLevel::Trace,
                },
                format: match file.log.format {
                    Format::Text => LogFormat::Text,
                    Format::Json => LogFormat::Json,
                },
                ..LogSettings::default()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        std::fs::write(&path, text).unwrap();
        Settings::load(&path).unwrap()
    }

    #[test]
    fn the_sample_shows_every_key_with_its_default() {
        let sample = include_str!("../../config/agent.toml");
        let least = load("server = \"http://127.0.0.1:9822\"");
        assert_eq!(format!("{:?}", load(sample)), format!("{least:?}"));
        // Each key that is commented out, written out: the same again, but for what it is to show.
        let open: String = sample
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(key) if key.contains(" = ") => format!("{key}\n"),
                _ => format!("{line}\n"),
            })
            .filter(|line| line != "commands = []\n")
            .collect();
        let keys = open.lines().filter(|line| line.contains(" = ")).count();
        assert_eq!(keys, 20, "every key of File, Xrdp and Log");
        // These two have no default, and are refused where no server is asked by https.
        let (trust, open): (Vec<_>, Vec<_>) = open
            .split_inclusive('\n')
            .partition(|line| line.starts_with("ca_file") || line.starts_with("pin_sha256"));
        assert_eq!(trust.len(), 2);
        let mut written = load(&open.concat());
        assert_eq!(written.commands.len(), 4);
        assert_eq!(written.agent_id.take().as_deref(), Some("rds-a"));
        written.commands.clear();
        assert_eq!(format!("{written:?}"), format!("{least:?}"));
        let pin = trust.iter().find(|line| line.starts_with("pin")).unwrap();
        let secure = load(&format!("server = \"https://broker.example:9822\"\n{pin}"));
        assert!(format!("{secure:?}").contains("AB:12:"), "{secure:?}");
    }
}
