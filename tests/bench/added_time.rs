//! What the broker adds to a click: time from `select` to the drawn desktop
//! through the real binary beside the same guacd dialled directly, in alternating
//! rounds of one run; and the processor time it spends on a connection. Not to
//! `ready`, which whoever is placed gets before a host is tried.
//!
//! Prints medians and 99th percentiles, and asserts nothing about them: a busy
//! machine is no fault. With `--test` a few connections only.

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

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use processor::ProcessorClock;
use support::{Names, ScriptedGuacd, Stage, Visit, Visitor};

/// Rounds, and connections in each, one after the other.
const FULL: (usize, usize) = (20, 100);
const SHORT: (usize, usize) = (1, 3);

/// One way to go.
struct Way {
    name: &'static str,
    through_us: bool,
    visit: fn(&str) -> Visit,
    times: Vec<Duration>,
    processor: Duration,
}

impl Way {
    fn new(name: &'static str, through_us: bool, visit: fn(&str) -> Visit) -> Self {
        Self {
            name,
            through_us,
            visit,
            times: Vec::new(),
            processor: Duration::ZERO,
        }
    }

    fn round(&mut self, stage: &Stage, connections: usize, clock: &ProcessorClock) {
        let address = match self.through_us {
            true => stage.broker.address(),
            false => stage.guacd.address(),
        };
        let before = clock.read();
        for _ in 0..connections {
            // Nobody comes twice: each is decided and claimed anew.
            let user = format!("user{}-{}", self.times.len(), usize::from(self.through_us));
            let visit = (self.visit)(&user);
            let mut visitor = Visitor::dial(address);
            let start = Instant::now();
            visitor.click(&visit);
            visitor.ready();
            visitor.hear("sync");
            self.times.push(start.elapsed());
            // guacd's side ends the tunnel, then ours.
            drop(stage.guacd.ready());
            drop(visitor);
        }
        self.processor += clock.read() - before;
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[(times.len() - 1) * percent / 100]
    }
}

fn main() {
    let is_short = std::env::args().any(|argument| argument == "--test");
    let (rounds, connections) = if is_short { SHORT } else { FULL };
    let names = Names::rdp("1.6.0");
    let guacd = ScriptedGuacd::playing(move |peer| {
        peer.shake_hands(&names)?;
        peer.stand();
        Ok(())
    });
    let stage = Stage::adjusted(guacd, 4, |site| {
        site.with("[broker]\nmax_pending_logons = 1000\nslow_start = \"0s\"\n")
    });
    let clock = ProcessorClock::of(stage.broker.id());
    let plain: fn(&str) -> Visit = |user| Visit::rdp(user).answer("hostname", "elsewhere.test");
    let mut ways = [
        Way::new("guacd directly", false, plain),
        Way::new("through us, passed on", true, plain),
        Way::new("through us, placed", true, Visit::office),
    ];
    // The first connections find everything cold.
    for way in &mut ways {
        way.round(&stage, connections.min(20), &clock);
        way.times.clear();
        way.processor = Duration::ZERO;
    }
    for _ in 0..rounds {
        for way in &mut ways {
            way.round(&stage, connections, &clock);
        }
    }
    let direct = ways[0].percentile(50);
    println!("select to desktop, {rounds} alternating rounds of {connections} connections:");
    for way in &ways {
        let (median, slow) = (way.percentile(50), way.percentile(99));
        let ratio = median.as_secs_f64() / direct.as_secs_f64();
        let added = median.saturating_sub(direct);
        let name = way.name;
        println!(
            "{name:24} median {median:>9.1?}  99% {slow:>9.1?}  ratio {ratio:>5.2}  added {added:>9.1?}"
        );
        if way.through_us {
            let each = way.processor.as_secs_f64() / way.times.len() as f64;
            println!("{:24} {each:.6} processor seconds a connection", "");
        }
    }
}
