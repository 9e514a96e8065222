//! The threat model in `deploy/security.md` beside the sources: no control without a test that is
//! there, and none of its parts missing.

use std::fs;
use std::path::Path;

use super::faults::table::exists;

const PARTS: [&str; 7] = [
    "Boundaries",
    "Assets",
    "Attackers",
    "Controls",
    "What stays in memory",
    "Out of scope",
    "What an administrator must do",
];

fn text() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/security.md");
    fs::read_to_string(file).unwrap()
}

/// What stands between a heading and the next one.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, behind) = text.split_once(&format!("\n## {name}\n")).expect(name);
    behind.split("\n## ").next().unwrap()
}

/// The threat, the control and the tests of each line of a table.
fn rows(part: &str) -> Vec<(&str, &str, Vec<&str>)> {
    let table = part.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows = table.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [threat, control, tests] = cells[..] else {
            panic!("three cells: {line}");
        };
        let named = tests.split(", ").map(|test| test.trim_matches('`'));
        (threat, control, named.collect())
    });
    rows.collect()
}

#[test]
fn every_control_names_tests_that_are_there() {
    let text = text();
    let rows = rows(part(&text, "Controls"));
    assert!(rows.len() > 20, "{} controls", rows.len());
    for (threat, control, tests) in rows {
        assert!(
            threat.len() > 10 && control.len() > 10,
            "{threat}: {control}"
        );
        for test in tests {
            assert!(exists(test), "no such test: {test}, against {threat:?}");
        }
    }
}

#[test]
fn no_part_is_missing_or_empty_and_a_wrong_name_is_found() {
    let text = text();
    for name in PARTS {
        assert!(part(&text, name).trim().len() > 100, "{name}");
    }
    let wrong =
        "## x\n\n| threat | control | test |\n|---|---|---|\n| a | b | `log::none`, `c::d` |\n";
    let read = rows(wrong);
    assert_eq!(read, [("a", "b", vec!["log::none", "c::d"])]);
    assert!(!read[0].2.iter().any(|test| exists(test)));
}
