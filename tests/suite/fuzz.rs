//! Replays what the fuzz targets of `tests/fuzz` begin with, the inputs that
//! reach every place long runs came to, `tests/fuzz/corpora/TARGET/`, and those
//! that once broke one, `guac-protocol/tests/data/fuzz/TARGET/`.

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
    let corpus = files(&corpora().join(name));
    assert!(corpus.len() >= 20, "only {} in the corpus", corpus.len());
    let broken = files(&data("fuzz").join(name));
    for path in corpus.into_iter().chain(broken) {
        let input = fs::read(&path).unwrap();
        let tried = catch_unwind(|| (target.run)(&input));
        assert!(tried.is_ok(), "broken by {}", path.display());
    }
}

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpora")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(folder) else {
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
fn attempt() {
    replay("attempt", (38, 34));
}

#[test]
fn configuration() {
    replay("configuration", (58, 500));
}

#[test]
fn every_recorded_input_belongs_to_a_target() {
    for path in [files(&data("fuzz")), files(&corpora())].concat() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let known = TARGETS.iter().any(|target| target.name == name);
        assert!(known || name == "README.md", "no target replays {name}");
    }
}
