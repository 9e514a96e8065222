//! The process itself: killed, stopped, paused, doubled, and hurt inside.

use std::thread;
use std::time::Duration;

use guac_protocol::Instruction;
use serde_json::Value;

use super::*;
use crate::suite::asking::list;
use crate::support::{ScriptedAgent, preloading, session};

#[test]
fn killed_with_live_tunnels_its_users_go_back_to_their_hosts() {
    let stage = Stage::of(3);
    let users: Vec<_> = (0..6).map(|nth| format!("user{nth}")).collect();
    let open: Vec<_> = users
        .iter()
        .map(|user| stage.desktop(&Visit::office(user)))
        .collect();
    let hosts: Vec<_> = open.iter().map(|(_, peer)| stage.host_of(peer)).collect();
    for (user, host) in users.iter().zip(&hosts) {
        wait_for_lease(&stage.site, user, &format!("{host} live"));
        let tunnel = &stage.broker.placed(user)["tunnel"];
        stage
            .broker
            .wait_until_stored(&format!("{{\"tunnel\":{tunnel},\"stood\":true"));
    }
    let stage = stage.restarted(Broker::kill);
    drop(open);
    for (user, host) in users.iter().zip(&hosts).rev() {
        assert_eq!(serves(&stage, user), *host, "{user}");
    }
}

/// Seconds that are left of the user's only lease.
fn seconds_left(site: &Site, user: &str) -> u64 {
    let told = get(site, &format!("/api/v1/leases?user={user}"));
    told["leases"][0]["seconds_left"].as_u64().unwrap()
}

#[test]
fn told_to_stop_it_renews_the_leases_of_its_tunnels_until_they_end() {
    let guacd = polite();
    let stage = Stage::adjusted(guacd, 1, |site| site.with("[broker]\nlease_seconds = 30\n"));
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    wait_for_lease(&stage.site, "ann", "rds1 live");
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |_| true);
    let mut least = seconds_left(&stage.site, "ann");
    // A lease only runs down, unless it is renewed.
    eventually("a renewal", || {
        let left = seconds_left(&stage.site, "ann");
        assert!(left > 5, "it runs out");
        let renewed = left > least + 2;
        least = least.min(left);
        renewed.then_some(())
    });
    assert_carries(&mut visitor, &mut peer);
    drop(visitor);
    assert!(stage.broker.exit().success());
}

#[test]
fn paused_for_longer_than_silence_lasts_it_keeps_tunnels_leases_and_hosts() {
    let stage = Stage::adjusted(polite(), 2, |site| {
        site.with("[broker]\noffline_after_seconds = 10\n")
    });
    let mut agents = ["rds1", "rds2"].map(|id| ScriptedAgent::of(&stage.site, id));
    for agent in &mut agents {
        agent.reports(&[]);
    }
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    stage.broker.signal("STOP");
    peer.wire.send(b"4.blob,1.1,4.BBBB;").unwrap();
    visitor.wire.send(b"3.nop;").unwrap();
    let mut newcomer = Visitor::dial(stage.broker.address());
    newcomer.select("rdp");
    let first = agents[0].next(&[]);
    let heartbeat = thread::spawn({
        let agent = ScriptedAgent::of(&stage.site, "rds1");
        move || agent.send(&first.to_string())
    });
    // Longer than it takes for an agent to count as silent, for Guacamole or guacd to
    // give a tunnel up, and for every deadline of a newcomer.
    thread::sleep(Duration::from_secs(20));
    stage.broker.signal("CONT");
    assert_eq!(visitor.wire.exact(18).unwrap(), b"4.blob,1.1,4.BBBB;");
    assert_eq!(peer.wire.exact(6).unwrap(), b"3.nop;");
    let (status, told) = heartbeat.join().unwrap();
    assert_eq!((status, &told["taken"]), (200, &Value::Bool(true)));
    agents[1].reports(&[session("bob", "Disconnected", 60)]);
    assert_carries(&mut visitor, &mut peer);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    // Who came during the pause is served, and so is everybody after it.
    newcomer.read_args();
    let bob = Visit::office("bob");
    for setting in bob.settings() {
        newcomer.wire.say(&setting).unwrap();
    }
    newcomer.wire.say(&bob.connect(&newcomer.shown)).unwrap();
    newcomer.ready();
    assert_eq!(stage.host_of(&stage.guacd.ready()), "rds2");
    assert_eq!(serves(&stage, "ann"), host);
}

/// What a tunnel says at which the broker's sockets lie about what they took, so
/// that its task panics.
const LIE: &str = "a socket that lies";

/// The same about what they read.
const READ_LIE: &str = "a socket that lies to readers";

const PANICKED: &str = "A task panicked, which is a fault of sessionguard: please report it";

/// Waits for the end of the user's tunnel by a panic; how far it had come.
fn panicked(stage: &Stage, count: usize) -> Value {
    let panics = stage.broker.wait_for_lines(PANICKED, count);
    assert_eq!(panics.len(), count);
    for panic in &panics {
        assert!(panic["place"].as_str().unwrap().contains(".rs:"), "{panic}");
        // Nothing that passed through is told.
        for lie in [LIE, READ_LIE] {
            assert!(!panic.to_string().contains(lie), "{panic}");
        }
    }
    let how = "ended by a fault of sessionguard";
    let ended = eventually("the end", || {
        let ended = stage.broker.lines("Tunnel ended");
        let mut ended: Vec<_> = ended
            .into_iter()
            .filter(|line| line["how"] == how)
            .collect();
        (ended.len() == count).then(|| ended.pop().unwrap())
    });
    assert_eq!(ended["by"], "sessionguard");
    ended
}

#[test]
fn a_panic_in_a_tunnel_ends_it_alone_and_gives_back_what_it_held() {
    let mut stage = Stage::adjusted(polite(), 2, |site| {
        preloading(site, "lying_socket.c")
            .knowing("LYING_SOCKET_MARK", LIE)
            .knowing("LYING_SOCKET_READ_MARK", READ_LIE)
    });
    stage.broker.may_panic();
    let (mut witness, mut of_witness) = stage.desktop(&Visit::office("witness"));
    // In use for a while it shares a thread with others that are.
    (0..20).for_each(|_| assert_carries(&mut witness, &mut of_witness));
    let before = stage.broker.descriptors();
    let tunnels = || list(&stage, "tunnels").len();
    assert_eq!(tunnels(), 1);

    // Behind the desktop: its lease lingers, as behind any other end.
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    (0..20).for_each(|_| assert_carries(&mut visitor, &mut peer));
    peer.wire
        .say(&Instruction::new("name", [READ_LIE]))
        .unwrap();
    assert_eq!(panicked(&stage, 1)["phase"], "stood");
    let panics = stage.broker.lines(PANICKED);
    assert_eq!(panics[0]["thread"], "quiet-relays");
    let passed = visitor.wire.rest().expect("an end without a reset");
    assert!(passed.is_empty(), "{}", String::from_utf8_lossy(&passed));
    let _ = peer.wire.rest();
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
    wait_for_descriptors(&stage.broker, before);
    assert_carries(&mut witness, &mut of_witness);
    assert_eq!(serves(&stage, "ann"), host);

    // On the way to a desktop: the claim is given back.
    let bob = Visit::office("bob").answer("server-layout", LIE);
    let mut visitor = bob.at(&stage.broker);
    let ended = panicked(&stage, 2);
    assert_eq!(ended["phase"], "attempting");
    assert_eq!(ended["tunnel"], stage.broker.placed("bob")["tunnel"]);
    visitor.ready();
    visitor.end();
    // Its guacd, which may have said `ready` to nobody.
    let _ = stage.guacd.next();
    eventually("no lease", || {
        leases(&stage.site, "bob").is_empty().then_some(())
    });

    // In the handshake: there is nothing to give back but guacd and the place.
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.select("rdp");
    visitor.read_args();
    visitor
        .wire
        .say(&Instruction::new("timezone", [LIE]))
        .unwrap();
    assert_eq!(panicked(&stage, 3)["phase"], "handshake");
    visitor.end();
    assert!(stage.guacd.next().connect.is_empty());

    wait_for_descriptors(&stage.broker, before);
    eventually("the witness alone", || (tunnels() == 1).then_some(()));
    assert_carries(&mut witness, &mut of_witness);
    for user in ["bob", "carl"] {
        serves(&stage, user);
    }
    let (_, page) = stage.broker.health("/metrics");
    assert!(page.contains("\nsessionguard_panics_total 3\n"), "{page}");
}

#[test]
fn a_new_version_beside_the_old_is_turned_away_until_the_old_has_ended() {
    let mut stage = Stage::of(2);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    stage.site.listen = format!("address = \"{}\"", stage.broker.address());
    let config = stage.site.write();
    let start = || {
        let output = Site::run(&["serve"], &config);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = start();
    assert!(
        code == Some(1) && said.contains("cannot listen on"),
        "{said}"
    );
    // The old one has lost nothing by it: neither port, nor socket, nor store.
    assert_carries(&mut visitor, &mut peer);
    assert_eq!(leases(&stage.site, "ann").len(), 1);
    serves(&stage, "bob");

    // While its last tunnels end the port is free, and what is remembered is not.
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |_| true);
    eventually("the store's word", || {
        let (code, said) = start();
        assert_eq!(code, Some(1), "{said}");
        said.contains("store.redb is in use by another process")
            .then_some(())
    });
    assert_carries(&mut visitor, &mut peer);
    drop((visitor, peer));
    let stage = stage.restarted(|old| assert!(old.exit().success()));
    assert_eq!(serves(&stage, "ann"), host);
}
