//! What agents are asked to do, from the command line to what came of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::{answered, get, request, socket};
use super::asking::asked;
use super::heartbeats::staffed;
use crate::support::{Stage, Visit, eventually, ourselves, session};

const PATH: &str = "/api/v1/hosts/rds1/commands";

fn listed(stage: &Stage) -> Vec<Value> {
    get(&stage.site, PATH)["commands"]
        .as_array()
        .unwrap()
        .clone()
}

fn order(stage: &Stage, order: &Value) -> (u16, Value) {
    let body = order.to_string();
    answered(&socket(&stage.site), &request("POST", PATH, &body))
}

#[test]
fn a_command_goes_from_the_command_line_to_the_agent_and_its_answer_back() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let (stage, mut agents) = staffed(2, &format!("[log]\naudit = {trail:?}\n"));
    let (agent, other) = agents.split_at_mut(1);
    let (agent, other) = (&mut agent[0], &mut other[0]);
    let message = [
        "sessions",
        "message",
        "rds1",
        "--all",
        "--text",
        "Back at nine",
    ];
    let (code, _, said) = asked(&stage.site, &message);
    assert_eq!(code, 1);
    assert!(said.contains("no agent of rds1 was ever heard"), "{said}");
    assert_eq!(agent.reports(&[])["commands"], json!([]));
    other.reports(&[]);

    let (code, shown, said) = asked(&stage.site, &message);
    assert!(
        code == 0 && shown.contains("waits for the agent of rds1"),
        "{shown}{said}"
    );
    let (_, again, _) = asked(&stage.site, &message);
    assert!(again.contains("waited already"), "{again}");
    let logoff = [
        "sessions",
        "logoff",
        "rds1",
        "--user",
        "CORP\\Ann",
        "--expires",
        "1h",
    ];
    assert_eq!(asked(&stage.site, &logoff).0, 0);
    let stage = stage.restarted(crate::support::Broker::kill);
    assert_eq!(other.reports(&[])["commands"], json!([]));
    for _ in 0..2 {
        let told = agent.reports(&[]);
        let commands = told["commands"].as_array().unwrap();
        assert_eq!(commands.len(), 2, "{told}");
        assert_eq!(
            (
                &commands[0]["type"],
                &commands[0]["all"],
                &commands[0]["message"]
            ),
            (&json!("message"), &json!(true), &json!("Back at nine"))
        );
        assert_eq!(
            (
                &commands[1]["type"],
                &commands[1]["user"],
                &commands[1]["domain"]
            ),
            (&json!("logoff"), &json!("ann"), &json!("corp"))
        );
        assert!(commands[1]["expires_at"].as_str() > told["server_time"].as_str());
    }
    let state = |nth: usize| listed(&stage)[nth]["state"].clone();
    assert_eq!(
        (state(1), state(0)),
        (json!("delivered"), json!("delivered"))
    );

    // Another host has nothing to say of it; a replay of this one's is told
    // nothing.
    let ids: Vec<_> = listed(&stage).iter().map(|c| c["id"].clone()).collect();
    let results = |ok: bool| {
        json!([{ "id": ids[0], "type": "logoff", "ok": ok, "message": "1 sessions",
                 "finished_at": "2026-11-30T08:22:54.098Z" }])
    };
    other.differs = json!({ "command_results": results(false) });
    other.reports(&[]);
    assert_eq!(state(0), "delivered");
    agent.differs = json!({ "command_results": results(true) });
    let body = agent.next(&[]).to_string();
    let told = agent.send(&body).1;
    assert_eq!(told["commands"].as_array().unwrap().len(), 1);
    assert_eq!(agent.send(&body).1["commands"], json!([]));
    let done = &listed(&stage)[0];
    assert_eq!(
        (&done["state"], &done["answer"]),
        (&json!("done"), &json!("1 sessions"))
    );
    let by = done["asked_by"].as_str().unwrap();
    assert_eq!(by, ourselves().0);
    let line = stage.broker.wait("Command answered", |_| true);
    assert_eq!(line["asked_by"], by);
    let told = eventually("three lines", || {
        let text = std::fs::read_to_string(&trail).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        Some(lines.collect::<Vec<Value>>()).filter(|lines| lines.len() == 3)
    });
    for (nth, (action, command)) in [
        ("command-given", &ids[1]),
        ("command-given", &ids[0]),
        ("command-answered", &ids[0]),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(told[nth]["event.action"], action);
        assert_eq!(&told[nth]["sessionguard.command"], command);
        assert_eq!(told[nth]["sessionguard.asked_by"], by);
    }
}

#[test]
fn what_cannot_be_a_command_is_refused_with_its_reason() {
    let (stage, mut agents) = staffed(1, "");
    agents[0].reports(&[]);
    for (wanted, reason) in [
        (json!({ "type": "format_disk" }), "unknown variant"),
        (json!({ "type": "logoff" }), "say which sessions"),
        (json!({ "type": "logoff", "user": " " }), "user is blank"),
        (
            json!({ "type": "logoff", "all": true, "user": "ann" }),
            "one of",
        ),
        (
            json!({ "type": "restart_server", "all": true }),
            "whole host",
        ),
        (json!({ "type": "message", "all": true }), "a text"),
        (
            json!({ "type": "logoff", "all": true, "expires": "1s" }),
            "10s",
        ),
        (
            json!({ "type": "logoff", "all": true, "expires": "soon" }),
            "no time",
        ),
        (
            json!({ "type": "logoff", "everybody": true }),
            "unknown field",
        ),
    ] {
        let (status, told) = order(&stage, &wanted);
        let said = told["error"].as_str().unwrap();
        assert!(
            status == 400 && said.contains(reason),
            "{wanted}: {status} {said}"
        );
    }
    for arguments in [
        vec!["sessions", "logoff", "rds1"],
        vec!["sessions", "logoff", "rds1", "--all", "--user", "ann"],
        vec!["sessions", "message", "rds1", "--all"],
    ] {
        assert_eq!(asked(&stage.site, &arguments).0, 2, "{arguments:?}");
    }
    let (code, _, said) = asked(&stage.site, &["sessions", "logoff", "rds7", "--all"]);
    assert!(code == 1 && said.contains("did you mean rds1?"), "{said}");
    assert_eq!(listed(&stage), Vec::<Value>::new());
    let (status, told) = order(&stage, &json!({ "type": "restart_server" }));
    assert_eq!((status, &told["is_new"]), (200, &json!(true)));
    let told = agents[0].reports(&[]);
    assert_eq!(told["commands"][0]["type"], "restart_server");
}

/// Orders a drain of rds1 that ends in a restart.
fn drain(stage: &Stage, online_after_restart: bool) {
    let wish = json!({
        "mode": "drain", "restart_when_drained": true,
        "online_after_restart": online_after_restart,
    });
    let request = request("PATCH", "/api/v1/hosts/rds1", &wish.to_string());
    let (status, told) = answered(&socket(&stage.site), &request);
    assert_eq!(status, 200, "{told}");
}

fn mode(stage: &Stage) -> Value {
    get(&stage.site, "/api/v1/hosts/rds1")["mode"].clone()
}

/// The lines of the trail that say that a command was given.
fn given(trail: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(trail).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line["event.action"] == "command-given")
        .collect()
}

#[test]
fn whoever_hangs_up_leaves_no_command_that_nobody_knows_of() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let (stage, mut agents) = staffed(1, &format!("[log]\naudit = {trail:?}\n"));
    agents[0].reports(&[]);
    for nth in 0..40 {
        let order = json!({ "type": "logoff", "user": format!("u{nth}"), "expires": "1h" });
        let mut asks = UnixStream::connect(socket(&stage.site)).unwrap();
        asks.write_all(&request("POST", PATH, &order.to_string()))
            .unwrap();
        // Somewhere between before it is read and after it is written.
        sleep(Duration::from_micros(500 * (nth % 8)));
    }
    let (status, _) = order(&stage, &json!({ "type": "logoff", "user": "last" }));
    assert_eq!(status, 200);
    let users = |lines: &[Value], of: fn(&Value) -> &Value| -> BTreeSet<String> {
        lines.iter().map(|line| of(line).to_string()).collect()
    };
    let known = eventually("a line for each command", || {
        let known = users(&listed(&stage), |command| &command["target"]["user"]);
        let told = users(&given(&trail), |line| &line["user.target.name"]);
        (known == told && known.contains("\"last\"")).then_some(known)
    });
    let stage = stage.restarted(crate::support::Broker::kill);
    let after = users(&listed(&stage), |command| &command["target"]["user"]);
    assert_eq!(after, known, "what is on disk was listed");
}

#[test]
fn a_drained_host_is_restarted_once_nobody_is_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let (stage, mut agents) = staffed(2, &format!("[log]\naudit = {trail:?}\n"));
    let agent = &mut agents[0];
    let nothing = json!([]);
    agent.reports(&[]);
    let visit = Visit::office("bob");
    let burden = stage.burden("rds2");
    let (visitor, peer) = stage.desktop(&visit);
    assert_eq!(stage.host_of(&peer), "rds1");
    drain(&stage, false);
    for sessions in [vec![session("ann", "Disconnected", 60)], Vec::new()] {
        let told = agent.reports(&sessions);
        assert_eq!(told["commands"], nothing, "a session, or only a tunnel");
    }
    drop((visitor, peer));
    let restart = eventually("a restart", || {
        let commands = agent.reports(&[])["commands"].clone();
        (commands != nothing).then(|| commands[0].clone())
    });
    assert_eq!(restart["type"], "restart_server");
    let line = eventually("a line in the trail", || given(&trail).pop());
    assert_eq!(line["sessionguard.command_type"], "restart_server");
    assert_eq!(
        line["sessionguard.actor"], line["sessionguard.asked_by"],
        "whoever gave the order, not the agent: {line}"
    );
    assert_eq!(
        agent.reports(&[])["commands"][0]["id"],
        restart["id"],
        "one only"
    );
    agent.boot = "second start".to_owned();
    agent.seq = 0;
    agent.differs = json!({ "command_results": [{ "id": restart["id"], "ok": true }] });
    for _ in 0..3 {
        assert_eq!(agent.reports(&[])["commands"], nothing);
    }
    assert_eq!(listed(&stage).len(), 1);
    assert_eq!(mode(&stage), "drain", "until somebody says otherwise");
    // Another order is another restart.
    drain(&stage, true);
    let again = agent.reports(&[])["commands"][0].clone();
    assert_eq!(again["type"], "restart_server");
    assert_ne!(again["id"], restart["id"]);
    agent.reports(&[]);
    assert_eq!(mode(&stage), "drain", "it has not started anew yet");
    agent.boot = "third start".to_owned();
    agent.reports(&[]);
    assert_eq!(mode(&stage), "online");
    drop(burden);
}
