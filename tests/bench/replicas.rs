//! A storm of users over 1, 2 and 4 replicas of one PostgreSQL, and over one
//! broker with the embedded store beside them, in turns: places taken a second,
//! how long one took, and who was refused. Every place is claimed on disk and
//! kept until the storm is over.
//!
//! ```text
//! cargo bench --bench replicas [-- --users N] [--rounds N]     10,000 users, 3 rounds
//! ```
//!
//! The replicas are brokers of this one process, so they share its processors.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot be set up has no figure"
)]

#[path = "office.rs"]
mod office;

use std::sync::Arc;
use std::time::Duration;

use sessionguard::broker::{Broker, CatchUp};
use sessionguard::clock::Clock;
use sessionguard::commands::Commands;
use sessionguard::config::Secrets;
use sessionguard::follow::{self, Follower};
use sessionguard::keys::Keyring;
use sessionguard::placement::{Directory, Outcome};
use sessionguard::reports::Intake;
use sessionguard::store::Embedded;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use office::postgres::Server;

const HOSTS: usize = 20;

/// Users who click at the same time.
const AT_ONCE: usize = 256;

/// What a placement may take by default.
const BUDGET: Duration = Duration::from_secs(10);

/// What one storm came to.
struct Storm {
    a_second: f64,
    median: Duration,
    p99: Duration,
    refused: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        let value = arguments.get(at + 1).and_then(|value| value.parse().ok());
        Some(value.unwrap_or_else(|| panic!("{name} wants a number")))
    };
    let is_trial = arguments.iter().any(|argument| argument == "--test");
    let (users, rounds) = if is_trial { (200, 1) } else { (10_000, 3) };
    let users: usize = number("--users").unwrap_or(users);
    let rounds: usize = number("--rounds").unwrap_or(rounds);

    let server = office::postgres::server_with("");
    let mut ways = vec![("embedded", 1)];
    match &server {
        Some(_) => ways.extend([("PostgreSQL", 1), ("PostgreSQL", 2), ("PostgreSQL", 4)]),
        None => println!("PostgreSQL is not installed: the embedded store alone"),
    }
    let mut storms: Vec<Vec<Storm>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((store, replicas), storms) in ways.iter().zip(&mut storms) {
            let server = server.as_ref().filter(|_| *store == "PostgreSQL");
            storms.push(storm(server, *replicas, users));
        }
    }
    println!("{users} users, {AT_ONCE} at once, {HOSTS} hosts; medians of {rounds} rounds");
    println!("store        replicas   places/s   median ms      99% ms   refused (most)");
    for ((store, replicas), storms) in ways.iter().zip(&storms) {
        let of = |figure: fn(&Storm) -> f64| middle(storms.iter().map(figure).collect());
        println!(
            "{store:<12} {replicas:>8} {:>10.0} {:>11.1} {:>11.1} {:>9}",
            of(|storm| storm.a_second),
            of(|storm| storm.median.as_secs_f64() * 1e3),
            of(|storm| storm.p99.as_secs_f64() * 1e3),
            storms.iter().map(|storm| storm.refused).max().unwrap(),
        );
    }
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn storm(server: Option<&Server>, replicas: usize, users: usize) -> Storm {
    let runtime = Runtime::new().unwrap();
    let storm = runtime.block_on(async {
        let directory = Arc::new(office::directory(HOSTS).await);
        let mut folder = None;
        let mut brokers = Vec::new();
        match server {
            None => {
                brokers.push(alone(directory, folder.insert(tempfile::tempdir().unwrap())).await)
            }
            Some(server) => {
                let database = server.database();
                for _ in 0..replicas {
                    brokers.push(replica(Arc::clone(&directory), server, &database).await);
                }
            }
        }
        rage(&brokers, users).await
    });
    // Who was placed need not leave in good order: the next storm has a store of its own.
    runtime.shutdown_background();
    storm
}

/// Everybody is placed, by one replica after the other.
async fn rage(brokers: &[Broker], users: usize) -> Storm {
    let (mut took, mut refused, mut kept) = (Vec::new(), 0, Vec::new());
    let mut clicks = JoinSet::new();
    let (begun, mut next) = (Instant::now(), 0);
    loop {
        while clicks.len() < AT_ONCE && next < users {
            let (broker, user) = (brokers[next % brokers.len()].clone(), format!("user{next}"));
            next += 1;
            clicks.spawn(async move {
                let begun = Instant::now();
                let request = office::request(&user);
                let placed = broker.place(&request, &user.into(), begun + BUDGET).await;
                (begun.elapsed(), placed)
            });
        }
        let Some(click) = clicks.join_next().await else {
            break;
        };
        let (span, placed) = click.unwrap();
        took.push(span);
        match placed {
            Ok(answer) if matches!(answer.decision.outcome, Outcome::Placed(_)) => {
                kept.push(answer.hold.expect("a place"));
            }
            Ok(_) | Err(_) => refused += 1,
        }
    }
    let a_second = kept.len() as f64 / begun.elapsed().as_secs_f64();
    took.sort();
    // Nobody leaves while another storm is measured.
    std::mem::forget(kept);
    Storm {
        a_second,
        median: took[took.len() / 2],
        p99: took[took.len() * 99 / 100],
        refused,
    }
}

async fn alone(directory: Arc<Directory>, folder: &TempDir) -> Broker {
    let clock = Clock::start();
    let fleet = office::fleet(directory, clock).await;
    let store = Embedded::open(&folder.path().join("store.redb")).unwrap();
    let (broker, keeper) = Broker::open(fleet, Arc::new(store), clock).await.unwrap();
    tokio::spawn(keeper.run());
    broker
}

/// A broker beside others, wired as the program does it.
async fn replica(directory: Arc<Directory>, server: &Server, database: &str) -> Broker {
    let clock = Clock::start();
    let fleet = office::fleet(directory, clock).await;
    fleet.shares_as(follow::replica());
    let store = Arc::new(office::database(server, database).await);
    let opened = Broker::open(Arc::clone(&fleet), store.clone(), clock).await;
    let (broker, keeper) = opened.unwrap();
    tokio::spawn(keeper.run());
    let catch_up = CatchUp::default();
    let broker = broker.following(catch_up.clone());
    let commands = Commands::open(store.clone(), clock).await.unwrap();
    commands.share();
    let intake = Intake::open(Arc::clone(&fleet), store.clone(), clock).await;
    let keys = Keyring::open(store.clone(), &Secrets::default(), None, clock).await;
    let follower = Follower {
        store,
        catch_up,
        fleet,
        broker: broker.clone(),
        intake: intake.unwrap().0,
        keys: keys.unwrap().0,
        commands,
        clock,
        rests: std::sync::Arc::default(),
    };
    tokio::spawn(follower.run(CancellationToken::new()));
    broker
}
