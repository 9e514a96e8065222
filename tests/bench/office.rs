//! One farm whose hosts answer RDP and take everybody, for brokers in this process.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use sessionguard::clock::Clock;
use sessionguard::config::{Config, HostPort, InForce, PostgresSettings, Secret};
use sessionguard::fleet::{Checks, Fleet, Prober};
use sessionguard::placement::{
    Carriers, Claims, Directory, Farm, FarmOverrides, Host, Mode, ParameterValues, Request,
    Resource, ResourceKind, Rules,
};
use sessionguard::store::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[allow(dead_code, reason = "the tests of the store use the rest of it")]
#[path = "../support/postgres.rs"]
pub(crate) mod postgres;

/// An X.224 connection confirm that selects TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];

/// A store in a database of the server, on disk before it answers.
pub(crate) async fn database(server: &postgres::Server, database: &str) -> Postgres {
    let settings = PostgresSettings {
        address: HostPort {
            host: "127.0.0.1".to_owned(),
            port: server.port,
        },
        database: database.to_owned(),
        user: postgres::USER.to_owned(),
        password: Some(Secret::password(postgres::PASSWORD).unwrap()),
        query_timeout: Duration::from_secs(14),
        ..PostgresSettings::default()
    };
    let store = Postgres::open(&settings, None, Clock::start()).await;
    store.unwrap()
}

/// Somebody who wants the office's desktop.
pub(crate) fn request(user: &str) -> Request {
    Request {
        carriers: Carriers {
            resource: Some("desktop".into()),
            ..Carriers::default()
        },
        claims: Claims {
            username: user.to_owned(),
            ..Claims::default()
        },
        ..Request::default()
    }
}

/// The picture of these hosts, every one of them probed.
pub(crate) async fn fleet(directory: Arc<Directory>, clock: Clock) -> Arc<Fleet> {
    let fleet = Fleet::new(Arc::clone(&directory));
    let config = InForce::new(Arc::new(Config {
        directory,
        ..Config::default()
    }))
    .current();
    let prober = Prober {
        checks: Checks::new(Arc::clone(&fleet), config.clone(), clock, Arc::default()),
        config,
    };
    tokio::spawn(prober.run());
    fleet.probed().await;
    fleet
}

/// An office of so many hosts, which answer RDP from now on.
pub(crate) async fn directory(hosts: usize) -> Directory {
    let mut ports = Vec::new();
    for _ in 0..hosts {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        ports.push(listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((mut asking, _)) = listener.accept().await {
                let _ = asking.read(&mut [0; 64]).await;
                let _ = asking.write_all(&CONFIRM).await;
            }
        });
    }
    let hosts = ports.into_iter().map(|port| Host {
        id: format!("rds-{port}").into(),
        address: Ipv4Addr::LOCALHOST.to_string(),
        port,
        farm_ids: vec!["office".into()],
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    });
    let farm = Farm {
        id: "office".into(),
        name: "Office".into(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    let resource = Resource {
        id: "desktop".into(),
        name: "Desktop".into(),
        kind: ResourceKind::Desktop,
        farm_id: Some("office".into()),
        enabled: true,
        guacamole_connection_id: None,
        guacamole_connection_name: None,
        source: None,
        hostnames: Vec::new(),
        load_balance_info: None,
        attempt_deadline: None,
        keep_parameters: Default::default(),
        parameters: ParameterValues::default(),
    };
    let rules = Rules {
        max_pending_logons: u32::MAX,
        slow_start: Duration::ZERO,
        ..Rules::default()
    };
    Directory::new(rules, hosts, [farm], [resource])
}
