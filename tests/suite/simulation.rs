//! Days in a farm, rolled from a seed: people come and go and come back, hosts
//! fail and recover, reports are late or lost, an agent lies, administrators
//! change things, the process dies. After every step a small shadow of the
//! rules, written down apart from the code it watches, says whether that was
//! right.
//!
//! Every run rolls the first 256 seeds. A failure prints its seed, its step and
//! the last events before it, and that seed fails the same way again:
//!
//! - `SESSIONGUARD_SEED=n` rolls exactly that seed;
//! - `SESSIONGUARD_SEEDS=n` rolls so many, for a long run.
//!
//! ```text
//! SESSIONGUARD_SEED=17 cargo test --test suite simulation -- --nocapture
//! SESSIONGUARD_SEEDS=20000 cargo test --release --test suite simulation
//! ```
//!
//! `scene` and `script` say what is configured and what may happen, `day` and
//! `happen` let it happen, `world` is what is true, `broker` and `keeper` how
//! the process keeps its picture; `model`, `timetable`, `breaker`, `figures`,
//! `expect` and `sightings` are what the rules make of it, `liar` what an agent
//! makes up, `verdict` and `sweep` whether that came out. `sabotage` shows that
//! broken rules are noticed.
//!
//! Not rolled here: several replicas, a store that fails, a process frozen for
//! longer than its claims live, clients whose names are marks, and more
//! strangers at once than an agent may name.

use sessionguard::placement::decide;

use tally::Tally;

mod ask;
mod breaker;
mod broker;
mod day;
mod dice;
mod expect;
mod figures;
mod happen;
mod keeper;
mod liar;
mod model;
mod morning;
mod parts;
mod replay;
mod sabotage;
mod scene;
mod script;
mod sightings;
mod sweep;
mod tally;
mod timetable;
mod verdict;
mod world;

/// Seeds in every run.
const SEEDS: u64 = 256;

/// Steps a day.
const STEPS: usize = 2000;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
    )
}

#[test]
fn every_day_keeps_every_rule() {
    let one = setting("SESSIONGUARD_SEED").map(|seed| seed..seed + 1);
    let many = setting("SESSIONGUARD_SEEDS").unwrap_or(SEEDS);
    let (tally, failures) = replay::roll_all(one.clone().unwrap_or(0..many), STEPS, 1, decide);
    if let Some(failure) = failures.first() {
        panic!("{}", failure.story(decide));
    }
    println!("{tally}");
    if one.is_none() && many >= SEEDS {
        is_not_vacuous(&tally);
    }
}

/// Everything that can come out of a decision came out often, and hosts, agents
/// and the process had their troubles.
fn is_not_vacuous(tally: &Tally) {
    for (outcome, least) in [
        ("placed beside a tunnel", 20_000),
        ("placed by score", 20_000),
        ("placed by lease", 5_000),
        ("placed on a left session", 2_000),
        ("placed on a session in use", 1_000),
        ("busy", 10_000),
        ("unreachable", 5_000),
        ("logons pending", 5_000),
        ("held elsewhere", 1_000),
        ("too many tunnels", 1_000),
        ("login mismatch", 500),
        ("empty farm", 1_000),
        ("farm disabled", 5_000),
        ("resource disabled", 5_000),
        ("unknown farm", 1_000),
        ("unknown resource", 1_000),
        ("no farm", 1_000),
        ("passed through", 1_000),
        ("logon shown", 50),
        ("lease moved", 50),
        ("signed out", 500),
        ("lie about somebody known elsewhere", 300),
        ("lie about somebody else", 1_000),
        ("breaker opened by attempts", 500),
        ("breaker opened by a flapping probe", 500),
        ("newcomer kept out by a breaker", 500),
        ("newcomer tries a half-open breaker", 100),
    ] {
        let count = tally.outcomes.get(outcome).copied().unwrap_or_default();
        assert!(count >= least, "only {count} of {least}: {outcome}");
    }
    assert!(tally.reports >= 100_000, "{} reports", tally.reports);
    assert!(tally.stood >= 40_000, "{} tunnels stood", tally.stood);
    assert!(
        tally.never_stood >= 20_000,
        "{} never stood",
        tally.never_stood
    );
    assert!(tally.troubles >= 20_000, "{} troubles", tally.troubles);
    assert!(tally.restarts >= 1_000, "{} restarts", tally.restarts);
}
