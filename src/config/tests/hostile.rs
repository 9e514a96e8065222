//! Whatever the bytes: an answer, in reasonable time, and no secret in it.

use proptest::prelude::*;
use proptest::test_runner::Config as Runs;

use super::project;
use crate::config::load_text;

const NAMES: [&str; 2] = ["a.toml", "a.json"];

/// Loads as both formats and prints whatever is found.
fn printed(text: &str) -> String {
    NAMES
        .iter()
        .map(|name| match load_text(name, text) {
            Ok(loaded) => super::print(&loaded.warnings),
            Err(faults) => faults.to_string(),
        })
        .collect()
}

#[test]
fn depth_does_not_exhaust_the_stack() {
    const DEEP: usize = 100_000;
    for text in [
        "[".repeat(DEEP),
        "[".repeat(DEEP) + &"]".repeat(DEEP),
        r#"{"a":"#.repeat(DEEP) + "1" + &"}".repeat(DEEP),
        format!("a = {}", "[".repeat(DEEP)),
        format!("a = {}1{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        format!("a = {}", "{a = ".repeat(DEEP)),
        format!("{}a = 1", "a.".repeat(DEEP)),
        format!("[{}a]", "a.".repeat(DEEP)),
    ] {
        let text_start = text.get(..9).unwrap().to_owned();
        assert!(!printed(&text).is_empty(), "{text_start}");
    }
    let deep = "[".repeat(DEEP) + &"]".repeat(DEEP);
    let faults = load_text("a.json", &deep).unwrap_err().to_string();
    assert!(
        faults.starts_with("a.json:1:65: fault: nested deeper than 64 levels"),
        "{faults}"
    );
}

#[test]
fn large_nonsense_is_answered_shortly() {
    const PARTS: [&str; 10] = [
        "x",
        "a=1\n",
        "\"",
        "token",
        "[",
        "password: ",
        "\n",
        "{\"key\":1},",
        "=",
        "\u{fc}",
    ];
    // One size that is read on past the first fault, one that is not.
    for size in [200 * 1024, 600 * 1024] {
        for part in PARTS {
            let printed = printed(&part.repeat(size / part.len()));
            assert!(printed.len() < 256 * 1024, "{part:?}: {}", printed.len());
        }
    }
    let many = format!(
        "{{{}}}",
        (0..100_000)
            .map(|n| format!("\"k{n}\":1"))
            .collect::<Vec<_>>()
            .join(",")
    );
    let faults = load_text("a.json", &format!("{{\"broker\":{many}}}")).unwrap_err();
    assert_eq!(faults.findings().len(), 201);
    assert_eq!(
        faults.findings()[200].message(),
        "99800 more are not listed"
    );
}

#[test]
fn a_wrong_line_with_a_secret_is_printed_without_it() {
    for text in [
        "[guacd]\npassword = \"hunter2\"\n",
        "[guacd]\naddress = 5 \npassword = \"hunter2\n",
        "api_token = 'hunter2'\n",
        "[[hosts]]\nsecret-key = { a = \"hunter2\" }\n",
        "[secrets]\nx = \"hunter2\" y\n",
        "{\"id\": \"a\", \"apiKey\": \"hunter2\", \"b\": 1}",
        "{\"id\": 5, \"address\": \"a\", \"token\":\n\"hunter2\" }",
        "{\"id\": 5, \"token\"\n: \"hunter2\", oops }",
    ] {
        let printed = printed(text);
        assert!(printed.contains("fault: "), "{printed}");
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("***"), "{printed}");
    }
}

/// A change to a text, at a place given in thousandths of its length.
#[derive(Debug, Clone)]
enum Change {
    Insert(usize, String),
    Cut(usize, usize),
    Repeat(usize, usize),
}

fn place(text: &str, thousandths: usize) -> usize {
    let mut at = text.len() * thousandths / 1000;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn apply(mut text: String, change: &Change) -> String {
    match change {
        Change::Insert(at, new) => text.insert_str(place(&text, *at), new),
        Change::Cut(from, to) => {
            let (from, to) = (place(&text, *from.min(to)), place(&text, *from.max(to)));
            text.replace_range(from..to, "");
        }
        Change::Repeat(from, to) => {
            let (from, to) = (place(&text, *from.min(to)), place(&text, *from.max(to)));
            let again = text[from..to].to_owned();
            text.insert_str(to, &again);
        }
    }
    text
}

fn change() -> impl Strategy<Value = Change> {
    let snippet = prop_oneof![
        r#"[\[\]{}"'=:,.#\\|;\n\r\t -]{1,4}"#,
        "[a-z_]{1,12}",
        r#"(true|null|-1|1e999|0x1F|99999999999999999999|"10s"|1979-05-27|\\uD800|\\u00e9)"#,
        any::<char>().prop_map(String::from),
    ];
    let near = |at: usize| at..=(at + 40).min(1000);
    prop_oneof![
        3 => (0..=1000_usize, snippet).prop_map(|(at, new)| Change::Insert(at, new)),
        1 => (0..=1000_usize).prop_flat_map(move |at| near(at).prop_map(move |to| Change::Cut(at, to))),
        1 => (0..=1000_usize).prop_flat_map(move |at| near(at).prop_map(move |to| Change::Repeat(at, to))),
    ]
}

const JSON: &str = r#"{
  "broker": { "lease_seconds": 900, "score": { "cpu": 2 } },
  "hosts": [{ "id": "rds-1", "address": "10.0.0.11", "tags": { "role": "office" } }],
  "farms": [{ "id": "office", "agent_ids": ["rds-1"], "required_tags": {} }],
  "resources": [{ "name": "S\u00e4ge", "kind": "remoteapp", "remote_app": "||Sage\\", "hostnames": ["a", "b"] }]
}
"#;

/// Lines with a secret in them, under names that look secret and under a
/// parameter's that does not.
fn secrets() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(r#"db_password = "hunter2""#),
        Just(r#"parameters = { timezone = "hunter2" }"#),
        Just(r#"parameters.timezone = "hunter2""#),
        Just("[hosts.parameters]\ntimezone = \"hunter2\""),
        Just(r#""parameters": { "timezone": "hunter2" },"#),
    ]
}

fn samples() -> impl Strategy<Value = String> {
    let read = |name| std::fs::read_to_string(project().join(name)).unwrap();
    prop_oneof![
        Just(read("config/minimal.toml")),
        Just(read("config/sessionguard.toml").replace("\n#", "\n")),
        Just(JSON.to_owned()),
    ]
}

proptest! {
    // A failing case is written down here as a test of its own, not in a file
    // beside the code.
    #![proptest_config(Runs { cases: 200, failure_persistence: None, ..Runs::default() })]

    #[test]
    fn any_text_gets_an_answer(text in any::<String>()) {
        printed(&text);
    }

    #[test]
    fn any_ascii_gets_an_answer(text in r#"[\[\]{}"'=:,.#\\|a-c0-3 \n]{0,60}"#) {
        printed(&text);
    }

    #[test]
    fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            let _ = crate::config::load(&path, []);
        }
    }

    #[test]
    fn damaged_samples_get_an_answer(
        sample in samples(),
        changes in proptest::collection::vec(change(), 1..6),
    ) {
        printed(&changes.iter().fold(sample, apply));
    }

    #[test]
    fn a_secret_in_a_damaged_file_is_never_printed(
        sample in samples(),
        changes in proptest::collection::vec(change(), 0..4),
        line in 0..200_usize,
        secret in secrets(),
    ) {
        let damaged = changes.iter().fold(sample, apply);
        let at = damaged.match_indices('\n').nth(line).map_or(0, |(at, _)| at + 1);
        let (before, after) = damaged.split_at(at);
        let text = format!("{before}{secret}\n{after}");
        prop_assert!(!printed(&text).contains("hunter2"));
    }

    #[test]
    fn what_loads_is_shown_and_loads_again(
        sample in samples(),
        changes in proptest::collection::vec(change(), 0..3),
    ) {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            let path = folder.path().join(name);
            std::fs::write(&path, changes.iter().fold(sample.clone(), apply)).unwrap();
            if crate::config::load(&path, []).is_ok() {
                super::show::round_trip(&path);
            }
        }
    }

    #[test]
    fn any_environment_gets_an_answer(
        name in "SESSIONGUARD_[A-Za-z_]{0,20}|SESSIONGUARD_(BROKER|LISTEN|LOG|HOSTS)__[A-Z_]{0,12}",
        value in any::<String>(),
    ) {
        let path = project().join("config/minimal.toml");
        if let Err(faults) = crate::config::load(&path, [(name.into(), value.into())]) {
            prop_assert!(!faults.to_string().is_empty());
        }
    }
}
