//! What a crowd of slow handshakes costs everybody else: time from TCP connect to
//! `ready` and to the drawn desktop, without and with ten thousand connections
//! held that do not get on with theirs, beside the same guacd dialled directly;
//! and the broker's memory for each of them, and what it gives back.
//!
//! Two crowds: one stopped within `select`, one half of which stopped behind
//! guacd's `args`, so that each of those holds a connection to guacd as well.
//! Each member of a crowd says one byte more every few seconds. Alternating
//! rounds of one run, by the real binary, with the longest time a handshake may
//! be given, else the crowd would be turned out before it is measured.
//!
//! Prints medians of the rounds, and asserts of them only that descriptors come
//! back: a busy machine is no fault. With `--test` a small crowd and one round.

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

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use processor::ProcessorClock;
use socket2::{Domain, Socket, Type};
use support::{Broker, Names, ScriptedGuacd, Stage, Visit, Visitor, eventually};

/// How much is done.
struct Extent {
    crowd: usize,
    rounds: usize,
    /// Of others, each way in each weather in each round.
    clicks: usize,
}

const FULL: Extent = Extent {
    crowd: 10_000,
    rounds: 5,
    clicks: 150,
};
const SHORT: Extent = Extent {
    crowd: 200,
    rounds: 1,
    clicks: 3,
};

/// Descriptors of this process that are for something else than the crowd.
const OWN: usize = 500;
/// What a crowd's member says, a byte at a time, after what it began with.
const SELECT: &[u8] = b"6.select,3.rdp;";
const BEGUN: usize = 3;
const SETTINGS: &[u8] = b"4.size,4.1024,3.768,2.96;5.audio,8.audio/L8;5.video;5.image,9.image/png;";
/// From one byte of a member to its next.
const PACE: Duration = Duration::from_secs(5);
/// The pace is kept in so many steps.
const STEPS: usize = 50;
/// Members that are let in together.
const BATCH: usize = 100;

/// Everybody gets a desktop.
fn drawing_guacd() -> ScriptedGuacd {
    let names = Names::rdp("1.6.0");
    ScriptedGuacd::playing(move |peer| {
        peer.hear_select()?;
        peer.wire.say(&names.to_instruction())?;
        // The crowd leaves without a word more.
        let stream = peer.wire.stream();
        stream.set_read_timeout(None)?;
        if stream.peek(&mut [0])? == 0 {
            return Ok(());
        }
        peer.hear_connect(&names)?;
        peer.say_ready()?;
        peer.stand();
        let mut stream = peer.wire.stream();
        stream.set_read_timeout(None)?;
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer)? > 0 {}
        stream.shutdown(Shutdown::Both)
    })
}

/// Where the members of a crowd have stopped.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// One in so many is past `select`; none with 0.
    past_select: usize,
}

const SHAPES: [Shape; 2] = [
    Shape {
        name: "within select",
        past_select: 0,
    },
    Shape {
        name: "half behind args",
        past_select: 2,
    },
];

impl Shape {
    /// What a crowd of so many takes of the broker.
    fn descriptors(self, count: usize) -> usize {
        count + count.checked_div(self.past_select).unwrap_or_default()
    }
}

struct Member {
    stream: TcpStream,
    /// What it has yet to say.
    rest: std::slice::Iter<'static, u8>,
}

/// Connections that do not get on.
struct Crowd(Vec<Member>);

impl Crowd {
    fn gather(to: SocketAddr, count: usize, shape: Shape) -> Self {
        let mut members: Vec<Member> = Vec::with_capacity(count);
        while members.len() < count {
            let batch = BATCH.min(count - members.len());
            // Ports of an address are few.
            let from = Ipv4Addr::new(127, 0, 8, (members.len() / 1000 + 1) as u8);
            let first = members.len();
            for nth in first..first + batch {
                let is_past = shape.past_select > 0 && nth % shape.past_select == 0;
                let mut stream = dial(to, from);
                let (said, rest) = match is_past {
                    true => (SELECT, SETTINGS),
                    false => SELECT.split_at(BEGUN),
                };
                stream.write_all(said).unwrap();
                let rest = rest.iter();
                members.push(Member { stream, rest });
            }
            for member in &mut members[first..] {
                if member.rest.len() == SETTINGS.len() {
                    read_args(&mut member.stream);
                }
            }
        }
        for member in &members {
            member.stream.set_nonblocking(true).unwrap();
        }
        Self(members)
    }

    /// One byte each every [`PACE`], until it is over.
    fn creep(&mut self, is_over: &AtomicBool) {
        let share = self.0.len().div_ceil(STEPS);
        let step = PACE / STEPS as u32;
        for part in (0..STEPS).cycle() {
            let start = Instant::now();
            let from = (part * share).min(self.0.len());
            let to = (from + share).min(self.0.len());
            for member in &mut self.0[from..to] {
                // The last byte would end the instruction, and the waiting.
                if member.rest.len() > 1
                    && let Some(byte) = member.rest.next()
                {
                    // Who was turned out is counted later.
                    let _ = member.stream.write(&[*byte]);
                }
            }
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(step.saturating_sub(start.elapsed()));
        }
    }

    /// How many are still there.
    fn held(&self) -> usize {
        let is_held = |member: &&Member| {
            let peeked = member.stream.peek(&mut [0]);
            peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        self.0.iter().filter(is_held).count()
    }
}

fn dial(to: SocketAddr, from: Ipv4Addr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(support::DEADLINE)).unwrap();
    stream
}

fn read_args(stream: &mut TcpStream) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "turned out in place of args");
        if buffer[..count].ends_with(b";") {
            return;
        }
    }
}

/// What clicks of one way in one weather took.
#[derive(Default)]
struct Way {
    ready: Vec<Duration>,
    desktop: Vec<Duration>,
    processor: Duration,
}

impl Way {
    fn click(&mut self, to: SocketAddr, visit: &Visit) {
        let start = Instant::now();
        let mut visitor = Visitor::dial(to);
        visitor.click(visit);
        visitor.ready();
        self.ready.push(start.elapsed());
        visitor.hear("sync");
        self.desktop.push(start.elapsed());
    }

    fn print(&self, name: &str, direct: Option<&Self>) {
        print!("    {name:36}");
        for (what, times) in [("ready", &self.ready), ("desktop", &self.desktop)] {
            let [median, slow] = [50, 99].map(|percent| percentile(times, percent));
            print!(" {what}: median {median:>8.1?} 99% {slow:>8.1?} ");
        }
        if let Some(direct) = direct {
            let ratio = |percent| {
                let ours = percentile(&self.desktop, percent).as_secs_f64();
                ours / percentile(&direct.desktop, percent).as_secs_f64()
            };
            print!(" ratio {:>5.2} 99% {:>5.2}", ratio(50), ratio(99));
        }
        println!();
    }
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

/// Others, by both ways, and the broker's processor time meanwhile.
#[derive(Default)]
struct Weather {
    direct: Way,
    through: Way,
    processor: Duration,
    passed: Duration,
}

impl Weather {
    fn round(&mut self, stage: &Stage, clicks: usize, clock: &ProcessorClock, users: &mut usize) {
        let (start, before) = (Instant::now(), clock.read());
        for _ in 0..clicks {
            *users += 1;
            // Nobody comes twice: each is decided and claimed anew.
            let visit = Visit::office(&format!("user{users}"));
            self.direct.click(stage.guacd.address(), &visit);
            self.through.click(stage.broker.address(), &visit);
        }
        self.processor += clock.read() - before;
        self.passed += start.elapsed();
    }

    fn print(&self, name: &str) {
        println!("  {name}:");
        self.direct.print("guacd directly", None);
        self.through.print("through us", Some(&self.direct));
        let share = self.processor.as_secs_f64() / self.passed.as_secs_f64();
        println!("    the broker on {share:.2} of a processor meanwhile");
    }
}

/// What the broker holds.
#[derive(Clone, Copy, Default)]
struct Holdings {
    /// Resident memory, bytes.
    memory: usize,
    descriptors: usize,
}

impl Holdings {
    fn of(broker: &Broker) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        Self {
            memory: kib.parse::<usize>().unwrap() * 1024,
            descriptors: broker.descriptors(),
        }
    }

    fn mib(self) -> f64 {
        self.memory as f64 / f64::from(1 << 20)
    }
}

/// How many connections this process may hold for a crowd, each with one more
/// behind guacd where it is past `select`.
fn crowd_of(wanted: usize, shape: Shape) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.unwrap().split_whitespace().nth(3).unwrap();
    let room = soft.parse().unwrap_or(usize::MAX).saturating_sub(OWN);
    match shape.past_select {
        0 => wanted.min(room),
        one_in => wanted.min(room / (one_in + 1) * one_in),
    }
}

/// Once the broker holds no more than so many descriptors.
fn let_go(stage: &Stage, descriptors: usize) {
    while stage.guacd.within(Duration::ZERO).is_some() {}
    eventually("descriptors come back", || {
        while stage.guacd.within(Duration::ZERO).is_some() {}
        (stage.broker.descriptors() <= descriptors).then_some(())
    });
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--test");
    let extent = if is_short { SHORT } else { FULL };
    let stage = Stage::adjusted(drawing_guacd(), 4, |site| {
        site.with("[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n")
            .listening("first_byte_timeout = \"10m\"")
            .listening("handshake_timeout = \"1m\"")
    });
    let clock = ProcessorClock::of(stage.broker.id());
    let mut users = 0;
    // The first clicks find everything cold.
    Weather::default().round(&stage, extent.clicks.min(20), &clock, &mut users);
    // Some for probes and for the store may come and go.
    let spare = 16;
    eventually("the first ones have left", || {
        while stage.guacd.within(Duration::ZERO).is_some() {}
        (stage.broker.lines("Tunnel ended").len() >= users).then_some(())
    });
    let at_first = Holdings::of(&stage.broker);
    let mut calm = Weather::default();
    let mut crowded: [Weather; 2] = Default::default();
    println!(
        "at first: {:.1} MiB resident, {} descriptors",
        at_first.mib(),
        at_first.descriptors
    );
    for round in 1..=extent.rounds {
        for (shape, weather) in SHAPES.into_iter().zip(&mut crowded) {
            calm.round(&stage, extent.clicks, &clock, &mut users);
            let_go(&stage, at_first.descriptors + spare);
            let before = Holdings::of(&stage.broker);
            let count = crowd_of(extent.crowd, shape);
            let start = Instant::now();
            let mut crowd = Crowd::gather(stage.broker.address(), count, shape);
            let awaited = before.descriptors + shape.descriptors(count) - spare;
            eventually("the crowd is accepted", || {
                (stage.broker.descriptors() >= awaited).then_some(())
            });
            let gathered = start.elapsed();
            let with = Holdings::of(&stage.broker);
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| crowd.creep(&is_over));
                weather.round(&stage, extent.clicks, &clock, &mut users);
                is_over.store(true, Ordering::Relaxed);
            });
            let held = crowd.held();
            drop(crowd);
            let start = Instant::now();
            let_go(&stage, at_first.descriptors + spare);
            let left = start.elapsed();
            let after = Holdings::of(&stage.broker);
            println!(
                "round {round}, {}: {count} gathered in {gathered:.1?}, {held} held to the end of the round; \
                 {:.1} MiB -> {:.1} MiB, {:.1} KiB each above the start -> {:.1} MiB; \
                 descriptors {} -> {} -> {}, back within {left:.1?}",
                shape.name,
                before.mib(),
                with.mib(),
                with.memory.saturating_sub(at_first.memory) as f64 / 1024.0 / count as f64,
                after.mib(),
                before.descriptors,
                with.descriptors,
                after.descriptors,
            );
        }
    }
    println!(
        "TCP connect to ready and to the desktop, {} alternating rounds of {} clicks:",
        extent.rounds, extent.clicks
    );
    calm.print("without a crowd");
    for (shape, weather) in SHAPES.into_iter().zip(&crowded) {
        let count = crowd_of(extent.crowd, shape);
        weather.print(&format!("{count} held, {}", shape.name));
    }
}
