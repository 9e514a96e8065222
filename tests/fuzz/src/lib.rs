//! What the fuzz targets do with one input, as plain functions: each panics on
//! a broken promise, and returns how many times it got as far as checking the
//! promise at its heart. `targets/` hands them libFuzzer's inputs, and
//! `tests/suite/fuzz.rs` the recorded ones: seeds, and whatever once broke one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests state facts; a panic there is the report"
)]

pub mod attempt;
pub mod configuration;
pub mod decode;
pub mod differential;
pub mod handshake;
pub mod rewrite;
pub mod round_trip;

mod input;
#[path = "../../../guac-protocol/tests/lenient.rs"]
mod lenient;
mod stream;

use std::path::Path;

/// One target.
#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    /// Tries one input.
    pub run: fn(&[u8]) -> usize,
    /// Inputs to begin with, made of the recordings in this folder.
    pub seeds: fn(&Path) -> Vec<Vec<u8>>,
}

pub const TARGETS: [Target; 7] = [
    Target {
        name: "decode",
        run: decode::run,
        seeds: decode::seeds,
    },
    Target {
        name: "round_trip",
        run: round_trip::run,
        seeds: round_trip::seeds,
    },
    Target {
        name: "handshake",
        run: handshake::run,
        seeds: handshake::seeds,
    },
    Target {
        name: "differential",
        run: differential::run,
        seeds: differential::seeds,
    },
    Target {
        name: "rewrite",
        run: rewrite::run,
        seeds: rewrite::seeds,
    },
    Target {
        name: "attempt",
        run: attempt::run,
        seeds: attempt::seeds,
    },
    Target {
        name: "configuration",
        run: configuration::run,
        seeds: configuration::seeds,
    },
];

/// Writes the seeds of a target where libFuzzer is about to look for them; the
/// folder is named by `SESSIONGUARD_SEEDS`, and without it there are none.
pub fn plant(name: &str) {
    let Some(folder) = std::env::var_os("SESSIONGUARD_SEEDS") else {
        return;
    };
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let here = env!("CARGO_MANIFEST_DIR");
    let traces = Path::new(here).join("../../guac-protocol/tests/data/traces");
    for (index, seed) in (target.seeds)(&traces).iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{index:03}"));
        std::fs::write(path, seed).expect("the seed folder can be written");
    }
}
