//! Tunnels that an administrator ends, and leases they release.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::admin::{answered, request, socket};
use super::asking::{asked, list};
use crate::support::{Broker, Names, ScriptedGuacd, Stage, Visit, Visitor, eventually, ourselves};

/// A stage with an audit trail, and where that is.
fn stage(hosts: usize, more: &str) -> (Stage, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, hosts, |site| {
        site.with(format!("[log]\naudit = {trail:?}\n")).with(more)
    });
    (stage, trail, folder)
}

/// The trail's line of a deed, once it is there.
fn deed(trail: &Path, action: &str) -> Value {
    eventually(action, || {
        let text = fs::read_to_string(trail).ok()?;
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut deeds = lines.filter(|line| line["event.action"] == action);
        deeds.next()
    })
}

/// The user's lease, once it is in this state.
fn lease(stage: &Stage, user: &str, state: &str) -> Value {
    eventually(&format!("{user}'s lease is {state}"), || {
        let leases = list(stage, &format!("leases?user={user}"));
        leases.into_iter().find(|lease| lease["state"] == state)
    })
}

fn release(stage: &Stage, path: &str) -> (u16, Value) {
    let path = format!("/api/v1/leases/{path}");
    answered(&socket(&stage.site), &request("DELETE", &path, ""))
}

#[test]
fn a_tunnel_is_ended_between_two_instructions_and_it_is_told_who_did_it() {
    let (stage, trail, _folder) = stage(1, "# Nothing more.\n");
    let (mut ann, mut peer) = stage.desktop(&Visit::office("corp\\ann"));
    let (mut bob, mut of_bob) = stage.desktop(&Visit::office("bob"));
    let id = list(&stage, "tunnels?user=ann")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // guacd is in the middle of an instruction.
    peer.wire.send(b"4.blob,1.1,8.AAAA").unwrap();
    assert_eq!(ann.wire.exact(17).unwrap(), b"4.blob,1.1,8.AAAA");
    let path = format!("/api/v1/tunnels/{id}");
    let (status, told) = answered(&socket(&stage.site), &request("DELETE", &path, ""));
    assert_eq!((status, &told["ended"][0]), (200, &id.as_str().into()));
    peer.wire.send(b"BBBB;").unwrap();
    assert_eq!(ann.wire.exact(5).unwrap(), b"BBBB;");
    let (code, text) = ann.farewell();
    assert_eq!(code, 0x20B);
    assert_eq!(text, format!("ended by an administrator (tunnel {id})"));
    assert_eq!(peer.wire.rest().unwrap(), b"");
    let ended = stage.broker.ended(&stage.broker.placed("corp\\ann"));
    assert_eq!(
        (&ended["by"], &ended["status"]),
        (&"administrator".into(), &"SESSION_CLOSED".into())
    );
    let line = stage
        .broker
        .wait("Tunnel ended by an administrator", |_| true);
    assert_eq!(line["tunnel"], id.as_str());
    let (name, uid) = ourselves();
    assert_eq!(line["actor"], name.as_str(), "{line}");
    let deed = deed(&trail, "tunnel-ended");
    for (name, value) in [
        ("sessionguard.tunnel", id.as_str()),
        ("sessionguard.actor", &name),
        ("user.name", &name),
        ("user.id", &uid),
        ("user.target.name", "ann"),
        ("user.target.domain", "corp"),
        ("host.id", "rds1"),
        ("event.outcome", "success"),
    ] {
        assert_eq!(deed[name], value, "{name} in {deed}");
    }

    // Nobody else was disturbed, and what is ended is not there any more.
    of_bob.wire.send(b"4.sync,1.2;").unwrap();
    bob.hear_past_nops("sync");
    eventually("one tunnel less", || {
        (list(&stage, "tunnels").len() == 1).then_some(())
    });
    let (code, _, err) = asked(&stage.site, &["tunnels", "end", &id]);
    assert_eq!(code, 1);
    assert!(err.contains("may have ended already"), "{err}");
    lease(&stage, "ann", "lingering");
}

#[test]
fn an_end_in_the_middle_of_a_handshake_is_not_lost() {
    let stage = Stage::one();
    let mut early = Visitor::dial(stage.broker.address());
    early.select("rdp");
    early.read_args();
    let id = list(&stage, "tunnels")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (code, out, err) = asked(&stage.site, &["tunnels", "end", &id]);
    assert_eq!((code, out), (0, format!("tunnel {id} ends\n")), "{err}");
    let refusal = early.refusal();
    assert_eq!(refusal.code, 0x20B);
    assert!(
        refusal.text.starts_with("ended by an administrator"),
        "{}",
        refusal.text
    );
}

#[test]
fn every_tunnel_to_a_host_is_ended_and_none_to_another() {
    let stage = Stage::of(2);
    let mut there = Vec::new();
    let mut elsewhere = Vec::new();
    for user in ["ann", "bob", "carl", "dora"] {
        let (visitor, peer) = stage.desktop(&Visit::office(user));
        match stage.host_of(&peer).as_str() {
            "rds1" => there.push((visitor, peer)),
            _ => elsewhere.push((visitor, peer)),
        }
    }
    assert_eq!((there.len(), elsewhere.len()), (2, 2), "spread evenly");
    let end = ["tunnels", "end", "--host", "rds1"];
    let (code, out, err) = asked(&stage.site, &end);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.lines().count(), 2, "{out}");
    for (visitor, _peer) in &mut there {
        assert_eq!(visitor.farewell().0, 0x20B);
    }
    for (visitor, peer) in &mut elsewhere {
        peer.wire.send(b"4.sync,1.2;").unwrap();
        visitor.hear_past_nops("sync");
    }
    eventually("two left", || {
        (list(&stage, "tunnels").len() == 2).then_some(())
    });
    assert_eq!(asked(&stage.site, &end).1, "no tunnel was open\n");
}

#[test]
fn a_lingering_lease_is_released_for_good_and_a_held_one_is_not() {
    let (stage, trail, _folder) = stage(2, "# Nothing more.\n");
    let (visitor, peer) = stage.desktop(&Visit::office("CORP\\ann"));
    let host = stage.host_of(&peer);
    let held = lease(&stage, "ann", "live");
    let (status, told) = release(&stage, "corp%5Cann");
    assert_eq!(status, 409, "{told}");
    let why = told["error"].as_str().unwrap();
    assert!(why.contains("end them first"), "{why}");
    assert!(why.contains(held["holders"][0].as_str().unwrap()), "{why}");
    let (code, _, err) = asked(&stage.site, &["leases", "release", "corp\\ann"]);
    assert_eq!(code, 1);
    assert!(err.contains("end them first"), "{err}");

    drop((visitor, peer));
    lease(&stage, "ann", "lingering");
    let (status, told) = release(&stage, "Ann");
    assert_eq!(status, 404);
    let why = told["error"].as_str().unwrap();
    assert!(why.ends_with("did you mean corp\\ann?"), "{why}");
    assert_eq!(
        release(&stage, "corp%5Cann?farm=erp").0,
        404,
        "of another farm"
    );
    let (code, out, err) = asked(
        &stage.site,
        &["leases", "release", "corp\\ann", "--farm", "office"],
    );
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        out,
        format!("lease of corp\\ann on {host} in farm office is released\n")
    );
    let line = stage
        .broker
        .wait("Lease released by an administrator", |_| true);
    assert_eq!(
        (&line["lease"], &line["farm"]),
        (&"corp\\ann".into(), &"office".into())
    );
    let deed = deed(&trail, "lease-released");
    assert_eq!(deed["sessionguard.lease"], "corp\\ann");
    assert_eq!(deed["sessionguard.actor"], line["actor"]);
    assert_eq!(deed["host.id"], host.as_str());

    // The fleet knows: nobody is left behind on the host.
    let hosts = list(&stage, "hosts");
    assert!(
        hosts.iter().all(|host| host["disconnected"] == 0),
        "{hosts:?}"
    );
    let stage = stage.restarted(Broker::kill);
    assert_eq!(list(&stage, "leases"), Vec::<Value>::new());
    let (code, _, err) = asked(&stage.site, &["leases", "release", "corp\\ann"]);
    assert_eq!(code, 1);
    assert!(err.contains("corp\\ann has no lease"), "{err}");
}

#[test]
fn a_key_with_separators_in_its_names_is_one_name() {
    let (stage, _, _folder) = stage(1, "[broker]\nsingle_session_per_user = false\n");
    for user in ["corp\\a|b", "corp\\ann"] {
        let (visitor, peer) = stage.desktop(&Visit::office(user));
        drop((visitor, peer));
    }
    let odd = lease(&stage, "corp%5Ca%7Cb", "lingering");
    assert_eq!(odd["key"], "corp\\a%7cb|office|office");
    assert_eq!(odd["user"], "corp\\a|b");
    lease(&stage, "ann", "lingering");
    let key = odd["key"].as_str().unwrap();
    let (code, out, err) = asked(&stage.site, &["leases", "release", key]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("corp\\a%7cb|office|office"), "{out}");
    let left = list(&stage, "leases");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["key"], "corp\\ann|office|office");
    let (_, _, err) = asked(&stage.site, &["leases", "release", "ANN"]);
    assert!(
        err.contains("did you mean corp\\ann|office|office?"),
        "{err}"
    );
}
