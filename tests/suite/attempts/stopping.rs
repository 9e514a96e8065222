//! The process is told to end while desktops are sought.

use std::time::{Duration, Instant};

use super::dialled::{MuteBefore, mute_when_dialled_again};
use super::held::assert_left;
use super::{click, fail, stage};
use crate::support::{Stage, Visit};

/// For what is over at once, on a machine under load.
const SOON: Duration = Duration::from_secs(9);

/// The first signal has been heard, with so many tunnels.
fn stopping(stage: &Stage, tunnels: u64) {
    stage.broker.signal("TERM");
    stage.broker.wait("Waiting for open tunnels", |line| {
        line["tunnels"] == tunnels
    });
}

#[test]
fn a_signal_lets_the_attempt_go_on_to_the_next_host_and_the_process_ends_with_the_tunnel() {
    let mut stage = stage(2, "# Nothing more.\n");
    let (mut visitor, first) = click(&stage, "ann");
    let dead = stage.host_of(&first);
    stopping(&stage, 1);
    fail(first, b"5.error,1.x,3.519;");
    let mut second = stage.guacd.ready();
    assert_ne!(stage.host_of(&second), dead);
    second.stand();
    visitor.hear_past_nops("sync");
    visitor.wire.send(b"3.key,2.97,1.1;").unwrap();
    let heard = second.wire.exact(15).unwrap();
    assert_eq!(heard, b"3.key,2.97,1.1;");
    assert!(stage.broker.is_running());
    drop(visitor);
    second.wire.rest().unwrap();
    assert!(stage.broker.exit().success());
}

#[test]
fn a_second_signal_ends_attempts_with_the_right_words_and_leaves_no_lease() {
    let stage = stage(2, "# Nothing more.\n");
    let (mut ann, of_ann) = click(&stage, "ann");
    let (mut bob, first) = click(&stage, "bob");
    fail(first, b"5.error,1.x,3.519;");
    let of_bob = stage.guacd.ready();
    stopping(&stage, 2);
    let start = Instant::now();
    stage.broker.signal("TERM");
    for visitor in [&mut ann, &mut bob] {
        assert_eq!(visitor.farewell().0, 0x20B);
    }
    let _ = (ann, bob);
    for (user, peer, attempts) in [("ann", of_ann, 1), ("bob", of_bob, 2)] {
        assert_left(peer);
        let ended = stage.broker.ended(&stage.broker.placed(user));
        assert_eq!(
            (&ended["phase"], &ended["status"], &ended["attempts"]),
            (
                &"attempting".into(),
                &"SESSION_CLOSED".into(),
                &attempts.into()
            ),
            "{user}"
        );
    }
    let stage = stage.restarted(|broker| assert!(broker.exit().success()));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    for user in ["ann", "bob"] {
        let leases = crate::suite::asking::list(&stage, &format!("leases?user={user}"));
        assert!(leases.is_empty(), "{user}: {leases:?}");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_a_guacd_that_is_silent_when_dialled_again() {
    for before in [MuteBefore::Args, MuteBefore::Ready] {
        let stage = Stage::before(mute_when_dialled_again(before), 2);
        let mut visitor = Visit::office("ann").at(&stage.broker);
        visitor.ready();
        fail(stage.guacd.ready(), b"5.error,1.x,3.519;");
        let mut second = stage.guacd.ready();
        stopping(&stage, 1);
        let start = Instant::now();
        stage.broker.signal("TERM");
        assert_eq!(visitor.farewell().0, 0x20B, "{before:?}");
        let _ = second.wire.rest();
        assert!(stage.broker.exit().success());
        // Its own patience with guacd is 8 s.
        assert!(start.elapsed() < Duration::from_secs(6), "{before:?}");
    }
}
