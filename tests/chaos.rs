//! Three replicas of the real binary on one PostgreSQL, hundreds of users on a scripted guacd, and
//! a fault every few seconds: whatever happened is written down, and a checker that knows nothing
//! of how the broker works says afterwards whether it contradicts an invariant.
//!
//! ```text
//! tests/chaos/run                        two minutes, and a short run with a broken claim
//! tests/chaos/run --minutes 30           as long as that
//! tests/chaos/run --seed 7               the same faults at the same moments
//! ```
//!
//! `plan` draws the faults from a seed; `world` is everything outside the broker, and the replicas'
//! processes; `history` is what was observed, by whom and when; `checker` judges it and is tested
//! by itself with histories made by hand; `run` is the run itself, `sabotage` one that must be
//! found guilty.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests state facts; a panic there is the report, and a long run says what it does"
)]

#[allow(dead_code, unused_imports, reason = "the suite uses the rest of it")]
mod support;

mod chaos {
    mod checker;
    mod history;
    mod plan;
    mod run;
    mod sabotage;
    mod world;
}
