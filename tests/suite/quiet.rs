//! Tunnels that have little to move at a time go to quiet threads and back, and
//! nobody notices.

use std::fs;
use std::io::ErrorKind;
use std::thread;

use crate::support::tls::Authority;
use crate::support::{
    Broker, GuacdPeer, Names, ScriptedGuacd, Site, Stage, Visit, Visitor, eventually,
};

/// Small ones each way until a tunnel is quiet for sure.
const SMALL: usize = 30;
/// Much, each way.
const MUCH: usize = 8 * 1024 * 1024;

/// Small instructions there and back, one after the other.
fn chat(visitor: &mut Visitor, peer: &mut GuacdPeer) {
    for nth in 0..SMALL {
        let up = format!("5.mouse,3.100,3.{nth:03};");
        visitor.wire.send(&up).unwrap();
        assert_eq!(peer.wire.exact(up.len()).unwrap(), up.as_bytes());
        let down = format!("4.blob,1.1,3.{nth:03};");
        peer.wire.send(&down).unwrap();
        assert_eq!(visitor.wire.exact(down.len()).unwrap(), down.as_bytes());
    }
}

fn ticks_of_quiet_threads(broker: &Broker) -> Option<u64> {
    ticks_of(broker, "quiet-relays")
}

/// How long threads of this name have been on a processor, in ticks; `None` where
/// there are none.
fn ticks_of(broker: &Broker, called: &str) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{}/task", broker.id())).unwrap();
    let each = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat")).ok()?;
        let (name, rest) = stat.split_once(") ")?;
        let (_, name) = name.split_once('(')?;
        let fields: Vec<_> = rest.split(' ').collect();
        let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
        (name == called).then(|| ticks(11) + ticks(12))
    });
    each.reduce(|one, other| one + other)
}

/// Chats until the tunnel is on a quiet thread.
fn quieten(broker: &Broker, visitor: &mut Visitor, peer: &mut GuacdPeer) {
    chat(visitor, peer);
    assert!(ticks_of_quiet_threads(broker).is_some());
}

/// Much at once, both ways: bytes no two places of which are alike.
fn pour(visitor: &mut Visitor, peer: &mut GuacdPeer) {
    let mut much = Vec::with_capacity(MUCH + 32);
    for nth in 0.. {
        if much.len() >= MUCH {
            break;
        }
        much.extend(format!("4.blob,1.1,8.{nth:08};").into_bytes());
    }
    let much = &much;
    thread::scope(|scope| {
        scope.spawn(|| {
            peer.wire.send(much).unwrap();
            assert!(peer.wire.exact(much.len()).unwrap() == *much);
        });
        assert!(visitor.wire.exact(much.len()).unwrap() == *much);
        visitor.wire.send(much).unwrap();
    });
}

#[test]
fn no_byte_is_lost_on_the_way_to_a_quiet_thread_and_back() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    assert_eq!(ticks_of_quiet_threads(&stage.broker), None);
    let mut there_and_back = || {
        quieten(&stage.broker, &mut visitor, &mut peer);
        pour(&mut visitor, &mut peer);
    };
    // The threads have some of their own.
    there_and_back();
    let before = stage.broker.descriptors();
    (0..3).for_each(|_| there_and_back());
    quieten(&stage.broker, &mut visitor, &mut peer);
    // And none for having been there.
    let after = stage.broker.descriptors();
    assert!(after < before + 6, "{before} descriptors became {after}");
    drop((visitor, peer));
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["phase"], "stood");
}

#[test]
fn many_chats_at_once_are_one_threads_work_and_what_is_loud_is_not() {
    let stage = Stage::one();
    let mut tunnels: Vec<_> = (0..20)
        .map(|nth| stage.desktop(&Visit::office(&format!("user{nth}"))))
        .collect();
    thread::scope(|scope| {
        for (visitor, peer) in &mut tunnels {
            scope.spawn(|| chat(visitor, peer));
        }
    });
    let ticks = || ticks_of_quiet_threads(&stage.broker).unwrap();
    // Where everybody is quiet, what they say passes there.
    let before = ticks();
    eventually("the quiet thread works", || {
        for (visitor, peer) in &mut tunnels {
            chat(visitor, peer);
        }
        (ticks() > before).then_some(())
    });
    // Nobody was loud so far.
    let loud = || ticks_of(&stage.broker, "loud-relays");
    assert_eq!(loud(), None);
    let (visitor, peer) = &mut tunnels[0];
    eventually("what is loud is none of the quiet thread's work", || {
        let before = (ticks(), loud());
        pour(visitor, peer);
        (ticks() == before.0 && loud() > before.1).then_some(())
    });
}

#[test]
fn it_passes_through_tls_on_both_legs_all_the_same() {
    const NAME: &str = "broker.test";
    let authority = Authority::new("Test Authority");
    let (own, guacds) = (authority.sign(NAME), authority.sign("guacd.test"));
    let guacd = ScriptedGuacd::secured(guacds.server(None), Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site: Site| {
        own.write(site.folder(), "own");
        let pin = format!(
            "[guacd]\ntls = true\npin_sha256 = [{:?}]\n",
            guacds.fingerprint()
        );
        site.listening("tls_cert_file = \"own.crt\"\ntls_key_file = \"own.key\"")
            .with(pin)
    });
    let mut visitor = Visitor::secured(stage.broker.address(), &authority.client(None), NAME);
    visitor.click(&Visit::office("ann"));
    visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    for _ in 0..2 {
        quieten(&stage.broker, &mut visitor, &mut peer);
        pour(&mut visitor, &mut peer);
    }
    quieten(&stage.broker, &mut visitor, &mut peer);
    peer.wire.send("10.disconnect;").unwrap();
    assert_eq!(visitor.wire.rest().unwrap(), b"10.disconnect;");
}

#[test]
fn every_end_is_what_it_is_anywhere() {
    let stage = Stage::one();
    let broker = &stage.broker;
    let quiet = |user: &str| {
        let (mut visitor, mut peer) = stage.desktop(&Visit::office(user));
        quieten(broker, &mut visitor, &mut peer);
        (visitor, peer)
    };
    let (mut visitor, peer) = quiet("ann");
    peer.wire.reset();
    let heard = visitor.wire.rest().unwrap_err();
    assert_eq!(heard.kind(), ErrorKind::ConnectionReset);
    let (visitor, mut peer) = quiet("bob");
    visitor.wire.reset();
    let heard = peer.wire.rest().unwrap_err();
    assert_eq!(heard.kind(), ErrorKind::ConnectionReset);
    let (mut visitor, mut peer) = quiet("carl");
    peer.wire.send("5.error,7.Aborted,3.519;").unwrap();
    assert_eq!(visitor.wire.rest().unwrap(), b"5.error,7.Aborted,3.519;");
    let ended = broker.ended(&broker.placed("carl"));
    assert_eq!(ended["how"], "guacd ended it with error 519");
    // The end of the process: they are told, and nobody is waited for in vain.
    let (mut visitor, peer) = quiet("dora");
    broker.signal("TERM");
    broker.wait_for_lines("Waiting for open tunnels", 1);
    broker.signal("TERM");
    let (_, why) = visitor.farewell();
    assert!(!why.is_empty());
    drop((visitor, peer));
    broker.wait_for_lines("Stopped", 1);
    let cut = broker.lines("Some tunnels did not end in time and are cut");
    assert_eq!(cut.len(), 0);
}
