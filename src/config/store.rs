//! The settings of the store, and the rules between them.
//!
//! Reads `[store]`. The password is no setting: [`super::secrets`] finds it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::draft::Gathered;
use super::names::{name, secret_file};
use super::network::host_port;
use super::node::{Located, Node};
use super::problem::Problem;
use super::reader::{Reader, put};
use super::report::Report;
use super::secret::Secret;
use super::settings::HostPort;
use super::shape::Shape;
use super::tls::{self, GuacdTls};
use super::values::word;
use super::words::{DEGRADED, STORES};

/// Where leases, history and host modes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Which store it is; the settings of the other one wait.
    pub kind: StoreKind,
    /// Several replicas place the same users.
    // INVARIANT: only with a store that replicas share.
    pub replicated: bool,
    /// The file of the embedded store, with its journal beside it; its directory must be writable.
    pub path: PathBuf,
    /// The database of the other.
    pub postgres: PostgresSettings,
    /// Who is placed while that is away.
    pub degraded: Degraded,
}

/// Who is placed while the database is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Degraded {
    /// Nobody.
    #[default]
    Refuse,
    /// Whoever has a lease that was known last and still runs, on its host.
    ExistingLease,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// A file that one process has to itself.
    #[default]
    Embedded,
    /// A PostgreSQL database that replicas share.
    Postgres,
}

/// How a PostgreSQL database is reached, by itself or through a pooler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Name or IP address, and port. Looked up for every new connection.
    pub address: HostPort,
    /// The database.
    pub database: String,
    /// The role.
    pub user: String,
    /// The file that holds the role's password.
    pub password_file: Option<PathBuf>,
    /// What that file, or the environment, holds; `None` where the database asks
    /// for none.
    pub password: Option<Secret>,
    /// How it proves who it is; `None` where it speaks plain text.
    pub tls: Option<GuacdTls>,
    /// Most connections at a time.
    pub pool_size: usize,
    /// Time for one connection, TLS and login included.
    pub connect_timeout: Duration,
    /// Time for one answer, the wait for a free connection included.
    pub query_timeout: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            kind: StoreKind::Embedded,
            replicated: false,
            path: PathBuf::from("/var/lib/sessionguard/sessionguard.redb"),
            postgres: PostgresSettings::default(),
            degraded: Degraded::default(),
        }
    }
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            address: HostPort {
                host: "127.0.0.1".to_owned(),
                port: 5432,
            },
            database: "sessionguard".to_owned(),
            user: "sessionguard".to_owned(),
            password_file: None,
            password: None,
            tls: None,
            pool_size: 8,
            connect_timeout: Duration::from_secs(2),
            query_timeout: Duration::from_secs(3),
        }
    }
}

pub(super) fn read(node: &Node, report: &mut Report, into: &mut Gathered) {
    let Some(mut table) = Reader::open(Shape::Store, node, report) else {
        return;
    };
    let path = |node: &Node| name(node).map(PathBuf::from);
    let store = &mut into.config.store;
    put(&mut store.kind, table.read("kind", word(STORES)));
    put(&mut store.replicated, table.switch("replicated"));
    put(&mut store.path, table.file("path", path));
    put(&mut store.degraded, table.read("degraded", word(DEGRADED)));
    let postgres = &mut store.postgres;
    put(&mut postgres.address, table.read("address", host_port));
    put(&mut postgres.database, table.read("database", name));
    put(&mut postgres.user, table.read("user", name));
    let password_file = table.file("password_file", secret_file);
    put(
        &mut postgres.password_file,
        password_file.map(Located::some),
    );
    put(&mut postgres.pool_size, table.number("pool_size"));
    put(&mut postgres.connect_timeout, table.time("connect_timeout"));
    put(&mut postgres.query_timeout, table.time("query_timeout"));
    tls::read_peer(&mut table, &mut into.store_tls);
}

/// What must not stand together.
pub(super) fn judge(gathered: &Gathered, report: &mut Report) {
    let store = &gathered.config.store;
    let at = report.origin_of("store.replicated");
    if let (Some(at), true, StoreKind::Embedded) = (at, store.replicated, store.kind) {
        report.fault(at, Problem::ReplicatedAlone);
    }
    let at = report.origin_of("store.kind");
    let (Some(at), StoreKind::Postgres) = (at, store.kind) else {
        return;
    };
    let said = report.origin_of("store.tls").is_some();
    let host = &store.postgres.address.host;
    let near = host == "localhost"
        || host
            .parse()
            .is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
    if !near && !said {
        let address = store.postgres.address.to_string();
        report.fault(at, Problem::PlainDatabase { address });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, load_text};

    fn load(text: &str) -> Result<Config, String> {
        let loaded = load_text("main.toml", text);
        loaded
            .map(|loaded| loaded.config)
            .map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_store_of_ones_own_is_refused_to_replicas() {
        let said = load("[store]\nreplicated = true\n").unwrap_err();
        assert!(said.contains("kind = \"postgres\""), "{said}");
        let config = load("[store]\nreplicated = true\nkind = \"postgres\"\n").unwrap();
        assert_eq!(config.store.kind, StoreKind::Postgres);
        assert!(config.store.replicated);
    }

    #[test]
    fn plain_text_to_another_machine_is_said_in_so_many_words() {
        let far = "[store]\nkind = \"postgres\"\naddress = \"db.example.com:5432\"\n";
        let said = load(far).unwrap_err();
        assert!(
            said.contains("db.example.com:5432") && said.contains("tls = false"),
            "{said}"
        );
        let plain = load(&format!("{far}tls = false\n")).unwrap();
        assert_eq!(plain.store.postgres.tls, None);
        let tls = load(&format!("{far}tls = true\nca_file = \"ca.pem\"\n")).unwrap();
        let tls = tls.store.postgres.tls.unwrap();
        assert_eq!(tls.server_name, "db.example.com");
        let said = load(&format!("{far}tls = true\n")).unwrap_err();
        assert!(
            said.contains("[store]") && said.contains("ca_file"),
            "{said}"
        );
    }
}
