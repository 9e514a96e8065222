//! Days in a farm, rolled from a seed: people come and go and come back, hosts
//! fail and recover, reports are late or lost, administrators change things,
//! the process dies. After every step a small shadow of the rules, written down
//! apart from the code it watches, says whether that was right.
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
//! `scene` and `script` say what is configured and what may happen, `world`
//! what is true, `broker` how the process keeps its picture, `model`, `figures`
//! and `expect` what the rules make of it, `verdict` and `sweep` whether that
//! came out. `sabotage` shows that broken rules are noticed.

use sessionguard::placement::decide;

mod ask;
mod broker;
mod day;
mod dice;
mod expect;
mod figures;
mod model;
mod replay;
mod scene;
mod script;
mod sweep;
mod tally;
mod verdict;
mod world;

/// Seeds in every run.
const SEEDS: u64 = 256;

/// Steps a day.
const STEPS: usize = 1000;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

#[test]
fn every_day_keeps_every_rule() {
    let one = setting("SESSIONGUARD_SEED").map(|seed| seed..seed + 1);
    let seeds = one.clone().unwrap_or(0..setting("SESSIONGUARD_SEEDS").unwrap_or(SEEDS));
    let (tally, failures) = replay::roll_all(seeds, STEPS, 1, decide);
    if let Some(failure) = failures.first() {
        panic!("{}", failure.story(decide));
    }
    println!("{tally}");
}
