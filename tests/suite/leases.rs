//! A user comes back to the host: after a reload, a restart, a crash, and in a crowd.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::support::{Broker, GuacdPeer, Stage, Visit, Visitor};

fn ann() -> Visit {
    Visit::office("ann")
}

/// The tunnel of the line, as the store writes one that stood.
fn holder(line: &serde_json::Value) -> String {
    format!("{{\"tunnel\":{},\"stood\":true", line["tunnel"])
}

/// Where somebody new and ann are placed, in this order.
fn next_two(stage: &Stage) -> (String, String) {
    let (_new, of_new) = stage.tunnel(&Visit::office("somebody new"));
    let (_ann, of_ann) = stage.tunnel(&ann());
    (stage.host_of(&of_new), stage.host_of(&of_ann))
}

#[test]
fn a_user_returns_after_a_restart() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.desktop(&ann());
    let first = stage.host_of(&peer);
    let stage = stage.restarted(|broker| {
        broker.signal("TERM");
        broker.wait("Waiting for open tunnels", |_| true);
        broker.signal("TERM");
        assert!(broker.exit().success());
    });
    let (new, returned) = next_two(&stage);
    assert_ne!(new, first, "the other host scores higher");
    assert_eq!(returned, first);
    assert_eq!(stage.broker.placed("ann")["reason"], "lease");
}

#[test]
fn a_user_returns_after_a_crash() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.desktop(&ann());
    let first = stage.host_of(&peer);
    let stood = holder(&stage.broker.placed("ann"));
    stage.broker.wait_until_stored(&stood);
    let stage = stage.restarted(Broker::kill);
    let (new, returned) = next_two(&stage);
    assert_ne!(new, first, "the other host scores higher");
    assert_eq!(returned, first);
}

#[test]
fn a_crash_leaves_nothing_of_a_tunnel_that_never_stood() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.tunnel(&ann());
    let first = stage.host_of(&peer);
    let stage = stage.restarted(Broker::kill);
    let _burden = stage.burden(&first);
    let (_again, peer) = stage.tunnel(&ann());
    assert_ne!(stage.host_of(&peer), first);
    assert_eq!(stage.broker.placed("ann")["reason"], "best score");
}

/// So many connects of one user in the same moment, each with what guacd got of it.
fn crowd(stage: &Stage, count: usize) -> Vec<(Visitor, GuacdPeer)> {
    let start = Arc::new(Barrier::new(count));
    let address = stage.broker.address();
    let dialled: Vec<_> = (0..count)
        .map(|_| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                let mut visitor = Visitor::dial(address);
                visitor.select("rdp");
                visitor.read_args();
                for setting in ann().settings() {
                    visitor.wire.say(&setting).unwrap();
                }
                start.wait();
                visitor.wire.say(&ann().connect(&visitor.shown)).unwrap();
                visitor.ready();
                visitor
            })
        })
        .collect();
    let visitors: Vec<_> = dialled
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    visitors
        .into_iter()
        .map(|visitor| (visitor, stage.guacd.ready()))
        .collect()
}

#[test]
fn a_user_who_connects_sixteen_times_at_once_gets_one_host() {
    let stage = Stage::of(4);
    let tunnels = crowd(&stage, 16);
    let hosts: BTreeSet<_> = tunnels
        .iter()
        .map(|(_, peer)| stage.host_of(peer))
        .collect();
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    stage.broker.wait_for_lines("Placed", 16);
}

#[test]
fn each_of_sixteen_tunnels_at_once_keeps_its_hold_on_the_lease() {
    let stage = Stage::of(2);
    let mut tunnels = crowd(&stage, 16);
    for (_, peer) in &mut tunnels {
        peer.stand();
    }
    for placed in stage.broker.wait_for_lines("Placed", 16) {
        stage.broker.wait_until_stored(&holder(&placed));
    }
}

#[test]
fn a_page_that_is_loaded_again_stays_on_its_host() {
    let stage = Stage::of(2);
    let (old, of_old) = stage.desktop(&ann());
    let first = stage.host_of(&of_old);
    let _burden = stage.burden(&first);
    // The new page is there before the old one is gone.
    let (new, of_new) = stage.desktop(&ann());
    assert_eq!(stage.host_of(&of_new), first);
    let reason = "tunnel already open there";
    stage.broker.wait("Placed", |line| {
        line["user"] == "ann" && line["reason"] == reason
    });
    drop((old, of_old));
    stage.broker.ended(&stage.broker.placed("ann"));
    let (_third, of_third) = stage.tunnel(&ann());
    assert_eq!(stage.host_of(&of_third), first);
    drop((new, of_new));
}

#[test]
fn an_open_tunnel_keeps_its_user_though_it_has_not_stood() {
    let stage = Stage::of(2);
    let (_visitor, peer) = stage.tunnel(&ann());
    let first = stage.host_of(&peer);
    let _burden = stage.burden(&first);
    let (_second, of_second) = stage.tunnel(&ann());
    assert_eq!(stage.host_of(&of_second), first);
}

#[test]
fn every_spelling_of_a_user_is_one_user() {
    let stage = Stage::of(3);
    let (_visitor, peer) = stage.desktop(&Visit::office(r"CORP\Ann"));
    let first = stage.host_of(&peer);
    let _burden = stage.burden(&first);
    for visit in [
        Visit::office("ANN@corp"),
        Visit::office("ann").answer("domain", "Corp"),
        Visit::rdp("Corp\\ann").answer("hostname", "sessionguard:resource=sage"),
    ] {
        let (_visitor, peer) = stage.tunnel(&visit);
        assert_eq!(stage.host_of(&peer), first, "{visit:?}");
    }
}
