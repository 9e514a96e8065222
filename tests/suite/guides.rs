//! `deploy/guides` beside the binary: every configuration passes its strict check, every command
//! line is one it takes, every symptom and every procedure is shown by a test, and the
//! configurations that move an administrator here do what is promised of them.

mod moves;
mod proved;
mod reproduced;
mod words;

use std::fs;

use clap::Parser as _;

use super::faults::table::root;
use crate::support::Site;

/// Every guide, by its file's name.
const GUIDES: [&str; 6] = [
    "adopt.md",
    "day-2.md",
    "from-haproxy.md",
    "from-rd-connection-broker.md",
    "from-sessionguard-extension.md",
    "troubleshooting.md",
];

/// What else a block of commands may call: the machine's own tools.
const TOOLS: [&str; 6] = ["cp", "curl", "install", "journalctl", "systemctl", "umask"];

fn guide(name: &str) -> String {
    fs::read_to_string(root().join("deploy/guides").join(name)).unwrap()
}

/// A fenced block: what stands behind its fence, and its text.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    info: String,
    text: String,
}

/// The blocks of a guide, those within lists, too.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => {
                open = Some(Block {
                    info: info.to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a block without its end");
    found
}

/// The files of a guide's configurations: each `sessionguard.toml` begins another one, and what
/// follows is added to it.
fn configurations(text: &str) -> Vec<Vec<(String, String)>> {
    let mut found: Vec<Vec<_>> = Vec::new();
    for Block { info, text } in blocks(text) {
        let (language, file) = info.split_once(' ').unwrap_or((&info, ""));
        match (language, file) {
            ("sh", "") => continue,
            ("toml" | "json", file) if file.ends_with(&format!(".{language}")) => {}
            _ => panic!("neither commands nor a configuration with its file: {info:?}"),
        }
        let part = (file.to_owned(), text);
        match found.last_mut() {
            _ if file == "sessionguard.toml" => found.push(vec![part]),
            Some(whole) => whole.push(part),
            None => panic!("{file} before any sessionguard.toml"),
        }
    }
    found
}

#[test]
fn every_configuration_passes_the_strict_check() {
    let mut checked = 0;
    for name in GUIDES {
        for files in configurations(&guide(name)) {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("conf.d")).unwrap();
            for (file, text) in files {
                fs::write(folder.path().join(&file), text).unwrap();
                checked += 1;
            }
            let main = folder.path().join("sessionguard.toml");
            let output = Site::run(&["check", "--strict"], &main);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        }
    }
    assert!(checked > 12, "{checked}");
}

/// The commands in a line of a shell, each in its words; what is left out may come before or
/// behind `|`, `;`, `&&` and brackets.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '|' | ';' | '&' | '(' | ')' | '>') => {
                words.extend(word.take());
                match c {
                    ' ' => {}
                    // Where the answer goes is none of the command.
                    '>' => words.push(">".to_owned()),
                    _ => commands.push(std::mem::take(&mut words)),
                }
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    assert_eq!(quote, None, "a quote without its end: {line}");
    words.extend(word);
    commands.push(words);
    for words in &mut commands {
        let end = words.iter().position(|word| word == ">");
        words.truncate(end.unwrap_or(words.len()));
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// What is written in `this type` outside of blocks.
fn marked(text: &str) -> Vec<String> {
    let mut within = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            within = !within;
        } else if !within {
            let parts = line.split('`').skip(1).step_by(2);
            found.extend(parts.map(|part| part.replace("\\|", "|")));
        }
    }
    found
}

/// Every command of a guide, from blocks and from its text.
fn every_command(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for block in blocks(text).iter().filter(|block| block.info == "sh") {
        let joined = block.text.replace("\\\n", " ");
        for words in joined.lines().flat_map(commands) {
            let program = words[0].rsplit('/').next().unwrap();
            let known = program == "sessionguard" || TOOLS.contains(&program);
            assert!(known, "nobody looks at {words:?}");
            found.push(words);
        }
    }
    let within = marked(text).into_iter();
    found.extend(
        within
            .filter(|text| text.starts_with("sessionguard "))
            .flat_map(|text| commands(&text)),
    );
    found.retain(|words| words[0].rsplit('/').next() == Some("sessionguard"));
    found
}

#[test]
fn every_command_is_one_that_the_binary_takes() {
    let mut taken = 0;
    for name in GUIDES {
        let text = guide(name);
        for words in every_command(&text) {
            let parsed = sessionguard::cli::Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.unwrap_err());
            taken += 1;
        }
    }
    assert!(taken > 80, "{taken}");
}

#[test]
fn a_wrong_command_and_a_block_that_nobody_checks_are_found() {
    let line = "(umask 077; sessionguard keys create --role agent > 'a b') && x \"y z\" # w";
    let found = commands(line);
    let words: Vec<_> = found.iter().map(|words| words.join("+")).collect();
    assert_eq!(
        words,
        [
            "umask+077",
            "sessionguard+keys+create+--role+agent",
            "x+y z"
        ]
    );
    let text = "Say `sessionguard drian rds1`.\n```sh\nsessionguard status   # now\n```\n";
    let wrong = every_command(text);
    let parses = |words: &Vec<String>| sessionguard::cli::Cli::try_parse_from(words).is_ok();
    assert_eq!(
        wrong.iter().map(parses).collect::<Vec<_>>(),
        [true, false],
        "{wrong:?}"
    );
    for odd in ["```yaml\na: b\n```\n", "```toml\n[log]\n```\n"] {
        assert!(std::panic::catch_unwind(|| configurations(odd)).is_err());
    }
    assert!(std::panic::catch_unwind(|| every_command("```sh\nrm -r /\n```\n")).is_err());
}
