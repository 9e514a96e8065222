//! What the API costs the tunnels: heartbeats taken a second while tunnels run,
//! and the time of one small instruction there and back through an open tunnel,
//! without and with a flood of the API, beside the same guacd dialled directly.
//! Alternating rounds of one run, by the real binary.
//!
//! Prints medians of the rounds, and asserts nothing about them: a busy machine
//! is no fault. The flood comes from this machine, too, and takes processor time
//! from both ways; what is left between them is the broker's. With `--test` for
//! a moment only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code,
    unused_imports,
    reason = "a benchmark that cannot be set up has no figure; the cast plays more than this"
)]

mod processor;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use processor::ProcessorClock;
use support::{
    Asker, DEADLINE, Names, ScriptedAgent, ScriptedGuacd, Site, Stage, Told, Visit, Visitor,
    new_key, session,
};

/// How much is done.
struct Extent {
    hosts: u8,
    rounds: usize,
    /// For one way in one round.
    span: Duration,
    heartbeats: Duration,
}

const FULL: Extent = Extent {
    hosts: 100,
    rounds: 7,
    span: Duration::from_secs(2),
    heartbeats: Duration::from_secs(5),
};
const SHORT: Extent = Extent {
    hosts: 10,
    rounds: 1,
    span: Duration::from_millis(200),
    heartbeats: Duration::from_millis(500),
};

/// Tunnels in use while heartbeats are counted, and how often.
const TUNNELS: usize = 10;
const MOVE: Duration = Duration::from_millis(20);
/// Threads that report, and sessions on each host.
const REPORTERS: usize = 4;
const SESSIONS: usize = 20;
/// Connections of each kind in the flood.
const EACH: u8 = 3;

const PING: &[u8] = b"5.mouse,3.100,3.200;";

/// Says again whatever it hears.
fn echoing_guacd() -> ScriptedGuacd {
    let names = Names::rdp("1.6.0");
    ScriptedGuacd::playing(move |peer| {
        peer.shake_hands(&names)?;
        peer.stand();
        let mut stream = peer.wire.stream();
        stream.set_read_timeout(None)?;
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => stream.write_all(&buffer[..count])?,
            }
        }
    })
}

/// A tunnel that stands.
fn tunnel(address: SocketAddr, user: &str) -> Visitor {
    let mut visitor = Visitor::dial(address);
    visitor.click(&Visit::office(user));
    visitor.ready();
    visitor.hear("sync");
    visitor
        .wire
        .stream()
        .set_read_timeout(Some(DEADLINE))
        .unwrap();
    visitor
}

/// One instruction there and back.
fn ping(visitor: &Visitor) -> Duration {
    let mut stream = visitor.wire.stream();
    let mut heard = [0; PING.len()];
    let start = Instant::now();
    stream.write_all(PING).unwrap();
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, PING);
    start.elapsed()
}

/// As often as it goes, one after the other; sorted.
fn pings(visitor: &Visitor, span: Duration) -> Vec<Duration> {
    let until = Instant::now() + span;
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < until {
        times.push(ping(visitor));
    }
    times.sort_unstable();
    times
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    percentile(&all, 50)
}

/// How many answers of each status, and how many ends without one (0).
#[derive(Default)]
struct Answers(Mutex<BTreeMap<u16, u64>>);

impl Answers {
    fn count(&self, told: Option<&Told>) {
        let status = told.map_or(0, |told| told.status);
        *self.0.lock().unwrap().entry(status).or_default() += 1;
    }

    fn print(&self, over: Duration) {
        for (status, count) in &*self.0.lock().unwrap() {
            let each = *count as f64 / over.as_secs_f64();
            match status {
                0 => println!("    {each:>8.0} a second without an answer"),
                status => println!("    {each:>8.0} a second answered {status}"),
            }
        }
    }
}

/// A connection that is dialled again where it ended.
struct Line {
    asker: Asker,
    open: Option<BufReader<TcpStream>>,
}

impl Line {
    fn of(asker: Asker) -> Self {
        Self { asker, open: None }
    }

    fn ask(&mut self, request: &[u8]) -> Option<Told> {
        let asker = &self.asker;
        let line = self.open.get_or_insert_with(|| {
            let stream = asker.connect();
            stream.set_nodelay(true).unwrap();
            BufReader::new(stream)
        });
        let sent = line.get_mut().write_all(request);
        let told = sent.ok().and_then(|()| Told::read(line));
        let stays = |told: &Told| told.header("connection") != Some("close");
        if !told.as_ref().is_some_and(stays) {
            self.open = None;
        }
        told
    }
}

/// The heartbeats of a host, all alike but for their number.
struct Heartbeats {
    host: String,
    line: Line,
    request: (String, String),
    seq: u64,
}

/// Ten digits, to be replaced by ten others.
const SEQ: u64 = 9_999_999_999;

impl Heartbeats {
    fn of(stage: &Stage, nth: u8) -> Self {
        let mut agent = ScriptedAgent::of(&stage.site, &format!("rds{nth}"));
        agent.seq = SEQ - 1;
        let crowd: Vec<_> = (0..SESSIONS)
            .map(|n| session(&format!("user{nth}-{n}"), "Active", 60))
            .collect();
        let body = agent.next(&crowd).to_string();
        let key = new_key(&stage.site, "agent", Some(&agent.host));
        // Each has an address of its own, as hosts have.
        let asker = Asker::of(&stage.broker).with(&key).at(nth);
        let request = asker.request(
            "POST",
            "/api/v1/agents/heartbeat",
            "application/json",
            &body,
        );
        let named = format!("\r\nX-Agent-ID: {}\r\n", agent.host);
        let request = String::from_utf8(request).unwrap();
        let request = request.replacen("\r\n", &named, 1);
        let (before, behind) = request.split_once(&SEQ.to_string()).unwrap();
        Self {
            request: (before.to_owned(), behind.to_owned()),
            host: agent.host,
            line: Line::of(asker),
            seq: 1_000_000_000,
        }
    }

    fn report(&mut self, answers: &Answers) {
        self.seq += 1;
        let (before, behind) = &self.request;
        let told = self
            .line
            .ask(format!("{before}{}{behind}", self.seq).as_bytes());
        answers.count(told.as_ref());
        if let Some(told) = told.filter(|told| told.status == 200) {
            assert_eq!(told.json()["taken"], true, "{}: {told:?}", self.host);
        }
    }
}

/// Heartbeats at full speed while tunnels are in use.
fn heartbeats(stage: &Stage, extent: &Extent, clock: &ProcessorClock) {
    let address = stage.broker.address();
    let tunnels = (0..TUNNELS).map(|nth| tunnel(address, &format!("mover{nth}")));
    let tunnels: Vec<_> = tunnels.collect();
    let mut hosts: Vec<_> = (1..=extent.hosts)
        .map(|nth| Heartbeats::of(stage, nth))
        .collect();
    let answers = Answers::default();
    let until = Instant::now() + extent.heartbeats;
    let (start, before) = (Instant::now(), clock.read());
    let is_on = || Instant::now() < until;
    let mut moves = thread::scope(|scope| {
        let moving = tunnels.into_iter().map(|tunnel| {
            scope.spawn(move || {
                let mut times = Vec::new();
                while is_on() {
                    times.push(ping(&tunnel));
                    thread::sleep(MOVE);
                }
                times
            })
        });
        let moving: Vec<_> = moving.collect();
        let answers = &answers;
        for part in hosts.chunks_mut(usize::from(extent.hosts).div_ceil(REPORTERS)) {
            scope.spawn(move || {
                let count = part.len();
                for at in (0..count).cycle().take_while(|_| is_on()) {
                    part[at].report(answers);
                }
            });
        }
        let moves = moving.into_iter().flat_map(|one| one.join().unwrap());
        moves.collect::<Vec<_>>()
    });
    let over = start.elapsed();
    let spent = clock.read() - before;
    println!(
        "heartbeats of {} hosts with {SESSIONS} sessions each by {REPORTERS} threads, {TUNNELS} tunnels in use:",
        extent.hosts
    );
    answers.print(over);
    moves.sort_unstable();
    println!(
        "    tunnels meanwhile, there and back: median {:.1?}  99% {:.1?}",
        percentile(&moves, 50),
        percentile(&moves, 99)
    );
    let share = spent.as_secs_f64() / over.as_secs_f64();
    println!("    {spent:.2?} of processor in {over:.2?}, {share:.2} of one");
}

/// Valid questions, garbage and bad keys, each from connections of their own.
struct Flood {
    askers: Vec<Asker>,
    stranger: Asker,
}

impl Flood {
    fn of(stage: &Stage) -> Self {
        let stranger = Asker::of(&stage.broker);
        let key = || new_key(&stage.site, "admin-read", None);
        let askers = (0..EACH).map(|nth| stranger.with(&key()).at(150 + nth));
        Self {
            askers: askers.collect(),
            stranger,
        }
    }

    /// At full speed for as long as `during` takes.
    fn beside<T>(&self, answers: &Answers, during: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        let goes_on = || !over.load(Ordering::Relaxed);
        thread::scope(|scope| {
            for (nth, asker) in (0..).zip(&self.askers) {
                scope.spawn(move || {
                    let request = asker.request("GET", "/api/v1/hosts", "application/json", "");
                    let mut line = Line::of(asker.clone());
                    while goes_on() {
                        answers.count(line.ask(&request).as_ref());
                    }
                });
                let bad = self.stranger.with("sg_admin-read_000000000000_guessed");
                let bad = bad.at(160 + nth);
                scope.spawn(move || {
                    let request = bad.request("GET", "/api/v1/hosts", "application/json", "");
                    let mut line = Line::of(bad);
                    while goes_on() {
                        answers.count(line.ask(&request).as_ref());
                    }
                });
                let vandal = self.stranger.at(170 + nth);
                scope.spawn(move || {
                    while goes_on() {
                        // A new connection each time: this one is always ended.
                        let mut line = Line::of(vandal.clone());
                        answers.count(line.ask(b"\x16\x03\x01 \x00\xff no HTTP\r\n\r\n").as_ref());
                    }
                });
            }
            let done = during();
            over.store(true, Ordering::Relaxed);
            done
        })
    }
}

/// What rounds of one way in one weather gave.
#[derive(Default)]
struct Rounds {
    p50: Vec<Duration>,
    p99: Vec<Duration>,
}

impl Rounds {
    fn take(&mut self, visitor: &Visitor, span: Duration) {
        let times = pings(visitor, span);
        self.p50.push(percentile(&times, 50));
        self.p99.push(percentile(&times, 99));
    }
}

fn latency(stage: &Stage, extent: &Extent, clock: &ProcessorClock) {
    let direct = tunnel(stage.guacd.address(), "direct");
    let through = tunnel(stage.broker.address(), "through");
    let flood = Flood::of(stage);
    let answers = Answers::default();
    let mut results: [[Rounds; 2]; 2] = Default::default();
    let mut spent = [Duration::ZERO; 2];
    let mut passed = [Duration::ZERO; 2];
    // The first find everything cold.
    pings(&direct, extent.span / 10);
    pings(&through, extent.span / 10);
    for _ in 0..extent.rounds {
        for (weather, rounds) in results.iter_mut().enumerate() {
            let mut round = || {
                rounds[0].take(&direct, extent.span);
                rounds[1].take(&through, extent.span);
            };
            let (start, before) = (Instant::now(), clock.read());
            match weather {
                0 => round(),
                _ => flood.beside(&answers, round),
            }
            passed[weather] += start.elapsed();
            spent[weather] += clock.read() - before;
        }
    }
    println!(
        "an instruction there and back, medians of {} alternating rounds:",
        extent.rounds
    );
    let mut added = Vec::new();
    for (weather, name) in ["calm", "flooded"].into_iter().enumerate() {
        let [of_guacd, ours] = [0, 1].map(|way: usize| {
            let rounds = &results[weather][way];
            [&rounds.p50, &rounds.p99].map(|all| median(all.clone()))
        });
        let more = [0, 1].map(|at| ours[at].saturating_sub(of_guacd[at]));
        for (way, [median, slow]) in [
            ("guacd directly", of_guacd),
            ("through us", ours),
            ("added", more),
        ] {
            println!("    {name:8} {way:16} median {median:>9.1?}  99% {slow:>9.1?}");
        }
        let share = spent[weather].as_secs_f64() / passed[weather].as_secs_f64();
        println!(
            "    {name:8} {:.2?} of processor in {:.2?}, {share:.2} of one",
            spent[weather], passed[weather]
        );
        added.push((of_guacd, ours, more));
    }
    let ratio = |flooded: Duration, calm: Duration| flooded.as_secs_f64() / calm.as_secs_f64();
    let ((calm_direct, calm, calm_more), (direct, ours, more)) = (added[0], added[1]);
    for (name, flooded, calm) in [
        ("guacd directly", direct, calm_direct),
        ("through us", ours, calm),
        ("added", more, calm_more),
    ] {
        println!(
            "    flooded / calm, {name:16} median {:>5.2}  99% {:>5.2}",
            ratio(flooded[0], calm[0]),
            ratio(flooded[1], calm[1])
        );
    }
    println!("the flood, {EACH} connections each of valid questions, bad keys and garbage:");
    answers.print(passed[1]);
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--test");
    let extent = if is_short { SHORT } else { FULL };
    let stage = Stage::adjusted(echoing_guacd(), usize::from(extent.hosts), |site| {
        site.with(
            "[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n\
             offline_after_seconds = 600\n",
        )
    });
    let clock = ProcessorClock::of(stage.broker.id());
    latency(&stage, &extent, &clock);
    heartbeats(&stage, &extent, &clock);
}
