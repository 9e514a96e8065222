//! Rolls days by their seeds, many at a time, and tells of a day that failed
//! so that anybody can roll it again.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sessionguard::placement::Timestamp;

use super::day::{Day, Decide};
use super::sweep;
use super::tally::Tally;
use super::verdict::{Rule, Violation};

/// How many events a failure shows.
const SHOWN: usize = 20;

/// The last events; a day that is rolled for the first time writes none.
#[derive(Default)]
pub(super) struct Log(Option<VecDeque<String>>);

impl Log {
    pub(super) fn kept() -> Self {
        Self(Some(VecDeque::new()))
    }

    pub(super) fn say(&mut self, at: Timestamp, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            if lines.len() == SHOWN {
                lines.pop_front();
            }
            lines.push_back(format!("{} {}", at.as_millis() % 1_000_000_000, what()));
        }
    }
}

/// A day that failed.
pub(super) struct Failure {
    pub(super) seed: u64,
    pub(super) rule: Rule,
    step: usize,
    steps: usize,
    what: String,
}

/// Rolls one day of so many steps.
pub(super) fn roll(seed: u64, steps: usize, decide: Decide) -> Result<Tally, Failure> {
    let mut day = Day::new(seed, decide, Log::default());
    run(&mut day, steps).map_err(|(step, Violation { rule, what })| Failure {
        seed,
        rule,
        step,
        steps,
        what,
    })?;
    day.tally.steps = steps;
    Ok(day.tally)
}

fn run(day: &mut Day, steps: usize) -> Result<(), (usize, Violation)> {
    for step in 0..steps {
        day.step().map_err(|violation| (step, violation))?;
    }
    sweep::at_the_end(day).map_err(|violation| (steps, violation))
}

/// Rolls seeds on every core until `enough` days failed; failures in seed order.
pub(super) fn roll_all(
    seeds: std::ops::Range<u64>,
    steps: usize,
    enough: usize,
    decide: Decide,
) -> (Tally, Vec<Failure>) {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Tally::default(), Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || found.lock().unwrap().1.len() >= enough {
                return;
            }
            let rolled = roll(seed, steps, decide);
            let (tally, failures) = &mut *found.lock().unwrap();
            match rolled {
                Ok(of_day) => tally.add(of_day),
                Err(failure) => failures.push(failure),
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let (tally, mut failures) = found.into_inner().unwrap();
    failures.sort_by_key(|failure: &Failure| failure.seed);
    (tally, failures)
}

impl Failure {
    /// The whole story: the day is rolled once more, and this time written down.
    pub(super) fn story(&self, decide: Decide) -> String {
        let Self {
            seed,
            rule,
            step,
            steps,
            what,
        } = self;
        let mut day = Day::new(*seed, decide, Log::kept());
        let again = run(&mut day, *steps).err();
        let mut story = format!("seed {seed}, step {step}: not so: {rule}: {what}\n");
        let same = again.is_some_and(|(at, violation)| at == *step && violation.rule == *rule);
        if !same {
            story.push_str("(the second time it went otherwise: something is not the seed's)\n");
        }
        for line in day.log.0.iter().flatten() {
            let _ = writeln!(story, "  {line}");
        }
        let _ = write!(
            story,
            "replay: SESSIONGUARD_SEED={seed} cargo test --test suite simulation"
        );
        story
    }
}
