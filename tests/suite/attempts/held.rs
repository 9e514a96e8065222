//! What both sides say meanwhile: kept, bounded, in order, once.

use std::io::{ErrorKind, Write};
use std::thread;

use super::{click, fail, stage};
use crate::support::{GuacdPeer, Visit, Visitor};

/// guacd was hung up on: a reset where it had said something that nobody read.
pub(super) fn assert_left(mut peer: GuacdPeer) {
    match peer.wire.rest() {
        Ok(heard) => assert_eq!(String::from_utf8_lossy(&heard), ""),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn what_is_typed_meanwhile_arrives_once_and_in_order_on_the_host_that_stands() {
    let stage = stage(2, "# Nothing more.\n");
    let (mut visitor, first) = click(&stage, "ann");
    visitor
        .wire
        .send(b"3.nop;3.key,2.97,1.1;3.nop;5.mouse,1.1")
        .unwrap();
    fail(first, b"5.error,1.x,3.519;");
    let mut second = stage.guacd.ready();
    visitor.wire.send(b",1.2,1.0;3.ke").unwrap();
    second.stand();
    visitor.hear_past_nops("sync");
    visitor.wire.send(b"y,2.98,1.1;").unwrap();
    let typed = b"3.key,2.97,1.1;5.mouse,1.1,1.2,1.0;3.key,2.98,1.1;";
    assert_eq!(
        String::from_utf8_lossy(&second.wire.exact(typed.len()).unwrap()),
        String::from_utf8_lossy(typed)
    );
}

#[test]
fn much_input_waits_in_guacamoles_socket_and_none_is_lost() {
    let stage = stage(1, "# Nothing more.\n");
    let (mut visitor, mut peer) = click(&stage, "ann");
    let keys: Vec<u8> = (0..30_000)
        .flat_map(|n| format!("3.key,5.{:05},1.1;", n).into_bytes())
        .collect();
    let mut stream = visitor.wire.stream().try_clone().unwrap();
    let sent = keys.clone();
    let writer = thread::spawn(move || stream.write_all(&sent).unwrap());
    peer.stand();
    visitor.hear_past_nops("sync");
    assert!(peer.wire.exact(keys.len()).unwrap() == keys);
    writer.join().unwrap();
}

#[test]
fn a_new_start_meanwhile_fails_closed() {
    let stage = stage(2, "# Nothing more.\n");
    for (user, said) in [
        ("ann", &b"7.connect,4.evil;"[..]),
        ("bob", b"6.select,3.vnc;"),
        ("carl", b"no grammar"),
    ] {
        let (mut visitor, peer) = click(&stage, user);
        visitor.wire.send(said).unwrap();
        assert_eq!(visitor.farewell().0, 0x300, "{user}");
        assert_left(peer);
    }
}

#[test]
fn a_page_that_leaves_ends_it_at_once_and_no_lease_stays() {
    let stage = stage(2, "# Nothing more.\n");
    for (user, goodbye) in [("ann", &b"10.disconnect;"[..]), ("bob", b"")] {
        let (mut visitor, peer) = click(&stage, user);
        visitor.wire.send(goodbye).unwrap();
        if goodbye.is_empty() {
            visitor.wire.finish();
        }
        assert_left(peer);
        let ended = stage.broker.ended(&stage.broker.placed(user));
        let told = (&ended["phase"], &ended["by"]);
        assert_eq!(told, (&"attempting".into(), &"guacamole".into()), "{user}");
        crate::support::eventually("no lease", || {
            let leases = format!("leases?user={user}");
            let leases = crate::suite::asking::list(&stage, &leases);
            leases.is_empty().then_some(())
        });
    }
    assert_eq!(stage.guacd.accepted(), 2);
}

#[test]
fn output_that_is_no_protocol_is_relayed_blind_from_there_on() {
    let stage = stage(2, "# Nothing more.\n");
    let (mut visitor, mut peer) = click(&stage, "ann");
    peer.wire.send(b"4.size,1.0;what is this").unwrap();
    assert_eq!(visitor.wire.exact(23).unwrap(), b"4.size,1.0;what is this");
    visitor.wire.send(b"3.key,2.97,1.1;").unwrap();
    assert_eq!(peer.wire.exact(15).unwrap(), b"3.key,2.97,1.1;");
    assert_eq!(stage.guacd.accepted(), 1);
}

#[test]
fn an_administrator_ends_it_with_the_right_words() {
    let stage = stage(2, "# Nothing more.\n");
    let (mut visitor, peer) = click(&stage, "ann");
    let id = stage.broker.placed("ann")["tunnel"].clone();
    let id = id.as_str().unwrap();
    let (code, _, err) = crate::suite::asking::asked(&stage.site, &["tunnels", "end", id]);
    assert_eq!(code, 0, "{err}");
    let (code, text) = visitor.farewell();
    assert_eq!(code, 0x20B);
    assert_eq!(text, format!("ended by an administrator (tunnel {id})"));
    assert_left(peer);
}

#[test]
fn an_administrator_ends_it_while_guacamole_does_not_take_what_was_held_back() {
    let stage = stage(1, "# Nothing more.\n");
    let mut visitor = Visitor::narrow(stage.broker.address());
    visitor.click(&Visit::office("ann"));
    visitor.ready();
    let mut peer = stage.guacd.ready();
    let blob = format!("4.blob,1.1,8000.{};", "A".repeat(8000));
    peer.wire.send(blob.repeat(17)).unwrap();
    let placed = stage.broker.placed("ann");
    crate::support::eventually("it stood", || {
        let open = crate::suite::asking::list(&stage, "tunnels?user=ann");
        open[0]["stood"].is_string().then_some(())
    });
    let id = placed["tunnel"].as_str().unwrap();
    let (code, _, err) = crate::suite::asking::asked(&stage.site, &["tunnels", "end", id]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(stage.broker.ended(&placed)["by"], "administrator");
}
