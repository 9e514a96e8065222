//! The audit trail: one line for every decision, and no secret in any.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::support::{Names, ScriptedGuacd, Site, Stage, Visit, eventually};

fn stage(target: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, 2, |site| {
        site.with(format!("[log]\naudit = {target:?}\n"))
    })
}

/// The lines of the trail, once there are so many.
fn trail(path: &Path, count: usize) -> Vec<Value> {
    eventually("the lines of the trail", || {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then(|| {
            assert_eq!(lines.len(), count, "{text}");
            lines
                .iter()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        })
    })
}

#[test]
fn every_decision_leaves_one_line_with_the_schemas_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let stage = stage(path.to_str().unwrap());
    let (_visitor, peer) = stage.tunnel(&Visit::office("CORP\\Ann"));
    Visit::rdp("bob")
        .answer("hostname", "sessionguard:resource=nothing")
        .refused_at(&stage.broker);
    let elsewhere = Visit::rdp("carl").answer("hostname", "other.example.test");
    elsewhere.at(&stage.broker).ready();
    // Nobody was placed by asking.
    let main = stage.site.folder().join("sessionguard.toml");
    Site::run(
        &["explain", "--user", "dora", "--resource", "office"],
        &main,
    );

    let lines = trail(&path, 3);
    let placed = stage.broker.placed("corp\\ann");
    for (name, value) in [
        ("event.kind", "event"),
        ("event.action", "placement"),
        ("event.outcome", "success"),
        ("user.name", "ann"),
        ("user.domain", "corp"),
        ("host.id", stage.host_of(&peer).as_str()),
        ("host.name", stage.host_of(&peer).as_str()),
        ("sessionguard.resource", "office"),
        ("sessionguard.farm", "office"),
        ("sessionguard.reason", "best score"),
        ("sessionguard.act", "placement"),
        (
            "sessionguard.decision_id",
            placed["decision_id"].as_str().unwrap(),
        ),
        ("sessionguard.tunnel", placed["tunnel"].as_str().unwrap()),
    ] {
        assert_eq!(lines[0][name], value, "{name} in {}", lines[0]);
    }
    assert_eq!(lines[0]["event.category"][0], "session");
    assert_eq!(lines[0]["sessionguard.configuration"], 1);
    let time = lines[0]["@timestamp"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");

    assert_eq!(lines[1]["event.outcome"], "failure");
    assert_eq!(
        lines[1]["event.reason"],
        "the connection names an unknown resource"
    );
    assert_eq!(lines[1].get("host.id"), None);
    assert_eq!(lines[2]["event.outcome"], "success");
    assert!(
        lines[2]["event.reason"]
            .as_str()
            .unwrap()
            .contains("passed through")
    );
}

#[test]
fn no_secret_is_kept_with_a_decision() {
    const MARK: &str = "Geheim-4c81e";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let stage = stage(path.to_str().unwrap());
    let secret = |visit: Visit| {
        let names = [
            "password",
            "gateway-password",
            "sftp-password",
            "initial-program",
        ];
        names
            .iter()
            .fold(visit, |visit, name| visit.answer(name, MARK))
    };
    drop(stage.tunnel(&secret(Visit::office("marked-user"))));
    secret(Visit::rdp("marked-user").answer("hostname", "sessionguard:id=0"))
        .refused_at(&stage.broker);
    let Stage { site, broker, .. } = stage;
    trail(&path, 2);
    broker.signal("TERM");
    assert!(broker.exit().success());
    let kept = [fs::read(&path).unwrap(), fs::read(site.store()).unwrap()];
    for bytes in kept {
        let holds = |mark: &str| bytes.windows(mark.len()).any(|w| w == mark.as_bytes());
        assert!(holds("marked-user"), "decisions are kept");
        assert!(!holds(MARK));
    }
}

#[test]
fn a_blocked_trail_stalls_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("audit.pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    // Held open and never read: it takes 64 KiB, then blocks.
    let mut both = fs::OpenOptions::new();
    let _reader = both.read(true).write(true).open(&pipe).unwrap();
    let stage = stage(pipe.to_str().unwrap());
    let started = Instant::now();
    for round in 0..200 {
        let visit = Visit::rdp(&format!("{}{round}", "u".repeat(200)));
        visit
            .answer("hostname", "sessionguard:resource=nothing")
            .refused_at(&stage.broker);
    }
    // guacd hands over the refused ones first, so that only Guacamole's side is looked at.
    let mut visitor = Visit::office("ann").at(&stage.broker);
    visitor.ready();
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    drop(visitor);
    stage.broker.signal("TERM");
    let Stage { broker, .. } = stage;
    let stopping = Instant::now();
    broker.wait(
        "The last lines of the audit trail could not be written",
        |_| true,
    );
    assert!(broker.exit().success());
    assert!(
        stopping.elapsed().as_secs() < 15,
        "{:?}",
        stopping.elapsed()
    );
}

#[test]
fn a_trail_that_cannot_be_opened_is_said_at_the_start() {
    let site = Site::new(([127, 0, 0, 1], 1).into());
    let site = site.with("[log]\naudit = \"/nonexistent/audit.jsonl\"\n");
    let output = Site::run(&["serve"], &site.write());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("cannot write the audit trail /nonexistent/audit.jsonl"),
        "{said}"
    );
    // A slip in a word makes no file.
    let site = Site::new(([127, 0, 0, 1], 1).into()).with("[log]\naudit = \"stdot\"\n");
    assert_eq!(Site::run(&["check"], &site.write()).status.code(), Some(78));
}
