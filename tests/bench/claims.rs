//! Claims a second, with so many claimers at a time: in the embedded store
//! alone, in a PostgreSQL of our own where it is installed, and through the
//! broker, where each place taken is given back at once. Every answer means that
//! the change was synced, so the disk below the temporary folder decides.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up has no figure"
)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use sessionguard::broker::Broker;
use sessionguard::clock::Clock;
use sessionguard::config::{Config, HostPort, InForce, PostgresSettings, Secret};
use sessionguard::fleet::{Checks, Fleet, Prober};
use sessionguard::placement::{
    Carriers, Claims, Directory, Farm, FarmOverrides, Host, LeaseKey, LeaseRecord, Mode, Outcome,
    ParameterValues, Request, Resource, ResourceKind, Rules, Timestamp, Trust, UserKey,
};
use sessionguard::store::{Embedded, Postgres, Store, Version};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const CLAIMERS: [u64; 3] = [1, 16, 256];

/// An X.224 connection confirm that selects TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];

/// Nobody claims twice.
static USERS: AtomicU64 = AtomicU64::new(0);

fn next_user() -> String {
    format!("user{}", USERS.fetch_add(1, Ordering::Relaxed))
}

fn store() -> (Arc<Embedded>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store.redb")).unwrap();
    (Arc::new(store), folder)
}

/// So many claims, spread over so many claimers at a time.
async fn spread<F>(claims: u64, claimers: u64, claim: impl Fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut all = JoinSet::new();
    for claimer in 0..claimers.min(claims) {
        all.spawn(claim(
            claims / claimers + u64::from(claimer < claims % claimers),
        ));
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

#[allow(dead_code, reason = "the tests of the store use the rest of it")]
#[path = "../support/postgres.rs"]
mod postgres;

/// A store in a database that is on disk before it answers.
async fn database(server: &postgres::Server) -> Arc<Postgres> {
    let settings = PostgresSettings {
        address: HostPort {
            host: "127.0.0.1".to_owned(),
            port: server.port,
        },
        database: server.database(),
        user: postgres::USER.to_owned(),
        password: Some(Secret::password(postgres::PASSWORD).unwrap()),
        query_timeout: Duration::from_secs(14),
        ..PostgresSettings::default()
    };
    let store = Postgres::open(&settings, None, Clock::start()).await;
    Arc::new(store.unwrap())
}

async fn replace(store: Arc<impl Store>, times: u64) {
    for _ in 0..times {
        let user = UserKey::new(&next_user(), "corp").unwrap();
        let mut record = LeaseRecord::default();
        let now = Timestamp::from_millis(1_800_000_000_000);
        assert!(record.claim(
            &"office".into(),
            &"rds".into(),
            &"t".into(),
            Trust::Plain,
            now
        ));
        let key = LeaseKey::of_user(&user);
        let replaced = store.replace(&key, Version::ABSENT, record, None).await;
        assert!(replaced.unwrap().is_done());
    }
}

async fn place(broker: Broker, times: u64) {
    for _ in 0..times {
        let user = next_user();
        let request = Request {
            carriers: Carriers {
                resource: Some("desktop".into()),
                ..Carriers::default()
            },
            claims: Claims {
                username: user.clone(),
                ..Claims::default()
            },
            ..Request::default()
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        let placed = broker
            .place(&request, &user.into(), deadline)
            .await
            .unwrap();
        assert!(matches!(placed.decision.outcome, Outcome::Placed(_)));
    }
}

/// A broker of ten hosts that answered their probe, and what it lives on.
async fn broker() -> (Broker, TempDir) {
    let mut listeners = Vec::new();
    for _ in 0..10 {
        listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
    }
    let ports = listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap().port());
    let directory = Arc::new(directory(ports));
    for listener in listeners {
        tokio::spawn(async move {
            while let Ok((mut asking, _)) = listener.accept().await {
                let _ = asking.read(&mut [0; 64]).await;
                let _ = asking.write_all(&CONFIRM).await;
            }
        });
    }
    let clock = Clock::start();
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
    let (store, folder) = store();
    let (broker, keeper) = Broker::open(fleet, store, clock).await.unwrap();
    tokio::spawn(keeper.run());
    (broker, folder)
}

fn directory(ports: impl Iterator<Item = u16>) -> Directory {
    let hosts = ports.map(|port| Host {
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

fn claims(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("claims in the store, claimers");
    group.sample_size(10).throughput(Throughput::Elements(1));
    for claimers in CLAIMERS {
        let (store, _folder) = store();
        group.bench_function(BenchmarkId::from_parameter(claimers), |bencher| {
            bencher.iter_custom(|claims| {
                let start = Instant::now();
                let claim = |times| replace(Arc::clone(&store), times);
                runtime.block_on(spread(claims, claimers, claim));
                start.elapsed()
            });
        });
    }
    group.finish();
    if let Some(server) = postgres::server_with("") {
        let mut group = criterion.benchmark_group("claims in PostgreSQL, claimers");
        group.sample_size(10).throughput(Throughput::Elements(1));
        for claimers in CLAIMERS {
            let store = runtime.block_on(database(&server));
            group.bench_function(BenchmarkId::from_parameter(claimers), |bencher| {
                bencher.iter_custom(|claims| {
                    let start = Instant::now();
                    let claim = |times| replace(Arc::clone(&store), times);
                    runtime.block_on(spread(claims, claimers, claim));
                    start.elapsed()
                });
            });
        }
        group.finish();
    }
    let mut group = criterion.benchmark_group("places taken and given back, claimers");
    group.sample_size(10).throughput(Throughput::Elements(1));
    for claimers in CLAIMERS {
        let (broker, _folder) = runtime.block_on(broker());
        group.bench_function(BenchmarkId::from_parameter(claimers), |bencher| {
            bencher.iter_custom(|claims| {
                let start = Instant::now();
                let claim = |times| place(broker.clone(), times);
                runtime.block_on(spread(claims, claimers, claim));
                start.elapsed()
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    claims(&mut criterion);
    criterion.final_summary();
}
