//! Modes that are changed at run time: what they admit, what they survive, and
//! who is told.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;

use serde_json::Value;

use crate::support::{
    BINARY, Broker, DEADLINE, GuacdPeer, Names, Refusal, ScriptedAgent, ScriptedGuacd, Site, Stage,
    Visit, Visitor, eventually,
};

/// What a command ended with, said, and complained of.
fn run(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let main = site.folder().join("sessionguard.toml");
    let output = Site::run(arguments, &main);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// What a command that succeeds said.
fn done(stage: &Stage, arguments: &[&str]) -> String {
    let (code, said, complaint) = run(&stage.site, arguments);
    assert_eq!(code, 0, "{arguments:?}: {complaint}");
    said
}

/// One host as `status` has it.
fn host(site: &Site, id: &str) -> Value {
    let (_, said, _) = run(site, &["status", "-o", "json"]);
    let status: Value = serde_json::from_str(&said).unwrap();
    let hosts = status["hosts"].as_array().unwrap().clone();
    hosts.into_iter().find(|host| host["id"] == id).unwrap()
}

fn mode(stage: &Stage, id: &str) -> String {
    host(&stage.site, id)["mode"].as_str().unwrap().to_owned()
}

/// Ann's desktop, and the host she is on.
fn ann(stage: &Stage) -> (Visitor, GuacdPeer, String) {
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    (visitor, peer, host)
}

/// How somebody who wants the desktop is refused.
fn refused(stage: &Stage, user: &str) -> Refusal {
    let refusal = Visit::office(user).refused_at(&stage.broker);
    // guacd was dialled for it in vain: the next one it hands over is another.
    stage.guacd.next();
    refusal
}

/// Ann leaves her session behind.
fn leave(stage: &Stage, (visitor, peer, _): (Visitor, GuacdPeer, String)) {
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));
}

#[test]
fn drain_takes_back_who_was_there_and_nobody_new() {
    let stage = Stage::of(2);
    let tunnel = ann(&stage);
    let first = tunnel.2.clone();
    leave(&stage, tunnel);
    let said = done(&stage, &["drain", &first, "--reason", "new disks"]);
    assert!(
        said.contains(&format!("{first}: drain, was online")),
        "{said}"
    );
    // The lingering lease costs the other host nothing, so that a newcomer
    // would be drawn here as often as there.
    for n in 0..4 {
        let (_visitor, peer) = stage.tunnel(&Visit::office(&format!("new{n}")));
        assert_ne!(stage.host_of(&peer), first);
    }
    let tunnel = ann(&stage);
    assert_eq!(tunnel.2, first);
}

#[test]
fn maintenance_takes_nobody_and_online_everybody_again() {
    let mut stage = Stage::of(1);
    let mut tunnel = ann(&stage);
    let said = done(
        &stage,
        &[
            "maintenance",
            "rds1",
            "--force",
            "--reason",
            "new disks",
            "--message",
            "back at two",
        ],
    );
    assert!(said.contains("farm office has no usable host"), "{said}");
    let alarm = stage.broker.wait("Farm has no usable host left", |_| true);
    assert_eq!(
        (&alarm["farm"], &alarm["level"]),
        (&"office".into(), &"WARN".into())
    );
    // The open tunnel is left alone.
    tunnel.1.stand();
    tunnel.0.hear_past_nops("sync");
    let refusal = refused(&stage, "bob");
    assert_eq!(refusal.code, 0x201);
    assert!(
        !refusal.text.contains("disks") && !refusal.text.contains("two"),
        "{refusal:?}"
    );
    let line = stage
        .broker
        .wait("Refused", |line| line["orders"].is_string());
    let orders = line["orders"].as_str().unwrap();
    assert!(orders.starts_with("rds1 in maintenance by "), "{orders}");
    assert!(orders.ends_with(": new disks"), "{orders}");
    leave(&stage, tunnel);
    let refusal = refused(&stage, "ann");
    assert_eq!(refusal.code, 0x201);
    let (_, explained, _) = run(
        &stage.site,
        &["explain", "--user", "ann", "--resource", "office"],
    );
    assert!(
        explained.contains("out: in maintenance (by "),
        "{explained}"
    );
    assert!(explained.contains(": new disks)"), "{explained}");
    let (_, status, _) = run(&stage.site, &["status"]);
    assert!(status.contains("rds1: maintenance from "), "{status}");
    assert!(
        status.contains(": new disks (users are told: back at two)"),
        "{status}"
    );

    done(&stage, &["online", "rds1"]);
    assert_eq!(ann(&stage).2, "rds1");
    let (_, status, _) = run(&stage.site, &["status"]);
    assert!(!status.contains("rds1: "), "{status}");
    assert!(stage.broker.is_running());
}

#[test]
fn a_mode_outlives_restart_crash_and_reload() {
    let stage = Stage::of(2);
    done(&stage, &["drain", "rds1", "--reason", "new disks"]);
    done(&stage, &["reload"]);
    let stage = stage.restarted(|broker| {
        broker.signal("TERM");
        assert!(broker.exit().success());
    });
    assert_eq!(mode(&stage, "rds1"), "drain");
    done(&stage, &["maintenance", "rds1"]);
    // It was answered: a power cut in this moment does not undo it.
    let stage = stage.restarted(Broker::kill);
    assert_eq!(mode(&stage, "rds1"), "maintenance");
    for n in 0..4 {
        let (_visitor, peer) = stage.tunnel(&Visit::office(&format!("new{n}")));
        assert_eq!(stage.host_of(&peer), "rds2");
    }
    // The files have another opinion, and the order wins.
    let stage = stage.restarted_with(&[("rds1", "drain"), ("rds2", "drain")]);
    let rds1 = host(&stage.site, "rds1");
    assert_eq!(
        (&rds1["mode"], &rds1["mode_configured"]),
        (&"maintenance".into(), &"drain".into())
    );
    assert_eq!(mode(&stage, "rds2"), "drain");
    done(&stage, &["online", "rds1"]);
    let (_visitor, peer) = stage.tunnel(&Visit::office("bob"));
    assert_eq!(stage.host_of(&peer), "rds1");
}

#[test]
fn a_mode_with_an_end_comes_back_by_itself() {
    let stage = Stage::one();
    done(
        &stage,
        &["maintenance", "rds1", "--until", "+5s", "--force"],
    );
    let order = host(&stage.site, "rds1")["order"].clone();
    assert!(order["until"].is_string(), "{order}");
    assert_eq!(refused(&stage, "bob").code, 0x201);
    // Nobody need be awake for it.
    let stage = stage.restarted(Broker::kill);
    eventually("the mode is back", || {
        (mode(&stage, "rds1") == "online").then_some(())
    });
    let (_visitor, peer) = stage.tunnel(&Visit::office("bob"));
    assert_eq!(stage.host_of(&peer), "rds1");
    assert_eq!(host(&stage.site, "rds1")["order"], Value::Null);
}

#[test]
fn an_announced_mode_is_shown_kept_and_cancelled() {
    let stage = Stage::of(2);
    let said = done(
        &stage,
        &[
            "maintenance",
            "rds1",
            "--from",
            "+1h",
            "--until",
            "+4h",
            "--message",
            "tonight",
        ],
    );
    assert!(
        said.contains("rds1: maintenance from ") && said.contains("online until then"),
        "{said}"
    );
    let told = host(&stage.site, "rds1");
    assert_eq!(told["mode"], "online");
    assert_eq!(told["announced"][0]["message"], "tonight");
    let (_, status, _) = run(&stage.site, &["status"]);
    assert!(
        status.contains("rds1: announced: maintenance from "),
        "{status}"
    );
    // The other one cannot go for good: tonight nobody would be there.
    let (code, _, complaint) = run(&stage.site, &["drain", "rds2"]);
    assert_eq!(code, 1);
    assert!(
        complaint.contains("on farm office would have no usable host"),
        "{complaint}"
    );
    done(&stage, &["drain", "rds2", "--until", "+30m"]);
    let said = done(&stage, &["drain", "rds1", "--force"]);
    assert!(said.contains("still to come: maintenance from "), "{said}");
    let said = done(&stage, &["online", "rds1"]);
    assert!(said.contains("cancelled: maintenance from "), "{said}");
    assert_eq!(
        host(&stage.site, "rds1")["announced"],
        Value::Array(Vec::new())
    );
}

#[test]
fn a_farm_is_ordered_as_a_whole_and_its_last_host_only_by_force() {
    let stage = Stage::of(3);
    let (code, said, complaint) = run(&stage.site, &["drain", "farm:office"]);
    assert_eq!((code, said.as_str()), (1, ""));
    assert!(
        complaint.contains("farm office would have no usable host"),
        "{complaint}"
    );
    assert!(complaint.contains("--force"), "{complaint}");
    let modes = || ["rds1", "rds2", "rds3"].map(|id| mode(&stage, id));
    assert_eq!(modes(), ["online"; 3]);
    let said = done(&stage, &["drain", "farm:office", "--force", "-o", "json"]);
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(told["hosts"][0]["mode_before"], "online");
    assert_eq!(told["order"]["mode"], "drain");
    assert_eq!(told["farms_without_host"][0]["id"], "office");
    assert_eq!(modes(), ["drain"; 3]);
    assert_eq!(refused(&stage, "bob").code, 0x201);
    let line = stage.broker.wait("Host mode changed", |_| true);
    assert_eq!(line["hosts"], "rds1,rds2,rds3");
    done(&stage, &["online", "farm:office"]);
    assert_eq!(modes(), ["online"; 3]);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let stage = Stage::of(2);
    let long = "x".repeat(501);
    for (arguments, code, reason) in [
        (
            &["drain", "rsd1"][..],
            1,
            "host rsd1 is not configured: was rds1 meant?",
        ),
        (
            &["drain", "farm:offcie"],
            1,
            "farm offcie is not configured: was office meant?",
        ),
        (
            &["drain", "b\u{fc}ro/1"],
            1,
            "host b\u{fc}ro/1 is not configured",
        ),
        (&["drain", "rds1", "--reason", " "], 2, "reason is blank"),
        (&["drain", "rds1", "--reason", &long], 2, "501 characters"),
        (
            &["drain", "rds1", "--message", "a\nb"],
            2,
            "control character",
        ),
        (&["drain", "rds1", "--until", "soon"], 2, "write 22:00"),
        (
            &["drain", "rds1", "--until", "2020-01-01 10:00"],
            2,
            "until lies in the past",
        ),
        (
            &["drain", "rds1", "--from", "2020-01-01T10:00:00Z"],
            2,
            "from lies in the past",
        ),
        (
            &[
                "drain",
                "rds1",
                "--from",
                "2199-01-02 10:00",
                "--until",
                "2199-01-01 10:00",
            ],
            2,
            "is not after from",
        ),
        (
            &["maintenance", "rds1", "--restart-when-drained"],
            2,
            "the mode drain only",
        ),
        (
            &["drain", "rds1", "--online-after-restart"],
            2,
            "--restart-when-drained",
        ),
        (&["online", "rds1", "--wait"], 2, "not waited for"),
        (
            &["drain", "rds1", "--wait", "--from", "+1h"],
            2,
            "cannot be used with",
        ),
        (&["drain", "rds1", "--timeout", "1s"], 2, "--wait"),
        (&["drain"], 2, "TARGET"),
    ] {
        let (got, said, complaint) = run(&stage.site, arguments);
        assert_eq!(got, code, "{arguments:?}: {complaint}");
        assert!(complaint.contains(reason), "{arguments:?}: {complaint}");
        assert_eq!(said, "");
    }
    assert_eq!(mode(&stage, "rds1"), "online");
    assert_eq!(stage.broker.lines("Host mode changed").len(), 0);
    done(&stage, &["drain", "host:rds1"]);
    assert_eq!(stage.broker.wait_for_lines("Host mode changed", 1).len(), 1);
}

#[test]
fn two_orders_at_once_do_not_lose_each_other() {
    let stage = Stage::of(3);
    let (count, start) = (6, Arc::new(Barrier::new(6)));
    let main = stage.site.folder().join("sessionguard.toml");
    let ordering: Vec<_> = (0..count)
        .map(|n| {
            let (start, main) = (Arc::clone(&start), main.clone());
            thread::spawn(move || {
                let host = if n % 2 == 0 { "rds1" } else { "rds2" };
                start.wait();
                Site::run(&["maintenance", host], &main).status.code()
            })
        })
        .collect();
    for thread in ordering {
        assert_eq!(thread.join().unwrap(), Some(0));
    }
    assert_eq!(
        ["rds1", "rds2", "rds3"].map(|id| mode(&stage, id)),
        ["maintenance", "maintenance", "online"]
    );
    // Of the last two hosts only one can go, however close they are asked for.
    let pairs = [["online", "farm:office"], ["drain", "rds3"]];
    pairs
        .iter()
        .for_each(|arguments| drop(done(&stage, arguments)));
    let start = Arc::new(Barrier::new(2));
    let ordering = ["rds1", "rds2"].map(|host| {
        let (start, main) = (Arc::clone(&start), main.clone());
        thread::spawn(move || {
            start.wait();
            Site::run(&["drain", host], &main).status.code()
        })
    });
    let mut codes = ordering.map(|thread| thread.join().unwrap());
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1)]);
}

#[test]
fn every_change_leaves_a_line_in_the_trail_that_says_who() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 2, |site| {
        site.with(format!("[log]\naudit = {path:?}\n"))
    });
    done(
        &stage,
        &["drain", "rds1", "--reason", "new disks", "--until", "+1h"],
    );
    done(&stage, &["maintenance", "farm:office", "--force"]);
    assert_ne!(run(&stage.site, &["drain", "nobody"]).0, 0);
    let lines = eventually("three lines", || {
        let text = std::fs::read_to_string(&path).ok()?;
        let lines: Vec<Value> = text.lines().flat_map(serde_json::from_str).collect();
        (lines.len() >= 3).then_some(lines)
    });
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let uid = Command::new("id").arg("-u").output().unwrap().stdout;
    let uid = String::from_utf8(uid).unwrap();
    for (name, value) in [
        ("event.action", "host-mode-changed"),
        ("event.outcome", "success"),
        ("event.reason", "new disks"),
        ("user.id", uid.trim()),
        ("host.id", "rds1"),
        ("sessionguard.mode", "drain"),
        ("sessionguard.mode_before", "online"),
    ] {
        assert_eq!(lines[0][name], value, "{name} in {}", lines[0]);
    }
    assert!(lines[0]["sessionguard.until"].is_string());
    assert_eq!(lines[0].get("sessionguard.farm"), None);
    for (line, host, before) in [(&lines[1], "rds1", "drain"), (&lines[2], "rds2", "online")] {
        assert_eq!(
            (&line["host.id"], &line["sessionguard.mode_before"]),
            (&host.into(), &before.into())
        );
        assert_eq!(line["sessionguard.farm"], "office");
        assert_eq!(line["sessionguard.farms_without_host"][0], "office");
    }
    let said = stage
        .broker
        .wait("Host mode changed", |line| line["reason"] == "new disks");
    assert!(
        said["by"].is_string() && said["until"].is_string(),
        "{said}"
    );
}

/// A command that goes on.
fn going(site: &Site, arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg("--config");
    command.arg(site.folder().join("sessionguard.toml"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What it ended with and complained of.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let until = std::time::Instant::now() + DEADLINE;
    while child.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > until {
            child.kill().unwrap();
            panic!("it does not end");
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn wait_ends_when_the_host_is_empty() {
    let stage = Stage::of(2);
    let tunnel = ann(&stage);
    let host = tunnel.2.clone();
    let waiting = going(&stage.site, &["drain", &host, "--wait"]);
    stage.broker.wait("Host mode changed", |_| true);
    leave(&stage, tunnel);
    let (code, said) = ended(waiting);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("nobody is left\n"), "{said}");
}

#[test]
fn wait_goes_on_with_a_broker_that_was_started_anew() {
    let mut stage = Stage::of(2);
    let (visitor, peer, host) = ann(&stage);
    let mut waiting = going(&stage.site, &["drain", &host, "--wait"]);
    stage.broker.wait("Host mode changed", |_| true);
    let mut said = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let mut hears = |words: &str| {
        said.by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains(words))
            .expect(words)
    };
    hears(": 1 tunnels");
    stage = stage.restarted(|broker| {
        broker.kill();
        hears("does not answer");
    });
    assert_eq!(hears("nobody is left"), "nobody is left");
    assert_eq!(ended_with(waiting), Some(0));
    drop((visitor, peer));
    stage.broker.wait("Listening", |_| true);
}

fn ended_with(mut child: Child) -> Option<i32> {
    eventually("the end", || child.try_wait().unwrap()).code()
}

#[test]
fn wait_takes_the_word_of_an_agent_that_is_heard_and_of_no_other() {
    let stage = Stage::of(2);
    let mut agent = ScriptedAgent::of(&stage.site, "rds1");
    agent.reports(&[]);
    // It said so before it was asked, and says nothing more.
    let arguments = ["drain", "rds1", "--wait", "--timeout", "3s"];
    let (code, said) = ended(going(&stage.site, &arguments));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("its agent's next report"), "{said}");

    let mut waiting = going(&stage.site, &["drain", "rds1", "--wait"]);
    eventually("the end of the wait", || {
        agent.reports(&[]);
        waiting.try_wait().unwrap()
    });
    let (code, said) = ended(waiting);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("nobody is left\n"), "{said}");
}

#[test]
fn wait_gives_up_in_time_or_when_told_and_the_mode_stays() {
    let stage = Stage::of(2);
    let (_visitor, _peer, on) = ann(&stage);
    let waiting = going(&stage.site, &["drain", &on, "--wait", "--timeout", "1s"]);
    let (code, said) = ended(waiting);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("time is up: drain stays in force"), "{said}");
    assert!(
        said.contains(": 1 tunnels, 0 placements under way"),
        "{said}"
    );
    assert_eq!(mode(&stage, &on), "drain");
    // Maintenance waits for placements under way alone, and there are none.
    let waiting = going(&stage.site, &["maintenance", &on, "--wait"]);
    assert_eq!(
        ended(waiting),
        (Some(0), "no placement is under way\n".to_owned())
    );
    // Somebody else has it online again: there is nothing left to wait for.
    let waiting = going(&stage.site, &["drain", &on, "--wait"]);
    stage.broker.wait_for_lines("Host mode changed", 3);
    done(&stage, &["online", &on]);
    let (code, said) = ended(waiting);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is online by now"), "{said}");
}

#[test]
fn ctrl_c_ends_the_wait_and_not_the_order() {
    let stage = Stage::of(2);
    let (_visitor, _peer, on) = ann(&stage);
    let mut waiting = going(&stage.site, &["drain", &on, "--wait"]);
    // It has looked once when it says what is left: from then on it listens.
    let mut first = Vec::new();
    let mut said = waiting.stderr.take().unwrap();
    while first.last() != Some(&b'\n') {
        let mut byte = [0];
        std::io::Read::read_exact(&mut said, &mut byte).unwrap();
        first.push(byte[0]);
    }
    let kill = format!("kill -INT {}", waiting.id());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    let status = eventually("the end of the wait", || waiting.try_wait().unwrap());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert_eq!(status.code(), Some(3), "{rest}");
    assert!(rest.contains("interrupted: drain stays in force"), "{rest}");
    assert_eq!(mode(&stage, &on), "drain");
}

#[test]
fn a_placement_under_way_when_maintenance_begins_goes_elsewhere_or_is_waited_for() {
    let stage = Stage::of(2);
    // It is placed, and its desktop is not there yet.
    let (visitor, mut peer) = stage.tunnel(&Visit::office("ann"));
    let on = stage.host_of(&peer);
    let waiting = going(&stage.site, &["maintenance", &on, "--wait"]);
    stage.broker.wait("Host mode changed", |_| true);
    eventually("it is seen", || {
        (host(&stage.site, &on)["pending"] == 1).then_some(())
    });
    peer.stand();
    let (code, said) = ended(waiting);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("no placement is under way\n"), "{said}");
    assert_eq!(host(&stage.site, &on)["tunnels"], 1);
    drop(visitor);
}
