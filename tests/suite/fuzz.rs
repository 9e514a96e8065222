//! Replays what the fuzz targets of `tests/fuzz` begin with, and every input
//! that once broke one: `guac-protocol/tests/data/fuzz/TARGET/`.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

#[path = "../fuzz/src/lib.rs"]
#[allow(
    unreachable_pub,
    dead_code,
    reason = "the library of another crate, looked at from here as well"
)]
mod targets;

use targets::{TARGETS, Target};

fn data(inner: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("guac-protocol/tests/data").join(inner)
}

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap()
}

/// Tries every seed and every recorded input. `at_least`: how many seeds there
/// are, and how often they must get to the heart of the promise.
fn replay(name: &str, at_least: (usize, usize)) {
    let target = target(name);
    let seeds = (target.seeds)(&data("traces"));
    let reached: usize = seeds.iter().map(|seed| (target.run)(seed)).sum();
    let got = (seeds.len(), reached);
    assert!(got.0 >= at_least.0 && got.1 >= at_least.1, "only {got:?}");
    for path in recorded(name) {
        let input = fs::read(&path).unwrap();
        let tried = catch_unwind(|| (target.run)(&input));
        assert!(tried.is_ok(), "broken by {}", path.display());
    }
}

fn recorded(name: &str) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(data("fuzz").join(name)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn decode() {
    replay("decode", (51, 700));
}

#[test]
fn round_trip() {
    replay("round_trip", (170, 950));
}

#[test]
fn handshake() {
    replay("handshake", (84, 190));
}

#[test]
fn differential() {
    replay("differential", (54, 700));
}

#[test]
fn rewrite() {
    replay("rewrite", (97, 97));
}

#[test]
fn every_recorded_input_belongs_to_a_target() {
    for entry in fs::read_dir(data("fuzz")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = TARGETS.iter().any(|target| target.name == name);
        assert!(known || name == "README.md", "no target replays {name}");
    }
}
