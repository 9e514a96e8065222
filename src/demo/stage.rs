//! Everything around the story: the hosts, guacd, the folder of the store, and
//! the real broker between them, which can be stopped and started again.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use super::fault::Fault;
use super::guacd::StandIn;
use super::host::Host;
use super::overheard::{Arrival, What};
use super::tap::Tap;
use super::witness::Witness;
use super::{Login, Options};
use crate::app::{App, StartError};
use crate::config::{self, HostPort};
use crate::shutdown::Shutdown;

/// The host of the farm that is shut for work. Nobody is ever sent there.
const SHUT: &str = "cad-1";

/// For what happens inside this process.
const SOON: Duration = Duration::from_secs(5);

/// For a real guacd to log a user on.
const LOGON: Duration = Duration::from_secs(40);

/// For a broker to stop, and for its store to be let go.
const STOPPED: Duration = Duration::from_secs(15);

pub(super) struct Stage {
    pub(super) witness: Witness,
    pub(super) hosts: Vec<Host>,
    pub(super) guacd: Guacd,
    /// Between the broker and guacd; hears what arrives there.
    pub(super) tap: Tap,
    listen: SocketAddr,
    stays: bool,
    shut: Host,
    login: Option<Login>,
    folder: Folder,
    running: Option<Running>,
}

/// What the broker dials.
pub(super) enum Guacd {
    /// Ours.
    StandIn(StandIn),
    /// A real one.
    Real(HostPort),
}

/// Where the scripted Guacamole finds the broker.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

struct Running {
    address: SocketAddr,
    shutdown: Shutdown,
    broker: JoinHandle<()>,
}

impl Stage {
    pub(super) async fn set(options: Options) -> Result<Self, Fault> {
        let hosts = options.hosts;
        let hosts = match hosts.is_empty() {
            true => scripted(3)
                .await
                .map_err(|error| Fault::setup("the hosts", error))?,
            false => real(hosts),
        };
        let shut = Host::scripted(SHUT, 19).await;
        let guacd = match options.guacd {
            Some(address) => Guacd::Real(address),
            None => {
                let started = StandIn::start().await;
                Guacd::StandIn(started.map_err(|error| Fault::setup("the stand-in guacd", error))?)
            }
        };
        let tap = Tap::before(guacd.address()).await;
        Ok(Self {
            witness: Witness::listen(),
            hosts,
            tap: tap.map_err(|error| Fault::setup("the tap before guacd", error))?,
            guacd,
            listen: options.stay.unwrap_or(ANY_PORT),
            stays: options.stay.is_some(),
            shut: shut.map_err(|error| Fault::setup("the hosts", error))?,
            login: options.login,
            folder: Folder::make().map_err(|error| Fault::setup("a folder", error))?,
            running: None,
        })
    }

    /// Starts the broker on the store of the one before it.
    pub(super) async fn start(&mut self, drained: Option<&str>) -> Result<(), Fault> {
        let text = self.configuration(drained);
        let loaded = config::load_text("demo.toml", &text);
        let mut config = loaded
            .map_err(|faults| Fault::setup("the configuration", faults))?
            .config;
        config.store.path = self.folder.0.join("demo.redb");
        // Nobody watches it, and a broker beside it may have the port.
        config.health.listen = None;
        // Nobody is to ask for anything, and the address may be a real broker's.
        config.api.listen = None;
        let shutdown = Shutdown::default();
        let app = App::build(&config, shutdown.clone()).await;
        let app = app.map_err(cannot_start)?;
        let address = app.addresses().into_iter().next();
        self.running = Some(Running {
            address: address.ok_or_else(|| Fault::setup("the broker", "it listens nowhere"))?,
            shutdown,
            broker: tokio::spawn(app.run()),
        });
        Ok(())
    }

    /// Stops the broker as an administrator would who does not wait: open
    /// tunnels are ended.
    pub(super) async fn stop(&mut self) -> Result<(), Fault> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        running.shutdown.stop.cancel();
        running.shutdown.end.cancel();
        let stopped = timeout(STOPPED, running.broker).await;
        match stopped {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Fault::setup("the broker", error)),
            Err(_) => Err(Fault::Missing("the broker's end".to_owned())),
        }
    }

    /// Where Guacamole reaches the broker.
    pub(super) fn broker(&self) -> Result<SocketAddr, Fault> {
        let running = self.running.as_ref();
        running
            .map(|running| running.address)
            .ok_or_else(|| Fault::Missing("a broker".to_owned()))
    }

    pub(super) fn host(&self, id: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.id == id)
    }

    /// What arrived at guacd next.
    pub(super) async fn arrival(&mut self) -> Result<Arrival, Fault> {
        let arrived = async {
            while let Some(overheard) = self.tap.overheard.recv().await {
                if let What::Arrived(arrival) = overheard.what {
                    return Some(arrival);
                }
            }
            None
        };
        let arrival = timeout(SOON, arrived).await.ok().flatten();
        arrival.ok_or_else(|| Fault::Missing("`connect` at guacd".to_owned()))
    }

    /// Whether no `connect` arrived at guacd that was not looked at.
    pub(super) fn nothing_arrived(&mut self) -> bool {
        while let Ok(overheard) = self.tap.overheard.try_recv() {
            match overheard.what {
                What::Arrived(_) => return false,
                What::Told(told) if told.opcode == "connect" => return false,
                _ => {}
            }
        }
        true
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self.guacd, Guacd::Real(_))
    }

    /// How long a page may take to get its first picture.
    pub(super) fn patience(&self) -> Duration {
        if self.is_real() { LOGON } else { SOON }
    }

    /// What somebody logged on to Guacamole as. On real hosts all come with one
    /// account; a domain of their own tells them apart, and is not at odds with
    /// an account that has none.
    pub(super) fn name_of(&self, login: &str) -> String {
        match self.account() {
            Some(account) => format!("{}@{login}", account.username),
            None => login.to_owned(),
        }
    }

    /// What the broker calls them, in lower case.
    pub(super) fn user_of(&self, login: &str) -> String {
        match self.account() {
            Some(account) => format!("{login}\\{}", account.username.to_lowercase()),
            None => login.to_owned(),
        }
    }

    fn account(&self) -> Option<&Login> {
        self.login.as_ref().filter(|_| self.is_real())
    }

    /// User and password for the host: one's own at the stand-in, which logs
    /// nobody on; the account from the command line at a real one, whose
    /// certificate is likely to be its own.
    pub(super) fn credentials(&self, login: &str) -> Vec<(&'static str, String)> {
        let (username, password) = match (self.account(), self.is_real()) {
            (Some(account), _) => (account.username.clone(), account.password.clone()),
            (None, true) => (String::new(), String::new()),
            (None, false) => (login.to_owned(), format!("{login}'s password")),
        };
        let mut credentials = vec![("username", username), ("password", password)];
        if self.is_real() {
            credentials.push(("ignore-cert", "true".to_owned()));
        }
        credentials
    }

    /// The broker's configuration, as an administrator would write it. Every
    /// scripted user of a real host comes with one account there, so it is the
    /// Guacamole login that tells them apart.
    fn configuration(&self, drained: Option<&str>) -> String {
        let (guacd, listen) = (self.tap.address, self.listen);
        let order = if self.is_real() && !self.stays {
            "[\"name\"]"
        } else {
            "[\"username\", \"name\"]"
        };
        let mut text = format!(
            "[guacd]\naddress = \"{guacd}\"\n\n\
             [[listen]]\naddress = \"{listen}\"\n\n\
             [identity]\norder = {order}\n\n{FARMS_AND_RESOURCES}"
        );
        for host in &self.hosts {
            let mode = if drained == Some(host.id.as_str()) {
                "drain"
            } else {
                "online"
            };
            text.push_str(&entry(host, "office", mode));
        }
        text.push_str(&entry(&self.shut, "cad", "maintenance"));
        text
    }
}

/// What the demo's users click on, apart from the hosts. The RemoteApp's alias
/// stands here as an administrator might write it, without its bars.
const FARMS_AND_RESOURCES: &str = r#"
[[farms]]
id = "office"

[[farms]]
id = "cad"

[[resources]]
name = "Office Desktop"
kind = "desktop"
farm_id = "office"
guacamole_connection_name = "Office Desktop"
hostnames = ["office.example.com"]

[[resources]]
name = "Sage"
kind = "remoteapp"
farm_id = "office"
remote_app = "Sage"
remote_app_dir = 'C:\Program Files\Sage'
remote_app_args = "/company 7"

[[resources]]
name = "CAD"
kind = "desktop"
farm_id = "cad"
"#;

fn entry(host: &Host, farm: &str, mode: &str) -> String {
    let (id, HostPort { host, port }) = (&host.id, &host.address);
    format!(
        "\n[[hosts]]\nid = \"{id}\"\naddress = \"{host}\"\nport = {port}\n\
         farm_ids = [\"{farm}\"]\nmode = \"{mode}\"\n"
    )
}

impl Guacd {
    /// Where it is itself, behind the tap.
    pub(super) fn address(&self) -> HostPort {
        match self {
            Self::StandIn(guacd) => HostPort {
                host: guacd.address.ip().to_string(),
                port: guacd.address.port(),
            },
            Self::Real(address) => address.clone(),
        }
    }
}

/// The demo has no configuration file that could be mended.
fn cannot_start(error: StartError) -> Fault {
    match error {
        StartError::Listen { address, error } => {
            let text = format!(
                "cannot listen on {address}: {error}; stop what listens there, or choose another \
                 address with --listen ADDR:PORT"
            );
            Fault::setup("the broker", text)
        }
        other => Fault::setup("the broker", other),
    }
}

async fn scripted(count: u8) -> io::Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for n in 1..=count {
        hosts.push(Host::scripted(&format!("rds-{n}"), 10 + n).await?);
    }
    Ok(hosts)
}

fn real(addresses: Vec<HostPort>) -> Vec<Host> {
    let numbered = addresses.into_iter().zip(1..);
    numbered
        .map(|(address, n)| Host::real(&format!("rds-{n}"), address))
        .collect()
}

/// A folder of our own, gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Self> {
        let name = format!("sessionguard-demo-{}", Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        // A folder for temporary files is cleaned by its owner if not by us.
        let _ = fs::remove_dir_all(path);
    }
}
