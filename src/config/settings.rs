//! The checked configuration: what the rest of the program gets to see.
//!
//! Plain values with their defaults. Every [`Config`] was checked as a whole,
//! so nobody downstream asks again whether a port is a port. What placement
//! reads is in the [`Directory`]; the rest is for the rooms that dial, listen,
//! probe, store and log.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::guacd::{Advertised, GuacdPool};
use super::secrets::Secrets;
use super::store::StoreSettings;
use super::tls::ServerTls;
use crate::placement::Directory;

/// Everything configured, of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where Guacamole reaches us.
    // INVARIANT: at least one; no two with one address, port 0 aside.
    pub listen: Vec<Listen>,
    /// The guacd behind us, one or several.
    pub guacd: GuacdPool,
    /// How hosts are probed.
    pub probe: Probe,
    /// Where leases, history and host modes are kept.
    pub store: StoreSettings,
    /// How long the broker itself waits.
    pub timeouts: Timeouts,
    /// How much is served at a time.
    pub limits: Limits,
    /// What is done for a user whose host fails before the desktop stands.
    pub attempts: Attempts,
    /// What is logged.
    pub log: LogSettings,
    /// Where the running broker is asked.
    pub api: ApiSettings,
    /// Where health and metrics are asked for.
    pub health: HealthSettings,
    /// Hosts, farms, resources and rules.
    pub directory: Arc<Directory>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![Listen::default()],
            guacd: GuacdPool::default(),
            probe: Probe::default(),
            store: StoreSettings::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            attempts: Attempts::default(),
            log: LogSettings::default(),
            api: ApiSettings::default(),
            health: HealthSettings::default(),
            directory: Arc::default(),
        }
    }
}

impl Config {
    /// The path of the admin socket; `None` where none is wanted. Unless it is
    /// set it is beside the store, whose directory is writable anyway, and
    /// named after it: stores in one directory have sockets of their own.
    pub fn admin_socket(&self) -> Option<PathBuf> {
        match &self.api.socket {
            AdminSocket::Off => None,
            AdminSocket::At(path) => Some(path.clone()),
            AdminSocket::BesideStore => {
                let mut name = self.store.path.file_stem().unwrap_or_default().to_owned();
                name.push(".sock");
                Some(self.store.path.with_file_name(name))
            }
        }
    }
}

/// One listener for Guacamole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// IP address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Which Guacamole comes in here, where connection ids of several overlap.
    pub source: Option<String>,
    /// A connection that sent nothing for this long is closed without a word.
    pub first_byte_timeout: Duration,
    /// Time from `select` to a complete `connect`.
    pub handshake_timeout: Duration,
    /// The certificate it shows; `None` where it speaks plain text.
    pub tls: Option<ServerTls>,
    /// Where other replicas reach it; `None`: they do not.
    // INVARIANT: of one listener at most, and of none that asks for certificates.
    pub advertise: Option<Advertised>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 4822)),
            source: None,
            first_byte_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(15),
            tls: None,
            advertise: None,
        }
    }
}

/// A host name or IP address with a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Name or IP address, without brackets.
    pub host: String,
    /// Port, never 0.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only an IPv6 address holds a colon, and needs brackets beside a port.
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How hosts are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Time from one probe of a host to the next.
    pub interval: Duration,
    /// A probe unanswered for this long has failed.
    // INVARIANT: at most `interval`.
    pub timeout: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
        }
    }
}

/// How long the broker itself waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// Budget of one placement, counted from the whole `connect` read.
    // INVARIANT: 1 to 14 s; guacd gives up 15 s after its last input.
    pub placement: Duration,
    /// How long a shutdown waits for running tunnels to end by themselves.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            placement: Duration::from_secs(10),
            drain: Duration::from_secs(8 * 3600),
        }
    }
}

/// How much is served at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most tunnels open at a time; `None`: as many as the descriptors allow.
    pub max_tunnels: Option<usize>,
    /// Most connections to guacd that are being opened at a time.
    // INVARIANT: at least one.
    pub max_guacd_dials: usize,
    /// How long a side may leave untaken what waits for it.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tunnels: None,
            max_guacd_dials: 256,
            stall: Duration::from_secs(60),
        }
    }
}

/// What is done for a user whose host fails before the desktop stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    /// Most hosts that guacd is sent to for one connection; 1: no second one.
    pub most: usize,
    /// Until when another host is tried, counted from `select`; a resource may
    /// have its own.
    // INVARIANT: by default within the 15 s that a balancing group waits.
    pub deadline: Duration,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            most: 4,
            deadline: Duration::from_secs(13),
        }
    }
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSettings {
    /// The least serious line that is written.
    pub level: LogLevel,
    /// Lines for people or for programs.
    pub format: LogFormat,
    /// The file lines go to; `None`: standard error.
    pub file: Option<PathBuf>,
    /// Where every decision leaves a line of its own.
    pub audit: AuditTarget,
    /// Where traces of connections are collected; `None`: nowhere.
    pub traces: Option<HostPort>,
    /// Whether users' names are in them.
    pub traces_users: bool,
}

/// Where the audit trail goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditTarget {
    /// Nowhere: the log says who was placed, and decisions are kept anyway.
    #[default]
    Off,
    /// To standard output, where nothing else goes.
    Stdout,
    /// Appended to a file.
    File(PathBuf),
}

/// Where the running broker is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// The Unix socket of the command line.
    pub socket: AdminSocket,
    /// Where it listens for programs: IP address and port; port 0 lets the
    /// system choose. `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// The certificate it shows; `None` where it speaks plain text.
    pub tls: Option<ServerTls>,
    /// Plain text is accepted where others can listen in.
    pub insecure: bool,
    /// The file that holds the broker key.
    pub broker_key_file: Option<PathBuf>,
    /// The file that holds the first admin key.
    pub admin_key_file: Option<PathBuf>,
    /// What these files, or the environment, hold.
    pub secrets: Secrets,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            socket: AdminSocket::default(),
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9822))),
            tls: None,
            insecure: false,
            broker_key_file: None,
            admin_key_file: None,
            secrets: Secrets::default(),
        }
    }
}

/// Where the admin socket is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AdminSocket {
    /// Beside the store's file and named after it, with the ending `.sock`.
    #[default]
    BesideStore,
    /// At this path.
    At(PathBuf),
    /// Nowhere: the running broker cannot be asked.
    Off,
}

/// Where health and metrics are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    /// IP address and port; port 0 lets the system choose. `None`: nowhere.
    pub listen: Option<SocketAddr>,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9823))),
        }
    }
}

/// How serious a log line must be to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something needs attention.
    Warn,
    /// Placements, ends of tunnels, changes.
    #[default]
    Info,
    /// What helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The level as the configuration writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
