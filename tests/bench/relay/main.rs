//! What a tunnel costs, beside others that relay: one load through nothing at
//! all, HAProxy as it comes and with splice forced, nginx's stream module and us,
//! in rotated rounds of one run. sessionguard does in every load all it does for
//! a living: handshake, placement, lease, framing in view, accounting; the others
//! pass on the same bytes, handshake included.
//!
//! CPU is user and system time of the relay's processes alone. Prints medians and
//! the medians of paired ratios to HAProxy as it comes. Options, behind `--`:
//!
//! - `--rounds N`: so many rounds, seven where it is not said;
//! - `--only NAME`: one load: `bulk`, `tls`, `desktops`, `ping`, `set-up`, `idle`;
//!   may be said more than once;
//! - `--way NAME`: this way beside HAProxy, and no other: `direct`, `haproxy`,
//!   `splice`, `nginx`, `sessionguard`; may be said more than once;
//! - `--judge`: fails where a gate is missed;
//! - `--whole`: fails where one of the others is not there, which else is left
//!   out with a word;
//! - `--quick`, or `--test`: everything once and short, and fails where a figure
//!   is missing; no figure is worth anything.
//!
//! `tests/bench/relay/run` installs the others first.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code,
    unused_imports,
    reason = "a benchmark that cannot be set up has no figure; the cast plays more than this"
)]

mod extent;
#[path = "../load/mod.rs"]
mod load;
mod loads;
#[path = "../processor.rs"]
mod processor;
#[path = "../../support/mod.rs"]
mod support;
mod table;
mod ways;

use std::process::ExitCode;
use std::time::Instant;

use extent::Extent;
use load::{Cast, NAME};
use loads::{AT_ONCE, Run};
use processor::ProcessorClock;
use support::tls::{Authority, Identity};
use table::{Figures, Row};
use ways::{Kind, Way};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Bulk,
    Secured,
    Desktops,
    Pings,
    SetUps,
    Idle,
}

impl Load {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Bulk, "bulk"),
        (Self::Secured, "tls"),
        (Self::Desktops, "desktops"),
        (Self::Pings, "ping"),
        (Self::SetUps, "set-up"),
        (Self::Idle, "idle"),
    ];

    fn rows(self) -> &'static [Row] {
        match self {
            Self::Bulk => &[
                Row::OneStream,
                Row::OneStreamSpeed,
                Row::EightStreams,
                Row::EightStreamsSpeed,
            ],
            Self::Secured => &[Row::Secured, Row::SecuredSpeed],
            Self::Desktops => &[Row::Desktops],
            Self::Pings => &[Row::Ping, Row::SlowPing],
            Self::SetUps => &[
                Row::SetUp,
                Row::SetUpTime,
                Row::BusySetUp,
                Row::BusySetUpTime,
            ],
            Self::Idle => &[
                Row::Idle,
                Row::IdleKernel,
                Row::Burst,
                Row::AfterBurst,
                Row::Closed,
            ],
        }
    }

    async fn run(self, run: &mut Run<'_>) {
        match self {
            Self::Bulk => {
                run.bulk(1).await;
                run.bulk(8).await;
            }
            Self::Secured => run.secured_bulk().await,
            Self::Desktops => run.desktops().await,
            Self::Pings => run.pings().await,
            Self::SetUps => {
                run.set_ups(1).await;
                run.set_ups(AT_ONCE).await;
            }
            Self::Idle => run.idle().await,
        }
    }
}

/// What was asked for.
struct Options {
    extent: Extent,
    loads: Vec<Load>,
    /// Only these ways, where any is named.
    ways: Vec<Kind>,
    is_quick: bool,
    judges: bool,
    is_whole: bool,
}

impl Options {
    fn read() -> Result<Self, String> {
        let mut options = Self {
            extent: Extent::full(),
            loads: Vec::new(),
            ways: Vec::new(),
            is_quick: false,
            judges: false,
            is_whole: false,
        };
        let mut arguments = std::env::args().skip(1);
        let mut rounds = None;
        while let Some(argument) = arguments.next() {
            match &*argument {
                // cargo says so.
                "--bench" => {}
                "--quick" | "--test" => options.is_quick = true,
                "--judge" => options.judges = true,
                "--whole" => options.is_whole = true,
                "--rounds" => {
                    let said = arguments.next().and_then(|said| said.parse().ok());
                    rounds = Some(
                        said.filter(|said| *said > 0)
                            .ok_or("--rounds wants a number")?,
                    );
                }
                "--only" => {
                    let said = arguments.next().unwrap_or_default();
                    let named = Load::ALL.iter().find(|(_, name)| *name == said);
                    let names = Load::ALL.map(|(_, name)| name).join(", ");
                    let (load, _) = named.ok_or(format!("--only wants one of {names}"))?;
                    options.loads.push(*load);
                }
                "--way" => {
                    let said = arguments.next().unwrap_or_default();
                    let named = Kind::ALL.into_iter().find(|kind| kind.word() == said);
                    let words = Kind::ALL.map(Kind::word).join(", ");
                    options
                        .ways
                        .push(named.ok_or(format!("--way wants one of {words}"))?);
                }
                other => return Err(format!("{other} is no option of this benchmark")),
            }
        }
        if options.is_quick {
            options.extent = Extent::quick();
        }
        if let Some(rounds) = rounds {
            options.extent.rounds = rounds;
            options.extent.idle_rounds = options.extent.idle_rounds.min(rounds);
        }
        if options.loads.is_empty() {
            options.loads = Load::ALL.map(|(load, _)| load).to_vec();
        }
        Ok(options)
    }

    fn rows(&self) -> Vec<Row> {
        let is_asked = |row: &Row| self.loads.iter().any(|load| load.rows().contains(row));
        Row::ALL.into_iter().filter(is_asked).collect()
    }
}

/// Those that can be started here.
fn kinds(all_of_them: bool) -> Vec<Kind> {
    let is_there = |kind: &Kind| match kind.lacks() {
        None => true,
        Some(file) => {
            assert!(!all_of_them, "{file} is not there");
            eprintln!("LEFT OUT: {}, for {file} is not there", kind.name());
            false
        }
    };
    Kind::ALL.into_iter().filter(is_there).collect()
}

/// As many descriptors as the system allows, for both ends of every tunnel; how
/// many tunnels that is.
fn raise_descriptors() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    // A relay has as many, and sessionguard keeps half of them for other things.
    (hard as usize) / 4
}

async fn measure(options: &mut Options, kinds: &[Kind]) -> Figures {
    let room = raise_descriptors();
    if options.extent.idle > room {
        println!("{room} idle tunnels: the limit of open files allows no more");
        options.extent.idle = room;
    }
    let authority = Authority::new("Relays");
    let identity = authority.sign(NAME);
    let cast = Cast::new(authority.client(None)).await;
    let mut figures = Figures::default();
    for round in 0..options.extent.rounds {
        for load in &options.loads {
            // Who shows what it keeps begins anew each time.
            let is_fresh = *load == Load::Idle;
            if is_fresh && round >= options.extent.idle_rounds {
                continue;
            }
            for turn in 0..kinds.len() {
                let kind = kinds[(round + turn) % kinds.len()];
                let way = Way::open(kind, cast.guacd(), &identity);
                let mut run = Run {
                    cast: &cast,
                    way: &way,
                    extent: &options.extent,
                    figures: &mut figures,
                };
                load.run(&mut run).await;
            }
        }
        eprintln!("round {} of {} is done", round + 1, options.extent.rounds);
    }
    figures
}

fn main() -> ExitCode {
    let mut options = match Options::read() {
        Ok(options) => options,
        Err(fault) => {
            eprintln!("{fault}");
            return ExitCode::from(2);
        }
    };
    let mut kinds = kinds(options.is_whole);
    kinds.retain(|kind| {
        options.ways.is_empty() || *kind == Kind::Haproxy || options.ways.contains(kind)
    });
    let start = Instant::now();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let figures = runtime.block_on(measure(&mut options, &kinds));
    let rows = options.rows();
    println!(
        "medians of {} rotated rounds, x: median of paired ratios to HAProxy",
        options.extent.rounds
    );
    figures.print(&rows, &kinds);
    figures.assert_whole(&rows, &kinds);
    if options.is_quick {
        println!("short: no figure is worth anything");
        return ExitCode::SUCCESS;
    }
    println!();
    let is_passed = figures.judge(&rows);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("took {:.0?}; load average {load}", start.elapsed());
    match options.judges && !is_passed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
