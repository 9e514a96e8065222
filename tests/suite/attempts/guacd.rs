//! A guacd that goes takes every attempt along, whatever host each of them was for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Names, ScriptedGuacd, Stage, Visit};

const OPENED: &str = "A host's breaker opened: nobody new is placed there";

/// A polite guacd, and the switch that has it hang up on whoever comes.
fn mortal() -> (ScriptedGuacd, Arc<AtomicBool>) {
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let guacd = ScriptedGuacd::playing(move |peer| {
        if is_gone.load(Ordering::SeqCst) {
            peer.wire.finish();
            return Ok(());
        }
        peer.shake_hands(&Names::rdp("1.6.0"))
    });
    (guacd, gone)
}

fn sage(user: &str) -> Visit {
    Visit::rdp(user).answer("sessionguard-resource", "sage")
}

#[test]
fn a_guacd_that_dies_with_all_its_attempts_opens_no_breaker() {
    let (guacd, gone) = mortal();
    let stage = Stage::before(guacd, 2);
    // An attempt at each of two resources on either host.
    let visits = [
        ("ann", Visit::office("ann")),
        ("bob", Visit::office("bob")),
        ("cid", sage("cid")),
        ("dan", sage("dan")),
    ];
    let open: Vec<_> = visits
        .map(|(user, visit)| (user, stage.tunnel(&visit)))
        .into();
    gone.store(true, Ordering::SeqCst);
    for (user, (mut visitor, peer)) in open {
        peer.wire.finish();
        assert_eq!(visitor.farewell().0, 0x208, "the page comes back by itself");
        stage.broker.ended(&stage.broker.placed(user));
    }
    assert!(stage.broker.lines(OPENED).is_empty());
    gone.store(false, Ordering::SeqCst);
    // Somebody new is served at once.
    for (user, visit) in [("eve", Visit::office("eve")), ("fay", sage("fay"))] {
        let mut visitor = visit.at(&stage.broker);
        visitor.ready();
        let peers = std::iter::from_fn(|| Some(stage.guacd.next()));
        let mut heard = peers.skip_while(|peer| peer.connect.is_empty());
        assert_eq!(heard.next().unwrap().value("username"), user);
        // Who leaves before guacd is told takes the attempt along.
        drop(visitor);
    }
}

#[test]
fn ends_without_a_word_count_against_the_host_where_guacd_goes_on() {
    let (guacd, _) = mortal();
    let stage = Stage::before(guacd, 2);
    let mut open = Vec::new();
    let mut failed = Vec::new();
    for visit in [Visit::office("ann"), sage("bob")] {
        let (mut visitor, peer) = stage.tunnel(&visit);
        failed.push(stage.host_of(&peer));
        peer.wire.finish();
        let mut next = stage.guacd.ready();
        next.stand();
        visitor.hear_past_nops("sync");
        open.push((visitor, next));
    }
    assert_eq!(failed[0], failed[1], "nobody is there");
    let opened = stage.broker.wait(OPENED, |_| true);
    assert_eq!(
        (&opened["host"], &opened["cause"]),
        (&failed[0].as_str().into(), &"attempts".into())
    );
}
