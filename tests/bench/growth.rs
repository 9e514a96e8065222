//! What the broker takes as what it knows grows, by the real binary: processor
//! while every host of a farm reports each 10 s, and memory with leases that
//! linger, to 1,000 hosts and 1,000,000 leases.
//!
//! Prints what it finds and asserts only that users are placed meanwhile. With
//! `--test` a farm and a store of a moment.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    unused_imports,
    reason = "a benchmark that cannot be set up has no figure; the cast plays more than this"
)]

mod processor;
#[path = "../support/mod.rs"]
mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use processor::ProcessorClock;
use sessionguard::clock::Clock;
use sessionguard::placement::{LeaseKey, LeaseRecord, TunnelId, UserKey};
use sessionguard::placement::{Timestamp, Trust};
use sessionguard::store::{Embedded, Store, Version};
use support::{
    Asker, Names, ScriptedAgent, ScriptedGuacd, ScriptedHost, Site, Stage, Visit, eventually,
    new_key, session,
};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How much there is.
struct Extent {
    hosts: &'static [u16],
    /// Of either weather: hosts that are silent, hosts that report.
    span: Duration,
    leases: &'static [u32],
}

const FULL: Extent = Extent {
    hosts: &[10, 100, 1_000],
    span: Duration::from_secs(30),
    leases: &[0, 10_000, 100_000, 1_000_000],
};
const SHORT: Extent = Extent {
    hosts: &[10],
    span: Duration::from_millis(500),
    leases: &[0, 100],
};

/// As agents report unless told otherwise.
const EACH: Duration = Duration::from_secs(10);
const SESSIONS: usize = 20;
/// Users whose leases linger on one host, where there are so many.
const A_HOST: u32 = 1_000;
/// Claims at a time while a store is filled.
const CLAIMERS: u32 = 256;
/// A working day.
const LINGER: Duration = Duration::from_secs(8 * 3600);

/// Hosts with addresses of their own, all of them attended by one port.
fn addresses(hosts: u16, port: u16) -> Vec<SocketAddr> {
    let addresses = (0..hosts).map(|nth| {
        let [high, low] = nth.to_be_bytes();
        SocketAddr::from((Ipv4Addr::new(127, 2, high, low), port))
    });
    addresses.collect()
}

fn guacd() -> ScriptedGuacd {
    ScriptedGuacd::polite(Names::rdp("1.6.0"))
}

/// The agent of a host, and who asks in its name.
struct Agent {
    agent: ScriptedAgent,
    asker: Asker,
    crowd: Vec<serde_json::Value>,
}

impl Agent {
    fn of(site: &Site, api: &Asker, nth: u16) -> Self {
        let agent = ScriptedAgent::of(site, &format!("rds{}", nth + 1));
        let key = new_key(site, "agent", Some(&agent.host));
        let from = u8::try_from(nth % 200).unwrap();
        let crowd = (0..SESSIONS).map(|n| session(&format!("user{nth}-{n}"), "Active", 60));
        Self {
            agent,
            asker: api.with(&key).at(from),
            crowd: crowd.collect(),
        }
    }

    /// A connection of its own each time, as agents make.
    fn report(&mut self) {
        let body = self.agent.next(&self.crowd).to_string();
        let told = self.asker.report(&self.agent.host, &body);
        assert_eq!(told.json()["taken"], true, "{}: {told:?}", self.agent.host);
    }
}

/// Processor a second while nobody reports, and for one report.
fn heartbeats(hosts: u16, span: Duration) {
    let host = ScriptedHost::at((Ipv4Addr::UNSPECIFIED, 0).into());
    let guacd = guacd();
    let site = Stage::site(guacd.address(), &addresses(hosts, host.address().port()))
        .with("[probe]\ninterval = \"10s\"\n[broker]\noffline_after_seconds = 600\n");
    let broker = site.start();
    let api = Asker::of(&broker);
    let mut agents: Vec<_> = (0..hosts).map(|nth| Agent::of(&site, &api, nth)).collect();
    agents.iter_mut().for_each(Agent::report);

    let clock = ProcessorClock::of(broker.id());
    let before = clock.read_closely();
    thread::sleep(span);
    let silent = clock.read_closely() - before;

    let pause = EACH / u32::from(hosts);
    let (start, before) = (Instant::now(), clock.read_closely());
    let mut reports = 0;
    for agent in (0..agents.len()).cycle() {
        let next = start + pause * reports;
        if next >= start + span {
            break;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
        agents.get_mut(agent).unwrap().report();
        reports += 1;
    }
    let over = start.elapsed();
    let heard = (clock.read_closely() - before).saturating_sub(silent);
    let mut visitor = Visit::office("newcomer").at(&broker);
    visitor.ready();
    println!(
        "{hosts:>5} hosts, {SESSIONS} sessions each: {:.2} % of a processor silent, {:.2} % more while all \
         report each {EACH:?}: {:.0?} a report ({reports})",
        100.0 * silent.as_secs_f64() / span.as_secs_f64(),
        100.0 * heard.as_secs_f64() / over.as_secs_f64(),
        heard / reports.max(1),
    );
}

/// A user whose only tunnel has ended.
fn lingering(user: &UserKey, host: u32, now: Timestamp) -> LeaseRecord {
    let mut record = LeaseRecord::default();
    let (farm, host) = ("office".into(), format!("rds{host}").as_str().into());
    let tunnel: TunnelId = "ended".into();
    assert!(record.claim(&farm, &host, &tunnel, Trust::Plain, now));
    record.stood(&tunnel, user, LINGER, now);
    record.end(&tunnel, LINGER, now);
    record
}

/// Writes so many leases, evenly on these hosts, into a new store.
async fn fill(path: &Path, leases: u32, hosts: u32) {
    let store = Arc::new(Embedded::open(path).unwrap());
    let now = Clock::start().now();
    let mut claimers = JoinSet::new();
    for first in 0..CLAIMERS {
        let store = Arc::clone(&store);
        claimers.spawn(async move {
            for nth in (first..leases).step_by(CLAIMERS as usize) {
                let user = UserKey::new(&format!("user{nth}"), "corp").unwrap();
                let record = lingering(&user, nth % hosts + 1, now);
                let key = LeaseKey::of_user(&user);
                let done = store.replace(&key, Version::ABSENT, record, None).await;
                assert!(done.unwrap().is_done());
            }
        });
    }
    while let Some(ended) = claimers.join_next().await {
        ended.unwrap();
    }
}

/// Resident memory in KiB: now, and at most.
fn memory(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        figure.unwrap()
    };
    (number("VmRSS:"), number("VmHWM:"))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Memory of a broker that starts with so many leases; what none take.
fn leases(leases: u32, rest: Duration, runtime: &Runtime, none: Option<u64>) -> u64 {
    let host = ScriptedHost::at((Ipv4Addr::UNSPECIFIED, 0).into());
    let guacd = guacd();
    let hosts = u16::try_from(leases / A_HOST).unwrap().max(1);
    let site = Stage::site(guacd.address(), &addresses(hosts, host.address().port()))
        .with("[probe]\ninterval = \"10s\"\n[broker]\nmax_sessions = 100000\n");
    runtime.block_on(fill(&site.store(), leases, hosts.into()));
    let file = std::fs::metadata(site.store()).unwrap().len();
    let start = Instant::now();
    let broker = site.start();
    eventually("it is ready", || {
        (broker.health("/readyz").0 == 200).then_some(())
    });
    let ready = start.elapsed();
    let click = |user: &str| {
        let since = Instant::now();
        Visit::office(user).at(&broker).ready();
        since.elapsed()
    };
    let first = click("newcomer");
    let clicks = (0..9).map(|nth| click(&format!("newcomer{nth}"))).collect();
    // Their own host is what they get back.
    if leases > 0 {
        click("corp\\user7");
        let placed = broker.placed("corp\\user7");
        let host = format!("rds{}", 7 % hosts + 1);
        assert_eq!(placed["host"], host.as_str(), "{placed}");
    }
    let clock = ProcessorClock::of(broker.id());
    let before = clock.read_closely();
    thread::sleep(rest);
    let silent = (clock.read_closely() - before).as_secs_f64() / rest.as_secs_f64();
    let (resident, most) = memory(broker.id());
    let more = resident.saturating_sub(none.unwrap_or(resident));
    println!(
        "{leases:>8} leases on {hosts} hosts: resident {:.1} MiB, at most {:.1} MiB, {} B a lease; ready after \
         {ready:.2?}, a click after {first:.1?}, then {:.1?}; {:.2} % of a processor silent; store {:.1} MiB",
        resident as f64 / 1024.0,
        most as f64 / 1024.0,
        more * 1024 / u64::from(leases.max(1)),
        median(clicks),
        100.0 * silent,
        file as f64 / 1024.0 / 1024.0,
    );
    resident
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--test");
    let extent = if is_short { SHORT } else { FULL };
    for hosts in extent.hosts {
        heartbeats(*hosts, extent.span);
    }
    let runtime = Runtime::new().unwrap();
    let mut none = None;
    for count in extent.leases {
        let resident = leases(*count, extent.span / 3, &runtime, none);
        none.get_or_insert(resident);
    }
}
