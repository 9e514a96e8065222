//! guacd and the network to it.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use super::*;
use crate::support::Way;

#[test]
fn one_that_dies_under_ten_tunnels_ends_each_and_their_users_return_to_their_hosts() {
    let (stage, network) = behind_a_network(3);
    let before = stage.broker.descriptors();
    let users: Vec<_> = (0..10).map(|nth| format!("user{nth}")).collect();
    let open: Vec<_> = users
        .iter()
        .map(|user| stage.desktop(&Visit::office(user)))
        .collect();
    let hosts: Vec<_> = open.iter().map(|(_, peer)| stage.host_of(peer)).collect();
    network.reset();
    for (mut visitor, _) in open {
        let end = visitor.wire.rest().unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    }
    for (user, host) in users.iter().zip(&hosts).rev() {
        let ended = stage.broker.ended(&stage.broker.placed(user));
        assert_eq!(
            (&ended["by"], &ended["phase"]),
            (&"guacd".into(), &"stood".into())
        );
        assert_eq!(serves(&stage, user), *host, "{user}");
    }
    wait_for_descriptors(&stage.broker, before);
}

#[test]
fn one_that_resets_at_any_step_before_ready_is_unavailable_and_its_claim_is_given_back() {
    for step in 0..4 {
        let guacd = ScriptedGuacd::playing(move |peer| {
            if step >= 1 {
                peer.hear_select()?;
            }
            if step >= 2 {
                peer.wire.say(&names().to_instruction())?;
            }
            if step >= 3 {
                peer.hear_connect(&names())?;
            }
            let socket = socket2::SockRef::from(peer.wire.stream());
            socket.set_linger(Some(Duration::ZERO))
        });
        let stage = Stage::before(guacd, 1);
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.select("rdp");
        // It resets once its script has ended and nobody holds it.
        if step < 2 {
            drop(stage.guacd.next());
        }
        visitor.read_args();
        if step == 2 {
            drop(stage.guacd.next());
        }
        let visit = Visit::office("ann");
        for setting in visit.settings() {
            visitor.wire.say(&setting).unwrap();
        }
        visitor.wire.say(&visit.connect(&visitor.shown)).unwrap();
        if step == 3 {
            drop(stage.guacd.next());
        }
        let refusal = visitor.refusal();
        assert_eq!(refusal.code, 0x208, "{step}: {}", refusal.text);
        eventually("no lease", || {
            leases(&stage.site, "ann").is_empty().then_some(())
        });
    }
}

#[test]
fn one_that_is_gone_without_a_word_is_given_up_with_guacamole_and_the_lease_lingers() {
    let (stage, network) = behind_a_network(2);
    let before = stage.broker.descriptors();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let host = stage.host_of(&peer);
    network.silence();
    visitor.wire.send(b"3.nop;").unwrap();
    // Nothing is made up for the page, whose own timer ends it.
    assert_eq!(visitor.wire.within(Duration::from_millis(500)), b"");
    assert_eq!(leases(&stage.site, "ann"), [format!("{host} live")]);
    let start = Instant::now();
    visitor.wire.finish();
    visitor.end();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["by"], "guacamole");
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
    wait_for_descriptors(&stage.broker, before);
    // It heard nothing of all this.
    assert_eq!(peer.wire.within(Duration::from_millis(50)), b"");
}

#[test]
fn one_that_stalls_behind_the_desktop_holds_its_tunnel_back_and_no_byte_is_lost() {
    let (stage, network) = behind_a_network(1);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    for way in [Way::Out, Way::Back] {
        network.stall(way);
        let (up, down) = (&b"3.key,5.65307,1.1;"[..], &b"4.blob,1.1,4.AAAA;"[..]);
        visitor.wire.send(up).unwrap();
        peer.wire.send(down).unwrap();
        // The way that is open carries on.
        match way {
            Way::Out => assert_eq!(visitor.wire.exact(18).unwrap(), down),
            Way::Back => assert_eq!(peer.wire.exact(18).unwrap(), up),
        }
        let held = match way {
            Way::Out => peer.wire.within(Duration::from_millis(300)),
            Way::Back => visitor.wire.within(Duration::from_millis(300)),
        };
        assert_eq!(held, b"");
        network.flow();
        match way {
            Way::Out => assert_eq!(peer.wire.exact(18).unwrap(), up),
            Way::Back => assert_eq!(visitor.wire.exact(18).unwrap(), down),
        }
    }
}

#[test]
fn one_that_stalls_before_its_names_is_unavailable_in_time_and_used_once_it_goes_on() {
    let guacd = polite();
    let network = FaultProxy::before(guacd.address());
    let address = network.address();
    let stage = Stage::adjusted(guacd, 1, |mut site| {
        site.guacd = address;
        site.listening("handshake_timeout = \"2s\"")
    });
    network.stall(Way::Back);
    let start = Instant::now();
    let refusal = Visit::office("ann").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    network.flow();
    assert!(stage.guacd.next().outcome.is_err());
    assert_eq!(serves(&stage, "bob"), "rds1");
}

#[test]
fn one_byte_a_write_both_ways_is_served_byte_by_byte() {
    let (stage, network) = behind_a_network(1);
    network.slice(1);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("j\u{f6}rg\u{1F600}"));
    assert_eq!(peer.value("username"), "j\u{f6}rg\u{1F600}");
    assert_carries(&mut visitor, &mut peer);
    let blob = "4.blob,1.1,9.\u{20ac}\u{e9}\u{1F600}ABCDEF;".repeat(500);
    peer.wire.send(&blob).unwrap();
    assert!(visitor.wire.exact(blob.len()).unwrap() == blob.as_bytes());
    visitor.wire.send(&blob).unwrap();
    assert!(peer.wire.exact(blob.len()).unwrap() == blob.as_bytes());
}

#[test]
fn a_byte_at_a_time_behind_the_desktop_keeps_its_tunnel() {
    let (stage, network) = behind_a_network(1);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    network.limit(Some(10));
    let said = b"4.blob,1.1,4.AAAA;";
    let start = Instant::now();
    peer.wire.send(said).unwrap();
    assert_eq!(visitor.wire.exact(said.len()).unwrap(), said);
    assert!(start.elapsed() >= Duration::from_secs(1));
    network.limit(None);
    assert_carries(&mut visitor, &mut peer);
}

#[test]
fn far_away_and_unsteady_it_is_served_byte_by_byte() {
    let (stage, network) = behind_a_network(1);
    network.delay(Duration::from_millis(150), Duration::from_millis(100), 11);
    network.slice(700);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let blob = b"4.blob,1.1,4.AAAA;".repeat(5000);
    let (down, up) = (blob.clone(), blob.clone());
    let writer = thread::spawn(move || {
        peer.wire.send(&down).unwrap();
        peer
    });
    visitor.wire.send(&up).unwrap();
    assert!(visitor.wire.exact(blob.len()).unwrap() == blob);
    let mut peer = writer.join().unwrap();
    assert!(peer.wire.exact(blob.len()).unwrap() == blob);
}

/// The code of a refusal before a guacd that answers `select` with this, and `connect` with that;
/// whether it was told to connect.
fn refused_after(args: &'static str, then: &'static str) -> (u16, bool) {
    let guacd = ScriptedGuacd::playing(move |peer| {
        peer.hear_select()?;
        peer.wire.send(args)?;
        while peer
            .wire
            .instruction()?
            .is_some_and(|heard| heard.opcode() != "connect")
        {}
        peer.wire.send(then)
    });
    let stage = Stage::before(guacd, 1);
    let visit = Visit::rdp("ann")
        .answer("hostname", "sessionguard:resource=office")
        .answer("sessionguard-resource", "office");
    let code = visit.refused_at(&stage.broker).code;
    let mut peer = stage.guacd.next();
    let _ = peer.wire.rest();
    let told = String::from_utf8_lossy(&peer.wire.arrived).contains("7.connect,");
    (code, told)
}

#[test]
fn odd_args_are_refused_as_an_upstream_error_and_missing_ones_as_not_found() {
    for (args, code) in [
        // No host can be told to it.
        ("4.args;", 0x204),
        ("4.args,13.VERSION_1_5_0;", 0x204),
        ("4.args,13.VERSION_1_5_0,4.port,8.username;", 0x204),
        // Twice the same.
        ("4.args,13.VERSION_1_5_0,8.hostname,8.hostname;", 0x203),
        // No text that guacd would say.
        ("4.args,3.\u{1F600}\0x;", 0x203),
        ("04.args,8.hostname;", 0x203),
    ] {
        assert_eq!(refused_after(args, ""), (code, false), "{args:?}");
    }
    // A second time where `ready` belongs: all was said by then.
    let args = "4.args,13.VERSION_1_5_0,8.hostname,4.port,8.username;";
    assert_eq!(refused_after(args, "4.args,8.hostname;"), (0x203, true));
}

#[test]
fn one_that_is_down_is_unavailable_and_used_again_as_soon_as_it_listens() {
    let closed = crate::support::ClosedPort::new();
    let (address, host): (SocketAddr, _) = (closed.address(), ScriptedHost::up());
    let site = Stage::site(address, &[host.address()]);
    let broker = site.start();
    let start = Instant::now();
    assert_eq!(Visit::office("ann").refused_at(&broker).code, 0x208);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    // A host is good enough for a guacd that does nothing but take the connection.
    let listening = closed.listen();
    let mut visitor = Visitor::dial(broker.address());
    visitor.select("rdp");
    eventually("a dial", || (listening.asked() == 1).then_some(()));
}
