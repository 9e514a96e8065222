//! A new version in the place of the one that runs: it takes the listeners, and the embedded
//! store, and the old one keeps its tunnels until they end.

mod rolling;

use std::net::TcpListener;

use serde_json::Value;

use super::admin::get;
use super::asking::{asked, list};
use super::faults::{assert_carries, leases, serves, wait_for_lease};
use super::replicas::on;
use crate::support::{
    Broker, GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor, eventually, postgres,
};

/// Why a user is placed who has a tunnel open, in whichever process.
const NEIGHBOUR: &str = "tunnel already open there";

/// A scene whose broker can be replaced: the next one wants the same port.
fn stage(hosts: usize) -> Stage {
    settled(Stage::of(hosts))
}

fn settled(mut stage: Stage) -> Stage {
    stage.site.listen = format!("address = \"{}\"", stage.broker.address());
    stage
}

/// Replaces the broker; gives back the one that ran.
fn upgrade(stage: &mut Stage) -> Broker {
    let new = stage.site.take_over();
    let old = std::mem::replace(&mut stage.broker, new);
    assert_eq!(old.address(), stage.broker.address());
    old.wait(HANDED_OVER, |_| true);
    stage
        .broker
        .wait(BESIDE, |line| line["process"] == old.id());
    old
}

const HANDED_OVER: &str = "Handed over: this process goes on until its tunnels have ended";
const BESIDE: &str = "A process whose tunnels go on is beside this one";

fn ids(stage: &Stage) -> Vec<String> {
    let listed = list(stage, "tunnels").into_iter();
    let id = |tunnel: Value| tunnel["id"].as_str().unwrap().to_owned();
    listed.map(id).collect()
}

/// Ann's tunnel in the old process; she, and everybody else, by the new one.
fn assert_upgraded(stage: &mut Stage) {
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    let old = upgrade(stage);
    assert_carries(&mut visitor, &mut peer);
    // Her tunnel there binds her here, and is counted and shown.
    assert_eq!(serves(stage, "ann"), host);
    assert_eq!(stage.broker.placed("ann")["reason"], NEIGHBOUR);
    serves(stage, "bob");
    let tunnel = old.placed("ann")["tunnel"].as_str().unwrap().to_owned();
    eventually("the tunnel of the old process alone", || {
        (ids(stage) == [tunnel.as_str()]).then_some(())
    });
    let told = get(&stage.site, "/api/v1/status");
    assert_eq!(told["tunnels"], 1);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    // It ends: the lease lingers, and so does no process.
    drop((visitor, peer));
    assert!(old.exit().success());
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
    assert_eq!(ids(stage), Vec::<String>::new());
    assert_eq!(serves(stage, "ann"), host);
}

#[test]
fn the_new_one_has_port_and_store_and_the_old_one_its_tunnels_until_they_end() {
    let mut stage = stage(3);
    assert_upgraded(&mut stage);
    // Nothing is left behind: an ordinary restart finds everything.
    let stage = stage.restarted(|broker| {
        broker.signal("TERM");
        assert!(broker.exit().success());
    });
    serves(&stage, "carl");
    assert_eq!(leases(&stage.site, "ann").len(), 1);
}

#[test]
fn with_a_database_it_is_the_same() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let database = server.database();
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let site = |site| on(site, server.port, &database);
    let mut stage = settled(Stage::adjusted(guacd, 3, site));
    assert_upgraded(&mut stage);
}

/// A tunnel with a desktop, and the id that Guacamole was given for it.
fn owner(stage: &Stage, user: &str) -> (Visitor, GuacdPeer, String) {
    let mut visitor = Visit::office(user).at(&stage.broker);
    let id = visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    (visitor, peer, id)
}

/// Somebody joins by the new process what the old one has.
fn assert_joins(stage: &Stage, id: &str, of_owner: &GuacdPeer) {
    let mut joiner = Visit::join(id).at(&stage.broker);
    assert_eq!(joiner.ready(), id);
    assert_eq!(stage.guacd.ready().select, of_owner.id);
}

#[test]
fn generations_are_joined_listed_and_ended_by_the_newest() {
    let mut stage = stage(2);
    let (mut open, mut old) = (Vec::new(), Vec::new());
    for user in ["ann", "bob", "carl"] {
        open.push(owner(&stage, user));
        old.push(upgrade(&mut stage));
    }
    eventually("three tunnels", || (ids(&stage).len() == 3).then_some(()));
    for (visitor, peer, id) in &mut open {
        assert_carries(visitor, peer);
        assert_joins(&stage, id, peer);
    }
    // An administrator ends the eldest's by the newest.
    let tunnel = old[0].placed("ann")["tunnel"].as_str().unwrap().to_owned();
    let (code, _, said) = asked(&stage.site, &["tunnels", "end", &tunnel]);
    assert_eq!(code, 0, "{said}");
    let (mut visitor, _peer, _) = open.remove(0);
    assert_eq!(visitor.farewell().0, 0x20B);
    drop(visitor);
    assert!(old.remove(0).exit().success());
    let host = stage.host_of(&open[0].1);
    wait_for_lease(&stage.site, "bob", &format!("{host} live"));
    // Told to stop, the newest waits for all of them: its store is theirs.
    stage.broker.signal("TERM");
    stage
        .broker
        .wait("Waiting for open tunnels", |line| line["processes"] == 2);
    for (visitor, peer, _) in &mut open {
        assert_carries(visitor, peer);
    }
    drop(open);
    for old in old {
        assert!(old.exit().success());
    }
    assert!(stage.broker.exit().success());
}

#[test]
fn one_that_cannot_start_leaves_the_old_one_as_it_was() {
    let mut stage = stage(2);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    // Known before and behind the moment when it has the store.
    let faults = [
        format!("[health]\nlisten = \"{}\"\n", taken.local_addr().unwrap()),
        format!("[api]\nlisten = \"{}\"\n", taken.local_addr().unwrap()),
    ];
    for (nth, fault) in faults.into_iter().enumerate() {
        let good = std::mem::replace(&mut stage.site, Stage::site(stage.guacd.address(), &[]));
        let good = good.with(fault);
        stage.site = good;
        let new = stage.site.succeed();
        assert_eq!(new.exit().code(), Some(1));
        stage.broker.wait_for_lines(
            "The other process did not take over: this one goes on as before",
            nth + 1,
        );
        assert_carries(&mut visitor, &mut peer);
        let host = serves(&stage, "bob");
        assert_eq!(leases(&stage.site, "bob").len(), 1, "{host}");
    }
}

#[test]
fn a_new_one_that_is_killed_is_started_again_and_told_what_the_old_one_has() {
    let mut stage = stage(3);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    let old = upgrade(&mut stage);
    let mut stage = stage.restarted(Broker::kill);
    assert_carries(&mut visitor, &mut peer);
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    assert_eq!(serves(&stage, "ann"), host);
    // And so it goes on.
    let second = upgrade(&mut stage);
    assert!(second.exit().success());
    wait_for_lease(&stage.site, "ann", &format!("{host} live"));
    drop((visitor, peer));
    assert!(old.exit().success());
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
}

#[test]
fn an_old_one_that_is_killed_costs_its_tunnels_and_its_users_return() {
    let mut stage = stage(3);
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    upgrade(&mut stage).kill();
    drop((visitor, peer));
    assert_eq!(serves(&stage, "ann"), host);
    serves(&stage, "bob");
}
