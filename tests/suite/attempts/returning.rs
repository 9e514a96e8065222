//! Somebody whose session lives on the host that fails is tried there again.

use super::{fail, stage};
use crate::support::{Stage, Visit};

/// Ann has a session on a host and has left; its name.
fn away(stage: &Stage) -> String {
    let (visitor, peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));
    host
}

#[test]
fn who_comes_back_is_tried_again_where_the_session_is() {
    let stage = stage(2, "# Nothing more.\n");
    let home = away(&stage);
    let (mut visitor, first) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.host_of(&first), home);
    fail(first, b"5.error,1.x,3.519;");
    let second = stage.guacd.ready();
    assert_eq!(stage.host_of(&second), home);
    fail(second, b"5.error,1.x,3.519;");
    let mut third = stage.guacd.ready();
    assert_eq!(stage.host_of(&third), home);
    third.stand();
    visitor.hear_past_nops("sync");
}

#[test]
fn who_cannot_come_back_in_time_is_asked_to_try_again() {
    let stage = stage(2, "[broker]\nattempt_deadline = \"4s\"\n");
    let home = away(&stage);
    let (mut visitor, mut peer) = stage.tunnel(&Visit::office("ann"));
    let told = std::thread::scope(|scope| {
        let told = scope.spawn(|| visitor.farewell());
        while !told.is_finished() {
            assert_eq!(stage.host_of(&peer), home);
            fail(peer, b"5.error,1.x,3.519;");
            match stage.guacd.within(std::time::Duration::from_secs(2)) {
                Some(next) => peer = next,
                None => break,
            }
        }
        told.join().unwrap()
    });
    assert_eq!(told.0, 0x208, "{}", told.1);
    assert!(stage.guacd.accepted() > 2, "more than once");
}

#[test]
fn two_pages_of_one_user_do_not_keep_each_other_on_a_host_that_fails() {
    let stage = stage(2, "# Nothing more.\n");
    let (one, first) = stage.tunnel(&Visit::office("ann"));
    let (other, second) = stage.tunnel(&Visit::office("ann"));
    let home = stage.host_of(&first);
    assert_eq!(stage.host_of(&second), home);
    fail(first, b"5.error,1.x,3.519;");
    fail(second, b"5.error,1.x,3.519;");
    let mut stood = Vec::new();
    while stood.len() < 2 {
        let mut peer = stage.guacd.ready();
        if stage.host_of(&peer) == home {
            assert!(stood.is_empty(), "one user, one host");
            fail(peer, b"5.error,1.x,3.519;");
        } else {
            peer.stand();
            stood.push(peer);
        }
    }
    for mut visitor in [one, other] {
        let heard = std::iter::from_fn(|| visitor.wire.instruction().unwrap());
        let mut heard = heard.skip_while(|heard| heard.opcode() == "nop");
        assert_eq!(heard.next().unwrap().opcode(), "sync");
    }
}
