//! Everything around the story: the hosts, guacd, the folder of the store, and
//! the real broker between them, which can be stopped and started again.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use super::fault::Fault;
use super::guacd::{Arrival, StandIn};
use super::host::Host;
use super::witness::Witness;
use super::{Login, Options};
use crate::app::App;
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
    shut: Host,
    login: Option<Login>,
    folder: Folder,
    running: Option<Running>,
}

/// What the broker dials.
pub(super) enum Guacd {
    /// Ours; what arrives there can be looked at.
    StandIn(StandIn),
    /// A real one; it tells nobody what it was told.
    Real(HostPort),
}

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
        Ok(Self {
            witness: Witness::listen(),
            hosts,
            guacd,
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
        let shutdown = Shutdown::default();
        let app = App::build(&config, shutdown.clone()).await;
        let app = app.map_err(|error| Fault::setup("the broker", error))?;
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

    /// What arrived at guacd next; `None` with a real guacd.
    pub(super) async fn arrival(&mut self) -> Result<Option<Arrival>, Fault> {
        let Guacd::StandIn(guacd) = &mut self.guacd else {
            return Ok(None);
        };
        match timeout(SOON, guacd.arrivals.recv()).await {
            Ok(Some(arrival)) => Ok(Some(arrival)),
            _ => Err(Fault::Missing("`connect` at guacd".to_owned())),
        }
    }

    /// Whether nothing arrived at guacd that was not looked at.
    pub(super) fn nothing_arrived(&mut self) -> bool {
        match &mut self.guacd {
            Guacd::StandIn(guacd) => guacd.arrivals.try_recv().is_err(),
            Guacd::Real(_) => true,
        }
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self.guacd, Guacd::Real(_))
    }

    /// How long a page may take to get its first picture.
    pub(super) fn patience(&self) -> Duration {
        if self.is_real() { LOGON } else { SOON }
    }

    /// User and password for the host: one's own at the stand-in, which logs
    /// nobody on; the account from the command line at a real one, whose
    /// certificate is likely to be its own.
    pub(super) fn credentials(&self, login: &str) -> Vec<(&'static str, String)> {
        let (username, password) = match (&self.login, self.is_real()) {
            (Some(account), true) => (account.username.clone(), account.password.clone()),
            (None, true) => (String::new(), String::new()),
            (_, false) => (login.to_owned(), format!("{login}'s password")),
        };
        let mut credentials = vec![("username", username), ("password", password)];
        if self.is_real() {
            credentials.push(("ignore-cert", "true".to_owned()));
        }
        credentials
    }

    /// The broker's configuration, as an administrator would write it. Every
    /// user of a real host comes with one account there, so it is the Guacamole
    /// login that tells them apart.
    fn configuration(&self, drained: Option<&str>) -> String {
        let guacd = match &self.guacd {
            Guacd::StandIn(guacd) => guacd.address.to_string(),
            Guacd::Real(address) => address.to_string(),
        };
        let order = if self.is_real() {
            "[\"name\"]"
        } else {
            "[\"username\", \"name\"]"
        };
        let mut text = format!(
            "[guacd]\naddress = \"{guacd}\"\n\n\
             [[listen]]\naddress = \"127.0.0.1:0\"\n\n\
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
