//! What the broker does with a heartbeat: what is news, what is refused, what
//! outlives it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::admin::get;
use super::asking::asked;
use crate::support::{Names, ScriptedAgent, ScriptedGuacd, Stage, Visit, eventually, session};

/// So many hosts, and an agent on each.
pub(super) fn staffed(hosts: usize, toml: &str) -> (Stage, Vec<ScriptedAgent>) {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    // A machine under load must not make agents silent.
    let toml = format!("[broker]\noffline_after_seconds = 600\n{toml}");
    let stage = Stage::adjusted(guacd, hosts, |site| site.with(toml));
    let ids = (1..=hosts).map(|nth| format!("rds{nth}"));
    let agents = ids.map(|id| ScriptedAgent::of(&stage.site, &id)).collect();
    (stage, agents)
}

/// Who is reported where, and how.
fn sessions(stage: &Stage) -> Vec<String> {
    let told = get(&stage.site, "/api/v1/sessions");
    let listed = told["sessions"].as_array().unwrap().iter();
    let text = |session: &Value, name: &str| session[name].as_str().unwrap().to_owned();
    listed
        .map(|s| {
            format!(
                "{} {} {}",
                text(s, "host"),
                text(s, "user"),
                text(s, "state")
            )
        })
        .collect()
}

fn host(stage: &Stage, id: &str) -> Value {
    get(&stage.site, &format!("/api/v1/hosts/{id}"))
}

#[test]
fn a_session_of_an_unknown_age_is_not_said_to_be_old() {
    let (stage, mut agents) = staffed(1, "");
    let untold = json!({ "id": "1", "state": "Active", "user": "bob" });
    agents[0].reports(&[session("ann", "Active", 60), untold]);
    let told = get(&stage.site, "/api/v1/sessions")["sessions"].clone();
    assert!(told[0]["seconds_ago"].as_u64() >= Some(60), "{told}");
    assert_eq!(
        (&told[1]["latest"], &told[1]["seconds_ago"]),
        (&Value::Null, &Value::Null)
    );
    let (code, shown, _) = super::asking::asked(&stage.site, &["sessions"]);
    let bob = shown.lines().find(|line| line.starts_with("bob"));
    let cells: Vec<_> = bob.unwrap().split_whitespace().collect();
    assert_eq!((code, cells[3]), (0, "?"), "{shown}");
}

#[test]
fn what_is_no_news_changes_nothing() {
    let (stage, mut agents) = staffed(1, "");
    let agent = &mut agents[0];
    agent.reports(&[session("ann", "Active", 60)]);
    let early = agent.next(&[session("mallory", "Active", 60)]).to_string();
    let late = agent
        .next(&[session("bob", "Disconnected", 60)])
        .to_string();
    let taken = |body: &str, agent: &ScriptedAgent| {
        let (status, told) = agent.send(body);
        assert_eq!(status, 200, "nobody is to try again: {told}");
        assert!(told["server_time"].is_string());
        told["taken"].as_bool().unwrap()
    };
    assert!(taken(&late, agent));
    assert_eq!(sessions(&stage), ["rds1 bob disconnected"]);
    for again in [&early, &late, &early] {
        assert!(!taken(again, agent));
        assert_eq!(sessions(&stage), ["rds1 bob disconnected"]);
    }
    assert_eq!(host(&stage, "rds1")["agent"]["stale_heartbeats"], 3);

    // The host starts anew: its numbers do, too, and those of before are over.
    let before = agent.next(&[session("mallory", "Active", 60)]).to_string();
    agent.boot = "second start".to_owned();
    agent.seq = 0;
    agent.reports(&[session("carl", "Active", 1)]);
    assert!(!taken(&before, agent));
    assert!(!taken(&late, agent));
    assert_eq!(sessions(&stage), ["rds1 carl active"]);
    stage
        .broker
        .wait_for_lines("Two starts of a host report at once, the one heard of last counts: is its key on two machines?", 1);

    // One that does not count is taken as it comes.
    agent.differs = json!({ "boot_id": null, "seq": null });
    agent.reports(&[session("dora", "Active", 1)]);
    agent.reports(&[]);
    assert_eq!(sessions(&stage), [""; 0]);
}

#[test]
fn what_is_unknown_is_not_empty() {
    let (stage, mut agents) = staffed(1, "");
    let agent = &mut agents[0];
    agent.differs = json!({ "sessions": null, "health": {} });
    agent.reports(&[]);
    let said = host(&stage, "rds1");
    assert_eq!(
        said["report_age_seconds"],
        Value::Null,
        "as without an agent"
    );
    assert_eq!(said["agent"]["sessions_known"], false);
    agent.differs = json!({ "health": {} });
    agent.reports(&[session("ann", "Active", 1)]);
    let said = host(&stage, "rds1");
    assert_eq!((&said["health"], &said["active"]), (&json!(100), &json!(1)));
    assert_eq!(said["agent"]["health_known"], false);
    let checks = json!([{ "name": "disk", "ok": false, "message": "1 % left" }]);
    agent.differs = json!({ "sessions": null, "health": { "score": 61, "checks": checks } });
    agent.reports(&[]);
    let said = host(&stage, "rds1");
    assert_eq!((&said["health"], &said["active"]), (&json!(61), &json!(1)));
    assert_eq!(said["agent"]["failed_checks"], json!(["disk: 1 % left"]));
    assert_eq!(said["agent"]["hostname"], "RDS1");
    assert_eq!(sessions(&stage), ["rds1 ann active"]);
}

#[test]
fn nobody_speaks_for_another_host_and_nonsense_is_refused() {
    let (stage, mut agents) = staffed(2, "");
    let agent = &mut agents[0];
    agent.reports(&[session("ann", "Active", 1)]);
    let good = agent.next(&[]).to_string();
    let (status, told) = agent.send_as("rds2", &good);
    assert_eq!(status, 403, "{told}");
    let old = good.replace("\"protocol_version\":4", "\"protocol_version\":3");
    let nameless = json!({ "protocol_version": 4 }).to_string();
    let long = good.replace("\"RDS1\"", &format!("{:?}", "x".repeat(257)));
    for (body, reason) in [
        ("", "EOF"),
        ("[]", "the heartbeat"),
        (&old, "update the agent"),
        (&nameless, "agent_id"),
        (&long, "a host name of 257 characters"),
    ] {
        let (status, told) = agent.send(body);
        let said = told["error"].as_str().unwrap();
        assert!(status == 400 && said.contains(reason), "{status} {said}");
    }
    let padded = |size: usize| {
        let body =
            |padding: usize| good.replacen('{', &format!("{{\"x\":{:?},", "y".repeat(padding)), 1);
        body(size - body(0).len())
    };
    let (status, told) = agent.send(&padded((1 << 20) + 1));
    assert_eq!(status, 413, "{told}");
    let depth = 200_000;
    let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep_session = good.replace("\"sessions\":[]", &format!("\"sessions\":{nested}"));
    assert_eq!(agent.send(&deep_session).0, 400);
    assert_eq!(sessions(&stage), ["rds1 ann active"]);
    // What is not looked at may be large and deep.
    let deep = agent.next(&[]).to_string();
    let deep = deep.replacen('{', &format!("{{\"x\":{nested},"), 1);
    assert_eq!(agent.send(&deep).1["taken"], true);
    assert_eq!(sessions(&stage), [""; 0]);
    let (status, told) = agent.send(&padded(1 << 20));
    assert_eq!(
        (status, &told["taken"]),
        (200, &json!(false)),
        "it is older"
    );
}

#[test]
fn recorded_heartbeats_are_understood() {
    let (stage, agents) = staffed(1, "");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/heartbeats");
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut recorded: Vec<(PathBuf, Value)> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|file| {
            let body = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            (file, body)
        })
        .collect();
    assert!(recorded.len() >= 3);
    // One host sends them here, each after the one before.
    recorded.sort_by_key(|(_, body)| body["time"].as_str().map(str::to_owned));
    for (nth, (file, mut body)) in recorded.into_iter().enumerate() {
        body["agent_id"] = json!("rds1");
        body["boot_id"] = json!(nth.to_string());
        let (status, told) = agents[0].send(&body.to_string());
        assert_eq!(
            (status, &told["taken"]),
            (200, &json!(true)),
            "{file:?}: {told}"
        );
        let named = body["sessions"].as_array().unwrap().len();
        assert_eq!(sessions(&stage).len(), named, "{file:?}");
    }
}

#[test]
fn a_broker_that_was_killed_knows_who_is_where() {
    let (mut stage, mut agents) = staffed(2, "");
    agents[0].reports(&[]);
    let early = agents[1].next(&[]).to_string();
    agents[1].differs = json!({ "health": { "score": 70 } });
    agents[1].reports(&[session("ann", "Disconnected", 3600)]);
    stage.broker.wait_until_stored("\"user\":\"ann\"");
    stage = stage.restarted(crate::support::Broker::kill);
    let loaded = stage
        .broker
        .wait("What a host said last counts until it is heard", |line| {
            line["host"] == "rds2"
        });
    assert_eq!(loaded["sessions"], 1);
    assert_eq!(sessions(&stage), ["rds2 ann disconnected"]);
    assert!(host(&stage, "rds2")["report_age_seconds"].is_u64());
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), "rds2");
    // What was replayed before is a replay still.
    assert_eq!(agents[1].send(&early).1["taken"], false);
    agents[1].reports(&[]);
}

#[test]
fn a_host_that_nobody_configured_is_listed_and_counts_once_it_is() {
    let (mut stage, mut agents) = staffed(1, "");
    let mut stranger = ScriptedAgent::of(&stage.site, "rds2");
    stranger.reports(&[session("ann", "Disconnected", 60)]);
    agents[0].reports(&[]);
    for path in ["hosts", "status"] {
        let unmatched = &get(&stage.site, &format!("/api/v1/{path}"))["unmatched"];
        assert_eq!(
            (&unmatched[0]["id"], &unmatched[0]["hostname"]),
            (&json!("rds2"), &json!("RDS2"))
        );
        assert_eq!(unmatched.as_array().unwrap().len(), 1);
        let (code, shown, _) = asked(&stage.site, &[path]);
        assert!(code == 0 && shown.contains("rds2 (RDS2), heard"), "{shown}");
    }
    assert_eq!(sessions(&stage), [""; 0]);
    let (visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(
        stage.host_of(&peer),
        "rds1",
        "nobody is placed on the other"
    );
    drop((visitor, peer));
    eventually("no lease", || {
        let leases = get(&stage.site, "/api/v1/leases?user=ann");
        leases["leases"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });

    let second = crate::support::ScriptedHost::up();
    stage.hosts.push(second);
    let addresses: Vec<_> = stage.hosts.iter().map(|host| host.address()).collect();
    stage.site.change_first(Stage::farm(&addresses, &[]));
    stage.site.write();
    stage
        .broker
        .wait("What a host said last counts until it is heard", |line| {
            line["host"] == "rds2"
        });
    assert_eq!(get(&stage.site, "/api/v1/hosts")["unmatched"], json!([]));
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), "rds2");
}
