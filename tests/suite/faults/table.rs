//! The table of faults in `tests/README.md` beside the sources: no fault without a row, no row
//! without its tests or the reason why there is none, no test here without a row.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What is broken on purpose. A fault is added here and in the table together.
const FAULTS: &[&str] = &[
    "process: `kill -9` with live tunnels",
    "process: SIGTERM",
    "process: a second SIGTERM",
    "process: reload, valid",
    "process: reload, broken",
    "process: reload, half-written",
    "process: reload, symlink swapped",
    "process: panic in one task",
    "process: SIGSTOP",
    "process: a new version beside the old",
    "guacd: refused",
    "guacd: dies mid-tunnel",
    "guacd: half-open",
    "guacd: never answers",
    "guacd: a byte a second",
    "guacd: far away and unsteady",
    "guacd: odd `args`",
    "guacd: `error` before `ready`",
    "guacd: `error` after `ready`",
    "guacd: another release behind the name",
    "guacd: one of several fails",
    "guacd: no protocol before the desktop",
    "Guacamole: slow handshakes",
    "Guacamole: very many connects at once",
    "Guacamole: reset at every step",
    "Guacamole: slow reader",
    "Guacamole: half-open",
    "Guacamole: talks while the desktop is sought",
    "Guacamole: leaves while the desktop is sought",
    "Guacamole: joins while the desktop is sought",
    "replicas: the one that has the tunnel to join is gone",
    "hosts: refused",
    "hosts: SYN black hole",
    "hosts: accepts, never answers X.224",
    "hosts: negative X.224",
    "hosts: answers X.224, then hangs up",
    "hosts: paints nothing",
    "hosts: wrong password, locked account, a prompt",
    "hosts: the one with the user's session fails",
    "hosts: lost behind the desktop",
    "hosts: answers, and lets users down",
    "hosts: flapping",
    "hosts: all but one down, unnoticed",
    "hosts: all down",
    "hosts: all in maintenance",
    "hosts: all full",
    "hosts: session gone since the heartbeat",
    "hosts: a fresh one among loaded ones",
    "hosts: DNS slow",
    "hosts: DNS changed",
    "agents: silent",
    "agents: late",
    "agents: duplicated id",
    "agents: replayed, reordered",
    "agents: clock off by a day",
    "agents: lying about load",
    "agents: claiming every user's session",
    "agents: huge or deep JSON",
    "agents: wrong or revoked key",
    "agents: key rotation",
    "PostgreSQL: stopped",
    "PostgreSQL: restarted",
    "PostgreSQL: slow",
    "PostgreSQL: hung",
    "PostgreSQL: failed over, the last claims lost",
    "PostgreSQL: failed over, the old primary read-only",
    "PostgreSQL: rows lost",
    "PostgreSQL: pool exhausted",
    "PostgreSQL: out of connections",
    "PostgreSQL: deadlock",
    "PostgreSQL: disk full",
    "PostgreSQL: connection lost, COMMIT outcome unknown",
    "PostgreSQL: away, with `degraded = \"existing-lease\"`",
    "machine: wall clock jumps",
    "machine: disk full",
    "machine: out of file descriptors",
    "machine: certificate expired",
    "machine: certificate rotated",
    "machine: log pipe blocked",
];

/// A line of the table.
#[derive(Debug)]
struct Row {
    fault: String,
    outcome: String,
    /// Paths in the suite, or files of other suites; none where there can be none.
    tests: Vec<String>,
    /// Why there is none.
    reason: Option<String>,
}

pub(in crate::suite) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of the table behind the heading `## Faults`.
fn rows(text: &str) -> Vec<Row> {
    let (_, behind) = text.split_once("\n## Faults\n").expect("its heading");
    let lines = behind.lines().skip_while(|line| !line.starts_with('|'));
    let table = lines.take_while(|line| line.starts_with('|'));
    // Its head, and the line under that.
    table.skip(2).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [fault, outcome, tests] = cells[..] else {
        panic!("three cells: {line}");
    };
    let reason = tests.strip_prefix("no test: ").map(str::to_owned);
    let named = tests.split(", ").map(|test| {
        let bare = test
            .strip_prefix('`')
            .and_then(|test| test.strip_suffix('`'));
        bare.unwrap_or_else(|| panic!("`path::of::a_test`: {test}"))
            .to_owned()
    });
    Row {
        fault: fault.to_owned(),
        outcome: outcome.to_owned(),
        tests: if reason.is_some() {
            Vec::new()
        } else {
            named.collect()
        },
        reason,
    }
}

/// The tests in a source file of ours.
fn tests_in(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut marked = false;
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        let name = line.strip_prefix("fn ").or(line.strip_prefix("def "));
        let name = name.and_then(|rest| rest.split(['(', '<']).next());
        match name {
            Some(name) if marked || name.starts_with("test_") => {
                found.insert(name.to_owned());
                marked = false;
            }
            _ => marked = line == "#[test]" || marked && line.starts_with("#["),
        }
    }
    found
}

/// Whether a test of this path is in the sources.
pub(in crate::suite) fn exists(test: &str) -> bool {
    let Some((place, name)) = test.rsplit_once("::") else {
        return false;
    };
    tests_in(&file_of(place)).contains(name)
}

/// The file of a module of the suite, or one that is named whole.
pub(in crate::suite) fn file_of(place: &str) -> PathBuf {
    match place.ends_with(".py") || place.ends_with(".rs") {
        true => root().join(place),
        false => root().join(format!("tests/suite/{}.rs", place.replace("::", "/"))),
    }
}

fn table() -> Vec<Row> {
    rows(&fs::read_to_string(root().join("tests/README.md")).unwrap())
}

#[test]
fn every_fault_has_its_row_its_outcome_and_tests_that_exist() {
    let table = table();
    let named: Vec<_> = table.iter().map(|row| row.fault.as_str()).collect();
    assert_eq!(named, FAULTS, "the faults, in their order");
    for row in &table {
        assert!(row.outcome.len() > 10, "no outcome: {row:?}");
        let reasoned = row.reason.as_ref().is_some_and(|reason| reason.len() > 40);
        assert!(
            reasoned || !row.tests.is_empty(),
            "no test and no reason: {row:?}"
        );
        for test in &row.tests {
            assert!(exists(test), "no such test: {test}, for {:?}", row.fault);
        }
    }
}

#[test]
fn every_test_of_a_fault_is_in_the_table() {
    let listed: BTreeSet<_> = table().into_iter().flat_map(|row| row.tests).collect();
    for folder in ["faults", "attempts"] {
        let mut count = 0;
        for entry in fs::read_dir(root().join("tests/suite").join(folder)).unwrap() {
            let file = entry.unwrap().path();
            let module = file.file_stem().unwrap().to_str().unwrap().to_owned();
            if module == "table" {
                continue;
            }
            for test in tests_in(&file) {
                let path = format!("{folder}::{module}::{test}");
                assert!(listed.contains(&path), "in no row: {path}");
                count += 1;
            }
        }
        assert!(count > 20, "{count} found in {folder}");
    }
}

#[test]
fn a_wrong_name_and_a_row_without_a_test_are_found() {
    assert!(exists(
        "faults::table::a_wrong_name_and_a_row_without_a_test_are_found"
    ));
    for wrong in [
        "faults::table::no_such_test",
        // A function that is no test, a module that is none, a name alone.
        "faults::table::exists",
        "faults::tables::every_test_of_a_fault_is_in_the_table",
        "every_test_of_a_fault_is_in_the_table",
        "tests/real/test_failures.py::nobody_listens",
    ] {
        assert!(!exists(wrong), "{wrong}");
    }
    let text = "# x\n\n## Faults\n\nWords.\n\n| fault | expected outcome | test |\n|---|---|---|\n\
                | a | b | `c::d`, `e::f` |\n| g | h | no test: because |\n\n| else | x | y |\n";
    let read = rows(text);
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].tests, ["c::d", "e::f"]);
    assert_eq!(
        (read[1].reason.as_deref(), read[1].tests.len()),
        (Some("because"), 0)
    );
}
