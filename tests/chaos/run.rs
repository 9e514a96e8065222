//! The run: everybody works, a fault every few seconds, then all is mended, everybody asks once
//! more, goes home, and what was observed is judged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, interval_at, sleep, sleep_until};

use super::checker::{self, Rules, Violation};
use super::history::{Event, Moment, What};
use super::plan;
use super::world::{Bounds, World, unended};
use crate::support::postgres;

/// Between two lines on what is going on.
const LINE: Duration = Duration::from_secs(30);

/// Violations of one invariant, and complaints, that are told in full.
const TOLD: usize = 5;

/// Until everybody is placed, once all is well.
const PLACED: Duration = Duration::from_secs(45);

/// What a run is asked for.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
    )
}

pub(super) fn seed() -> u64 {
    let drawn = Moment::now().0.unsigned_abs() / 1000 % 1_000_000;
    setting("SESSIONGUARD_SEED").unwrap_or(drawn)
}

pub(super) fn bounds() -> Bounds {
    let users = setting("SESSIONGUARD_CHAOS_USERS").unwrap_or(200);
    let users = u16::try_from(users).unwrap();
    Bounds {
        users,
        // Room for all, and for a third more: two hosts may be away, and sessions left behind.
        max_sessions: usize::from(users) * 4 / 3 / usize::from(plan::HOSTS) + 1,
        lease: Duration::from_secs(30),
        together: 20,
    }
}

impl Bounds {
    pub(super) fn rules(self) -> Rules {
        Rules {
            max_sessions: self.max_sessions,
            lease: self.lease,
        }
    }
}

pub(super) fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
#[ignore = "takes minutes: tests/chaos/run"]
fn no_fault_breaks_an_invariant() {
    let Some(server) = postgres::server_with("-c fsync=off") else {
        return;
    };
    let minutes = setting("SESSIONGUARD_CHAOS_MINUTES").unwrap_or(2);
    let (seed, bounds) = (seed(), bounds());
    let length = Duration::from_secs(60 * minutes);
    println!("seed {seed}: {minutes} minutes, {} users", bounds.users);
    let ran = runtime().block_on(run(server, bounds, seed, length));
    println!("{}", ran.summary());
    // A run in which little happened shows little.
    let faults: usize = ran.faults.values().sum();
    assert!(faults >= 10, "{faults} faults");
    let least = usize::from(bounds.users) * usize::try_from(minutes).unwrap();
    assert!(ran.placed >= least, "{} of {least} placed", ran.placed);
    let story = ran.story(TOLD);
    assert!(story.is_empty(), "seed {seed}:\n{story}");
}

/// What came of a run.
struct Ran {
    seed: u64,
    length: Duration,
    users: u16,
    clicks: u32,
    placed: usize,
    refused: usize,
    let_down: usize,
    faults: BTreeMap<&'static str, usize>,
    /// Lines of the replicas' logs.
    said: BTreeMap<String, u64>,
    codes: BTreeMap<u16, usize>,
    events: Vec<Event>,
    violations: Vec<Violation>,
    /// What else must not be.
    complaints: Vec<String>,
}

async fn run(server: postgres::Server, bounds: Bounds, seed: u64, length: Duration) -> Ran {
    let plan = plan::draw(seed, length);
    let (world, ledger) = World::begin(server, bounds).await;
    let agents = world.agents(seed);
    let people = world.people(bounds, seed);
    let began = Instant::now();
    let telling = tokio::spawn({
        let world = std::sync::Arc::clone(&world);
        async move { tell(&world, began).await }
    });
    let mut faults = BTreeMap::new();
    let mut suffering = Vec::new();
    for step in plan {
        sleep_until(began + step.at).await;
        println!("{step}");
        *faults.entry(step.fault.kind()).or_default() += 1;
        let world = std::sync::Arc::clone(&world);
        suffering.push(tokio::spawn(async move { world.suffer(step.fault).await }));
    }
    sleep_until(began + length).await;
    for fault in suffering {
        fault.await.unwrap();
    }
    println!("faults are over");
    world.all_up(PLACED).await;
    world.mend().await;
    world.go_home();
    for person in people {
        person.await.unwrap();
    }
    let mut complaints = Vec::new();
    let without = world.everybody_asks(bounds.users, PLACED).await;
    if !without.is_empty() {
        complaints.push(format!(
            "though all is well, no desktop for users {without:?} within {PLACED:?}"
        ));
    }
    println!("everybody was placed, leases run out");
    // The last tunnels have just ended; theirs are the last leases.
    sleep(bounds.lease + Duration::from_secs(8)).await;
    telling.abort();
    let (said, panics) = world.said();
    complaints.extend(panics);
    let now = Moment::now();
    world.end();
    for agent in agents {
        agent.await.unwrap();
    }
    let ledger = ledger.await.unwrap();
    complaints.extend(unended(&ledger, now));
    world.end_processes();
    let events = world.history.take();
    let violations = checker::judge(&events, &bounds.rules());
    let counts = &world.counts;
    let mut codes = BTreeMap::new();
    for event in &events {
        if let What::Refused { code, .. } = event.what {
            *codes.entry(code).or_default() += 1;
        }
    }
    let ran = Ran {
        seed,
        length,
        users: bounds.users,
        clicks: counts.clicks.load(Ordering::SeqCst),
        placed: counts.placed.load(Ordering::SeqCst),
        refused: counts.refused.load(Ordering::SeqCst),
        let_down: counts.let_down.load(Ordering::SeqCst),
        faults,
        said,
        codes,
        events,
        violations,
        complaints,
    };
    if !ran.violations.is_empty() || !ran.complaints.is_empty() {
        let folder = ran.keep_history();
        world.keep_logs(&folder);
        println!("history and logs are kept in {}", folder.display());
    }
    ran
}

/// A line every while.
async fn tell(world: &World, began: Instant) {
    let mut tick = interval_at(began + LINE, LINE);
    loop {
        tick.tick().await;
        let counts = &world.counts;
        println!(
            "{:4} s: {} clicks, {} placed, {} refused, {} let down, {} tunnels, {} sessions",
            began.elapsed().as_secs(),
            counts.clicks.load(Ordering::SeqCst),
            counts.placed.load(Ordering::SeqCst),
            counts.refused.load(Ordering::SeqCst),
            counts.let_down.load(Ordering::SeqCst),
            counts.open.load(Ordering::SeqCst),
            world.sessions(),
        );
    }
}

impl Ran {
    fn summary(&self) -> String {
        let mut text = format!(
            "seed {}, {} s, {} users: {} clicks, {} placed, {} refused, {} let down by a replica \
             that was gone; {} events\n",
            self.seed,
            self.length.as_secs(),
            self.users,
            self.clicks,
            self.placed,
            self.refused,
            self.let_down,
            self.events.len()
        );
        let codes = self.codes.iter();
        let codes: Vec<_> = codes
            .map(|(code, count)| format!("{code:#x} {count} times"))
            .collect();
        writeln!(text, "refusals: {}", codes.join(", ")).unwrap();
        let faults = self.faults.iter();
        let faults: Vec<_> = faults
            .map(|(kind, count)| format!("{kind} {count} times"))
            .collect();
        writeln!(text, "faults: {}", faults.join(", ")).unwrap();
        for (message, count) in &self.said {
            writeln!(text, "    {count:6}  {message}").unwrap();
        }
        let mut by_invariant: BTreeMap<_, usize> = BTreeMap::new();
        for violation in &self.violations {
            *by_invariant.entry(violation.invariant).or_default() += 1;
        }
        let placed = self.said.get("Placed").copied().unwrap_or_default();
        let refused = self.said.get("Refused").copied().unwrap_or_default();
        writeln!(
            text,
            "decisions: {placed} placed, {refused} refused; violations: {} {by_invariant:?}",
            self.violations.len()
        )
        .unwrap();
        text
    }

    /// What must not have been, at most so much of one kind; nothing where all is well.
    fn story(&self, most: usize) -> String {
        let mut story = String::new();
        for complaint in self.complaints.iter().take(most) {
            writeln!(story, "{complaint}").unwrap();
        }
        let mut told: BTreeMap<_, usize> = BTreeMap::new();
        for violation in &self.violations {
            let told = told.entry(violation.invariant).or_default();
            *told += 1;
            if *told <= most {
                write!(story, "{violation}").unwrap();
            }
        }
        story
    }

    /// All that was observed, in a file.
    fn keep_history(&self) -> PathBuf {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{}", self.seed));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::new();
        for event in &self.events {
            writeln!(text, "{event}").unwrap();
        }
        std::fs::write(folder.join("history.txt"), text).unwrap();
        std::fs::write(folder.join("story.txt"), self.story(usize::MAX)).unwrap();
        folder
    }
}
