//! Placement as it is seen from the wire: who is sent where.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use crate::support::{
    BlackHole, ClosedPort, Names, ScriptedGuacd, ScriptedHost, Stage, Visit, Visitor, eventually,
};

#[test]
fn three_users_spread_over_three_hosts() {
    let stage = Stage::of(3);
    let tunnels: Vec<_> = ["ann", "bob", "carl"]
        .map(|user| stage.tunnel(&Visit::office(user)))
        .into();
    let hosts: BTreeSet<_> = tunnels
        .iter()
        .map(|(_, peer)| stage.host_of(peer))
        .collect();
    assert_eq!(hosts.len(), 3, "{hosts:?}");
}

#[test]
fn hosts_that_do_not_answer_rdp_get_nobody() {
    let (closed, hole) = (ClosedPort::new(), BlackHole::new());
    let (silent, other) = (ScriptedHost::silent(), ScriptedHost::ssh());
    // One that wants another kind of security is a host all the same.
    let good = [ScriptedHost::up(), ScriptedHost::unwilling()];
    let mut addresses = vec![
        closed.address(),
        hole.address(),
        silent.address(),
        other.address(),
    ];
    addresses.extend(good.iter().map(ScriptedHost::address));
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = Stage::site(guacd.address(), &addresses);
    let broker = site.start();
    let mut ports = BTreeSet::new();
    let mut open = Vec::new();
    for n in 0..8 {
        let mut visitor = Visit::office(&format!("user-{n}")).at(&broker);
        visitor.ready();
        let peer = guacd.ready();
        ports.insert(peer.value("port").to_owned());
        open.push((visitor, peer));
    }
    let expected = good
        .iter()
        .map(|host| host.address().port().to_string())
        .collect();
    assert_eq!(ports, expected);
    for host in ["rds1", "rds2", "rds3", "rds4"] {
        broker.wait("Host does not answer RDP", |line| line["host"] == host);
    }
}

#[test]
fn a_host_that_goes_down_and_comes_back_is_said_and_used_again() {
    let up = ScriptedHost::up();
    let closed = ClosedPort::new();
    let port = closed.address();
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = Stage::site(guacd.address(), &[up.address(), port]);
    let broker = site.start();
    broker.wait("Host does not answer RDP", |line| line["host"] == "rds2");
    let _listening = closed.listen();
    broker.wait("Host answers RDP", |line| line["host"] == "rds2");
    let mut ports = BTreeSet::new();
    let mut open = Vec::new();
    for user in ["ann", "bob"] {
        let mut visitor = Visit::office(user).at(&broker);
        visitor.ready();
        let peer = guacd.ready();
        ports.insert(peer.value("port").to_owned());
        open.push((visitor, peer));
    }
    assert_eq!(ports.len(), 2);
}

#[test]
fn a_host_in_drain_gets_its_returning_users_and_nobody_new() {
    let stage = Stage::of(2);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let first = stage.host_of(&peer);
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));

    let stage = stage.restarted_with(&[(&first, "drain")]);
    let mut open = Vec::new();
    for user in ["bob", "carl", "dora"] {
        let (visitor, peer) = stage.tunnel(&Visit::office(user));
        assert_ne!(stage.host_of(&peer), first, "{user}");
        open.push((visitor, peer));
    }
    let (_again, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.host_of(&peer), first);
}

#[test]
fn a_host_in_maintenance_gets_nobody_at_all() {
    let stage = Stage::of(2);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let first = stage.host_of(&peer);
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));

    let stage = stage.restarted_with(&[(&first, "maintenance")]);
    let mut open = Vec::new();
    for user in ["ann", "bob", "carl"] {
        let (visitor, peer) = stage.tunnel(&Visit::office(user));
        assert_ne!(stage.host_of(&peer), first, "{user}");
        open.push((visitor, peer));
    }
    drop(open);
    let stage = stage.restarted_with(&[("rds1", "maintenance"), ("rds2", "drain")]);
    let refusal = Visit::office("somebody new").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x201, "{}", refusal.text);
}

#[test]
fn hosts_are_probed_again_and_again() {
    let stage = Stage::one();
    eventually("three probes", || {
        (stage.hosts[0].asked() >= 3).then_some(())
    });
}

#[test]
fn what_leads_to_no_host_does_not_wait_for_any() {
    let silent = ScriptedHost::silent();
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = Stage::site(guacd.address(), &[silent.address()]).with(
        "[broker]\nplacement_timeout = \"2s\"\n[probe]\ninterval = \"20s\"\ntimeout = \"20s\"\n",
    );
    let broker = site.start();
    let elsewhere = Visit::rdp("ann").answer("hostname", "192.0.2.7");
    let mut visitor = elsewhere.at(&broker);
    visitor.ready();
    assert_eq!(guacd.ready().value("hostname"), "192.0.2.7");
    let unknown = Visit::rdp("ann").answer("hostname", "sessionguard:id=0");
    assert_eq!(unknown.refused_at(&broker).code, 0x204);
}

#[test]
fn fifty_users_at_once_are_spread_evenly() {
    let stage = Stage::of(5);
    let threads: Vec<_> = (0..50)
        .map(|n| {
            let address = stage.broker.address();
            thread::spawn(move || {
                let visit = Visit::office(&format!("user-{n}"));
                let mut visitor = Visitor::dial(address);
                visitor.click(&visit);
                visitor.ready();
                visitor
            })
        })
        .collect();
    let mut users = BTreeMap::new();
    let mut open = Vec::new();
    for _ in &threads {
        let peer = stage.guacd.ready();
        *users.entry(stage.host_of(&peer)).or_insert(0) += 1;
        open.push(peer);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(
        users.len() == 5 && users.values().all(|count| *count == 10),
        "{users:?}"
    );
}
