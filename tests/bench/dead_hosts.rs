//! What a dead host costs a click: from Guacamole's TCP connect to the drawn
//! desktop, with none, one and all but one of eight hosts dead, in each of the
//! ways in which hosts die; beside the same guacd dialled directly in the same
//! run, and sent to a host that is there and to one that refuses.
//!
//! - Noticed: the probe has found the hosts dead. Many clicks one after the
//!   other, in alternating rounds.
//! - Unnoticed: the click would land on a host that died right before it. Each
//!   click has a broker of its own, which has served users before and probes
//!   too rarely to find out. Where the last look at the host is older than a
//!   second the broker asks before it sends guacd there; where it is younger
//!   guacd is sent, and finds out itself.
//!
//! A guacd sent to a silent host directly says nothing for over a minute (as
//! measured with real ones), so that is not waited for here.
//!
//! Prints figures, and asserts of them only that desktops appear where a host is
//! left: a busy machine is no fault. With `--test` a click each.

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

mod mortal;
mod patient;
mod processor;
#[path = "../support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use guac_protocol::Instruction;
use mortal::{Death, MortalHost};
use processor::ProcessorClock;
use support::{Broker, ScriptedGuacd, Site, Stage, Visit, Visitor};

const HOSTS: usize = 8;
const DEATHS: [Death; 3] = [Death::Refused, Death::BlackHole, Death::Silent];
/// After this long nothing that was found about a host counts any more.
const STALE: Duration = Duration::from_millis(1200);

/// How much is done.
struct Extent {
    /// Of each way, hosts dead already.
    rounds: usize,
    /// In each of those.
    clicks: usize,
    /// Of each way, hosts that die right before the click: a broker and a click.
    deaths: usize,
}

const FULL: Extent = Extent {
    rounds: 10,
    clicks: 30,
    deaths: 7,
};
const SHORT: Extent = Extent {
    rounds: 1,
    clicks: 1,
    deaths: 1,
};

/// The hosts, and the broker that knows them.
struct Scene {
    hosts: Vec<MortalHost>,
    /// Keeps the broker's files.
    _site: Site,
    broker: Broker,
    clock: ProcessorClock,
    /// Clicks so far.
    clicks: usize,
}

/// What a click led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Desktop,
    /// guacd's code, or ours.
    Error(u16),
}

/// Clicks of one way.
#[derive(Default)]
struct Figures {
    times: Vec<Duration>,
    attempts: Vec<u64>,
    processor: Duration,
    errors: usize,
}

impl Figures {
    fn print(&self, name: &str, direct: Option<&Self>) {
        let Some(median) = self.percentile(50) else {
            println!("{name:52} no click of the kind");
            return;
        };
        let (slow, worst) = (self.percentile(99), self.percentile(100));
        let spread = match self.times.len() {
            100.. => format!("99% {:>9.1?}", slow.unwrap_or_default()),
            _ => format!("most {:>8.1?}", worst.unwrap_or_default()),
        };
        let clicks = self.times.len();
        print!("{name:52} median {median:>9.1?}  {spread}  clicks {clicks:>3}");
        if let Some(direct) = direct.and_then(|direct| direct.percentile(50)) {
            let ratio = median.as_secs_f64() / direct.as_secs_f64();
            let added = median.saturating_sub(direct);
            print!("  ratio {ratio:>7.2}  added {added:>9.1?}");
            let each = self.processor / u32::try_from(clicks).unwrap();
            print!("  processor {each:>7.1?} a click");
            let most = self.attempts.iter().max().unwrap();
            let all: u64 = self.attempts.iter().sum();
            let mean = all as f64 / clicks as f64;
            print!("  hosts tried {mean:.1}, {most} at most");
        }
        match self.errors {
            0 => println!(),
            errors => println!("  ERROR PAGES {errors}"),
        }
    }

    fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        Some(times[last * percent / 100])
    }

    fn add(&mut self, (time, came): (Duration, Came)) {
        self.times.push(time);
        self.errors += usize::from(came != Came::Desktop);
    }
}

/// Until the page would show a desktop, or an error.
fn click(address: SocketAddr, visit: &Visit) -> (Duration, Came, Visitor) {
    let start = Instant::now();
    let mut visitor = Visitor::dial(address);
    visitor.click(visit);
    visitor.ready();
    loop {
        let heard = visitor.wire.instruction().unwrap().expect("no bare end");
        let came = match heard.opcode() {
            "sync" => Came::Desktop,
            "error" => Came::Error(heard.args()[1].parse().unwrap()),
            _ => continue,
        };
        return (start.elapsed(), came, visitor);
    }
}

/// guacd itself, sent to this host.
fn click_directly(guacd: &ScriptedGuacd, host: &MortalHost) -> (Duration, Came) {
    let to = host.address();
    let visit = Visit::rdp("direct")
        .answer("hostname", &to.ip().to_string())
        .answer("port", &to.port().to_string());
    let (time, came, _visitor) = click(guacd.address(), &visit);
    (time, came)
}

/// Connections that are over.
fn forget(guacd: &ScriptedGuacd) {
    while guacd.within(Duration::ZERO).is_some() {}
}

impl Scene {
    /// Hosts and a broker that has found them answering, or these dead.
    fn new(guacd: &ScriptedGuacd, dead: &[(usize, Death)], settings: &str) -> Self {
        let mut hosts: Vec<_> = (0..HOSTS).map(|_| MortalHost::new()).collect();
        for (index, how) in dead {
            hosts[*index].die(*how);
        }
        let addresses: Vec<_> = hosts.iter().map(MortalHost::address).collect();
        let site = Stage::site(guacd.address(), &addresses)
            .with("[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n")
            .with(settings);
        let broker = site.start();
        broker.wait_for_lines("Host answers RDP", HOSTS - dead.len());
        let clock = ProcessorClock::of(broker.id());
        Self {
            hosts,
            _site: site,
            broker,
            clock,
            clicks: 0,
        }
    }

    /// A click of somebody new, to its end.
    fn click(&mut self, guacd: &ScriptedGuacd, figures: &mut Figures) -> Came {
        let user = format!("user{}", self.clicks);
        self.clicks += 1;
        let before = self.clock.read_closely();
        let (time, came, visitor) = click(self.broker.address(), &Visit::office(&user));
        drop(visitor);
        let ended = self.broker.ended(&self.broker.placed(&user));
        // The whole connection's, though the time is the click's.
        figures.processor += self.clock.read_closely().saturating_sub(before);
        figures.attempts.push(ended["attempts"].as_u64().unwrap());
        figures.add((time, came));
        forget(guacd);
        came
    }

    /// Serves users until a single host has had nobody, which the next newcomer
    /// is sent to; its index.
    fn warm(&mut self, guacd: &ScriptedGuacd) -> usize {
        let mut cold: Vec<_> = (1..=HOSTS).map(|nth| format!("rds{nth}")).collect();
        while cold.len() > 1 {
            self.click(guacd, &mut Figures::default());
            let user = format!("user{}", self.clicks - 1);
            let placed = self.broker.placed(&user);
            cold.retain(|host| placed["host"] != host.as_str());
            assert!(self.clicks < 4 * HOSTS, "nobody comes to {cold:?}");
        }
        let number = cold[0].trim_start_matches("rds");
        number.parse::<usize>().unwrap() - 1
    }

    /// Why hosts were given up, in order.
    fn reasons(&self) -> Vec<String> {
        let said = self.broker.said().into_iter();
        let given_up = said.filter(|line| {
            let message = line["message"].as_str();
            message.is_some_and(|text| text.starts_with("Host failed before"))
        });
        let reasons = given_up.map(|line| line["reason"].as_str().unwrap().to_owned());
        reasons.collect()
    }
}

/// The hosts are dead, and the broker knows it.
fn noticed(guacd: &ScriptedGuacd, extent: &Extent) {
    const USUAL: &str = "[probe]\ninterval = \"10s\"\ntimeout = \"2s\"\n";
    let dead = |count: usize, how| (0..count).map(|index| (index, how)).collect::<Vec<_>>();
    let mut ways = vec![("none".to_owned(), Scene::new(guacd, &[], USUAL))];
    for count in [1, HOSTS - 1] {
        for how in DEATHS {
            let scene = Scene::new(guacd, &dead(count, how), USUAL);
            scene
                .broker
                .wait_for_lines("Host does not answer RDP", count);
            ways.push((format!("{count} of {HOSTS}, {how:?}"), scene));
        }
    }
    let alive = MortalHost::new();
    let mut direct = Figures::default();
    let mut all: Vec<_> = ways.iter().map(|_| Figures::default()).collect();
    // The first find everything cold.
    for (_, scene) in &mut ways {
        for _ in 0..extent.clicks.min(5) {
            scene.click(guacd, &mut Figures::default());
        }
    }
    for _ in 0..extent.rounds {
        for _ in 0..extent.clicks {
            direct.add(click_directly(guacd, &alive));
            forget(guacd);
        }
        for ((_, scene), figures) in ways.iter_mut().zip(&mut all) {
            for _ in 0..extent.clicks {
                let came = scene.click(guacd, figures);
                assert_eq!(came, Came::Desktop, "a host is left");
            }
        }
    }
    println!(
        "\nnoticed: click to desktop, {} alternating rounds of {} clicks:",
        extent.rounds, extent.clicks
    );
    direct.print("guacd directly, host alive", None);
    for ((name, _), figures) in ways.iter().zip(&all) {
        figures.print(&format!("through us, dead: {name}"), Some(&direct));
    }
}

/// How hosts die right before a click.
struct Way {
    how: Option<Death>,
    dead: usize,
    most: usize,
    /// Whether the last look at the host counts.
    is_fresh: bool,
    figures: Figures,
}

impl Way {
    fn new(how: Option<Death>, dead: usize, most: usize, is_fresh: bool) -> Self {
        Self {
            how,
            dead,
            most,
            is_fresh,
            figures: Figures::default(),
        }
    }

    fn scene(&self, guacd: &ScriptedGuacd) -> (Scene, usize) {
        let settings = format!(
            "[broker]\nmax_attempts = {}\n[probe]\ninterval = \"1h\"\ntimeout = \"2s\"\n",
            self.most
        );
        let mut scene = Scene::new(guacd, &[], &settings);
        let victim = scene.warm(guacd);
        (scene, victim)
    }

    /// Kills the hosts and clicks. `round` chooses who survives. Whether the
    /// click was of the kind wanted.
    fn click(
        &mut self,
        guacd: &ScriptedGuacd,
        (mut scene, victim): (Scene, usize),
        round: usize,
    ) -> bool {
        let nth = |nth: usize| (victim + nth) % HOSTS;
        // The victim, then others; behind them who survives.
        let doomed = match self.dead {
            0 | 1 => (0..self.dead).map(nth).collect(),
            _ => {
                let survivor = nth(1 + round % (HOSTS - 1));
                (0..HOSTS).filter(|host| *host != survivor).collect()
            }
        };
        let doomed: Vec<usize> = doomed;
        for host in doomed {
            scene.hosts[host].die(self.how.unwrap());
        }
        let mut figures = Figures::default();
        let came = scene.click(guacd, &mut figures);
        assert!(
            came == Came::Desktop || self.dead >= self.most,
            "{came:?} though a host is left: {:?}",
            scene.reasons()
        );
        let asked_first = |reason: &String| reason.starts_with("does not answer");
        if self.is_fresh && scene.reasons().first().is_none_or(asked_first) {
            // The machine was so slow that the last look was older than a second.
            return false;
        }
        self.figures.times.append(&mut figures.times);
        self.figures.attempts.append(&mut figures.attempts);
        self.figures.processor += figures.processor;
        self.figures.errors += figures.errors;
        true
    }

    fn print(&self, direct: &Figures) {
        let how = self.how.map_or(String::new(), |how| format!(", {how:?}"));
        let name = match self.dead {
            0 => "none".to_owned(),
            dead => format!("{dead} of {HOSTS}{how}"),
        };
        let more = match (self.is_fresh, self.most) {
            (true, _) => ", looked at just before",
            (_, HOSTS) => ", max_attempts 8",
            _ => "",
        };
        let name = format!("through us, dead: {name}{more}");
        self.figures.print(&name, Some(direct));
    }
}

/// The hosts die right before the click.
fn unnoticed(guacd: &ScriptedGuacd, extent: &Extent) {
    /// What is in force where nothing is set.
    const ATTEMPTS: usize = 4;
    /// To get everything done within a second of the last look.
    const TRIES: usize = 5;
    let mut ways = vec![Way::new(None, 0, ATTEMPTS, false)];
    for (dead, most) in [(1, ATTEMPTS), (HOSTS - 1, ATTEMPTS), (HOSTS - 1, HOSTS)] {
        ways.extend(DEATHS.map(|how| Way::new(Some(how), dead, most, false)));
    }
    let mut fresh = DEATHS.map(|how| Way::new(Some(how), 1, ATTEMPTS, true));
    let (mut direct, mut refused) = (Figures::default(), Figures::default());
    for round in 0..extent.deaths {
        let scenes: Vec<_> = ways.iter().map(|way| way.scene(guacd)).collect();
        thread::sleep(STALE);
        let alive = MortalHost::new();
        let mut dead = MortalHost::new();
        dead.die(Death::Refused);
        for (way, scene) in ways.iter_mut().zip(scenes) {
            direct.add(click_directly(guacd, &alive));
            refused.add(click_directly(guacd, &dead));
            way.click(guacd, scene, round);
        }
        for way in &mut fresh {
            let mut tries = 0..TRIES.min(extent.deaths);
            while tries.next().is_some() && !way.click(guacd, way.scene(guacd), round) {}
        }
    }
    println!(
        "\nunnoticed: the host the click would land on died right before it, {} clicks each:",
        extent.deaths
    );
    direct.print("guacd directly, host alive", None);
    refused.print("guacd directly, host refuses: to its error 519", None);
    for way in ways.iter().chain(&fresh) {
        way.print(&direct);
    }
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--test");
    let extent = if is_short { SHORT } else { FULL };
    let guacd = patient::patient_guacd();
    noticed(&guacd, &extent);
    unnoticed(&guacd, &extent);
}
