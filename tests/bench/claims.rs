//! Claims a second, with so many claimers at a time: in the embedded store
//! alone, in a PostgreSQL of our own where it is installed, and through the
//! broker, where each place taken is given back at once. Every answer means that
//! the change was synced, so the disk below the temporary folder decides.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up has no figure"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use sessionguard::broker::Broker;
use sessionguard::clock::Clock;
use sessionguard::placement::{LeaseKey, LeaseRecord, Outcome, Timestamp, Trust, UserKey};
use sessionguard::store::{Embedded, Store, Version};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const CLAIMERS: [u64; 3] = [1, 16, 256];

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

#[path = "office.rs"]
mod office;

use office::{database, postgres, request};

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
        let request = request(&user);
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
    let clock = Clock::start();
    let fleet = office::fleet(Arc::new(office::directory(10).await), clock).await;
    let (store, folder) = store();
    let (broker, keeper) = Broker::open(fleet, store, clock).await.unwrap();
    tokio::spawn(keeper.run());
    (broker, folder)
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
            let store = Arc::new(runtime.block_on(database(&server, &server.database())));
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
