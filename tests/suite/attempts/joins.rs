//! Who joins while the owner's desktop is still being sought.

use std::thread;

use super::{fail, stage};
use crate::support::Visit;

#[test]
fn a_join_meanwhile_waits_and_goes_to_the_guacd_that_has_the_desktop() {
    let stage = stage(2, "# Nothing more.\n");
    let mut owner = Visit::office("ann").at(&stage.broker);
    let id = owner.ready();
    let first = stage.guacd.ready();
    thread::scope(|scope| {
        let joining = scope.spawn(|| {
            let mut joiner = Visit::join(&id).at(&stage.broker);
            assert_eq!(joiner.ready(), id);
            joiner
        });
        fail(first, b"5.error,1.x,3.519;");
        let mut second = stage.guacd.ready();
        second.stand();
        owner.hear_past_nops("sync");
        let of_joiner = stage.guacd.ready();
        assert_eq!(of_joiner.select, second.id);
        joining.join().unwrap();
    });
}

#[test]
fn a_join_of_a_tunnel_that_gets_no_desktop_finds_nothing() {
    let stage = stage(1, "# Nothing more.\n");
    let mut owner = Visit::office("ann").at(&stage.broker);
    let id = owner.ready();
    let peer = stage.guacd.ready();
    thread::scope(|scope| {
        let joining = scope.spawn(|| Visit::join(&id).refused_at(&stage.broker));
        // Until it is known to us, it cannot have found the owner.
        crate::support::eventually("the join has come", || {
            let open = crate::suite::asking::list(&stage, "tunnels");
            (open.len() == 2).then_some(())
        });
        fail(peer, b"5.error,1.x,3.519;");
        owner.farewell();
        assert_eq!(joining.join().unwrap().code, 0x204);
    });
}

#[test]
fn a_join_waits_no_longer_than_its_page() {
    let stage = stage(1, "[broker]\nattempt_deadline = \"60s\"\n");
    let mut owner = Visit::office("ann").at(&stage.broker);
    let id = owner.ready();
    let _peer = stage.guacd.ready();
    let refusal = Visit::join(&id).refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x202, "the page comes back by itself");
}
