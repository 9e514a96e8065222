//! Every way to be refused: `ready` with an id of ours, `error` with its code, `disconnect`, and
//! the end, in time.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use guac_protocol::Instruction;

use crate::support::{
    BlackHole, Broker, ClosedPort, GuacdPeer, Names, ScriptedGuacd, ScriptedHost, Site, Stage,
    Visit, Visitor,
};

fn names() -> Names {
    Names::rdp("1.6.0")
}

#[test]
fn farms_and_resources_that_take_nobody_are_refused_with_their_code() {
    let (up, down) = (ScriptedHost::up(), ClosedPort::new());
    let (port, dead) = (up.address().port(), down.address().port());
    let guacd = ScriptedGuacd::polite(names());
    let stage = Stage::adjusted(guacd, 1, |site| {
        let mut text = String::new();
        for (farm, enabled) in [
            ("closed", false),
            ("empty", true),
            ("away", true),
            ("dead", true),
        ] {
            text += &format!("[[farms]]\nid = \"{farm}\"\nenabled = {enabled}\n");
        }
        for farm in ["closed", "empty", "away", "dead", "ghost"] {
            text += &format!(
                "[[resources]]\nid = \"{farm}\"\nkind = \"desktop\"\nfarm_id = \"{farm}\"\n"
            );
        }
        text += "[[resources]]\nid = \"farmless\"\nkind = \"desktop\"\n";
        for (host, port, farm, mode) in [
            ("away1", port, "away", "maintenance"),
            ("dead1", dead, "dead", "online"),
        ] {
            text += &format!(
                "[[hosts]]\nid = \"{host}\"\naddress = \"127.0.0.1\"\nport = {port}\nfarm_ids = [\"{farm}\"]\nmode = \"{mode}\"\n"
            );
        }
        site.with(text)
    });
    let mut ids = Vec::new();
    for (resource, code) in [
        ("ghost", 0x204),
        ("farmless", 0x204),
        ("empty", 0x204),
        ("closed", 0x303),
        ("away", 0x201),
        ("dead", 0x208),
    ] {
        let visit = Visit::rdp("ann").answer("sessionguard-resource", resource);
        let refusal = visit.refused_at(&stage.broker);
        assert_eq!(refusal.code, code, "{resource}: {}", refusal.text);
        assert!(
            stage.guacd.next().connect.is_empty(),
            "guacd got no connect: {resource}"
        );
        ids.push(refusal.id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6, "an id of its own for each");
}

/// A broker before the guacd at an address, with short patience.
fn before(guacd: SocketAddr) -> (Broker, ScriptedHost, Site) {
    let host = ScriptedHost::up();
    let site = Stage::site(guacd, &[host.address()])
        .with("[guacd]\nconnect_timeout = \"400ms\"\n")
        .listening("handshake_timeout = \"1s\"");
    (site.start(), host, site)
}

/// Is refused with a code within a time.
fn assert_refused(broker: &Broker, code: u16, within: Duration) {
    let start = Instant::now();
    let refusal = Visit::office("ann").refused_at(broker);
    assert_eq!(refusal.code, code, "{}", refusal.text);
    assert!(start.elapsed() < within, "after {:?}", start.elapsed());
}

/// For what is over at once, and for what takes our second of patience.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_guacd_that_cannot_be_reached_is_unavailable() {
    let refusing = ClosedPort::new();
    let (broker, _host, _site) = before(refusing.address());
    assert_refused(&broker, 0x208, SOON);
    let line = broker.wait("Refused", |_| true);
    let address = refusing.address().to_string();
    assert!(
        line["reason"].as_str().unwrap().contains(&address),
        "{line}"
    );

    let swallowing = BlackHole::new();
    let (broker, _host, _site) = before(swallowing.address());
    assert_refused(&broker, 0x208, SOON);
}

/// One connection to a guacd that plays a script.
fn assert_refused_by(
    code: u16,
    play: impl Fn(&mut GuacdPeer) -> io::Result<()> + Send + Sync + 'static,
) {
    let guacd = ScriptedGuacd::playing(play);
    let (broker, _host, _site) = before(guacd.address());
    assert_refused(&broker, code, SOON);
    // guacd is let go, too.
    let mut peer = guacd.next();
    assert!(peer.wire.rest().is_ok());
}

#[test]
fn a_guacd_that_leaves_before_its_names_is_unavailable() {
    assert_refused_by(0x208, |peer| {
        peer.hear_select()?;
        peer.wire.stream().shutdown(Shutdown::Write)
    });
}

#[test]
fn a_guacd_that_leaves_before_ready_is_unavailable() {
    assert_refused_by(0x208, |peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())?;
        peer.wire.stream().shutdown(Shutdown::Write)
    });
}

#[test]
fn a_guacd_that_says_nothing_is_unavailable_in_time() {
    assert_refused_by(0x208, GuacdPeer::hear_select);
}

#[test]
fn a_guacd_that_answers_a_byte_at_a_time_is_unavailable_in_time() {
    assert_refused_by(0x208, |peer| {
        peer.hear_select()?;
        for byte in b"4.args,13.VERSION_1_5_0,8.hostname" {
            if peer.wire.send([*byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
}

#[test]
fn an_error_of_guacd_before_ready_is_passed_on_with_its_code() {
    let error = || Instruction::new("error", ["Aborted. See logs.", "519"]);
    assert_refused_by(519, move |peer| {
        peer.hear_select()?;
        peer.wire.say(&error())
    });
    assert_refused_by(519, move |peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.wire.say(&error())
    });
    assert_refused_by(519, move |peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())?;
        peer.wire.say(&error())
    });
    assert_refused_by(0x208, |peer| {
        peer.hear_select()?;
        peer.wire.say(&Instruction::disconnect())
    });
}

#[test]
fn names_that_cannot_be_answered_are_an_upstream_error() {
    let mut twice = names();
    twice.0.push("hostname".to_owned());
    let many: Vec<_> = (0..128).map(|n| format!("name-{n}")).collect();
    for odd in [twice, Names(many)] {
        assert_refused_by(0x203, move |peer| {
            peer.hear_select()?;
            let mut bytes = b"4.args".to_vec();
            for name in &odd.0 {
                bytes.extend(format!(",{}.{name}", name.len()).bytes());
            }
            bytes.push(b';');
            peer.wire.send(bytes)
        });
    }
}

#[test]
fn a_guacd_that_speaks_out_of_turn_is_an_upstream_error() {
    assert_refused_by(0x203, |peer| {
        peer.hear_select()?;
        peer.wire.send(b"4.sync,1.1;")
    });
    assert_refused_by(0x203, |peer| {
        peer.hear_select()?;
        peer.wire.send(b"SSH-2.0-OpenSSH_9.2\r\n")
    });
    assert_refused_by(0x203, |peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())?;
        peer.wire.send(b"5.ready,2.no;")
    });
}

#[test]
fn a_placement_that_takes_too_long() {
    let silent = ScriptedHost::silent();
    let guacd = ScriptedGuacd::polite(names());
    let site = Stage::site(guacd.address(), &[silent.address()]).with(
        "[broker]\nplacement_timeout = \"1s\"\n[probe]\ninterval = \"20s\"\ntimeout = \"20s\"\n",
    );
    let broker = site.start();
    assert_refused(&broker, 0x202, SOON);
    assert!(guacd.next().connect.is_empty());
}

#[test]
fn a_slow_placement_and_a_silent_guacd_stay_within_the_pages_patience() {
    let silent = ScriptedHost::silent();
    let up = ScriptedHost::up();
    let guacd = ScriptedGuacd::playing(|peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())
    });
    let site = Stage::site(guacd.address(), &[silent.address(), up.address()])
        .with("[probe]\ninterval = \"7s\"\ntimeout = \"7s\"\n");
    let broker = site.start();
    assert_refused(&broker, 0x208, Duration::from_secs(15));
    let ended = broker.ended(&broker.placed("ann"));
    assert_eq!(
        (&ended["by"], &ended["phase"]),
        (&"guacd".into(), &"attempting".into())
    );
}

#[test]
fn a_handshake_that_is_not_finished_in_time_is_told_so() {
    let guacd = ScriptedGuacd::polite(names());
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.listening("handshake_timeout = \"1s\"")
    });
    let start = Instant::now();

    // Three at a time, since each takes our second of patience.
    let mut begun = Visitor::dial(stage.broker.address());
    begun.wire.send(b"6.select,3.r").unwrap();
    let mut shown = Visitor::dial(stage.broker.address());
    shown.select("rdp");
    shown.read_args();
    let mut dripping = Visitor::dial(stage.broker.address());
    dripping.select("rdp");
    dripping.read_args();
    let mut drip = dripping.wire.stream().try_clone().unwrap();
    let dripper = thread::spawn(move || {
        for byte in b"4.size,4.1024,3.768,2.96;5.audio;5.video;5.image;" {
            if drip.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    });

    assert_eq!(
        begun.farewell().0,
        0x308,
        "no `ready` for who asked nothing yet"
    );
    assert_eq!(shown.refusal().code, 0x308);
    assert_eq!(dripping.ready().len(), 37);
    assert_eq!(dripping.hear("error").args()[1], 0x308.to_string());
    assert!(start.elapsed() < SOON);
    dripper.join().unwrap();
}

#[test]
fn a_connection_that_sends_nothing_is_closed_without_a_word() {
    let guacd = ScriptedGuacd::polite(names());
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.listening("first_byte_timeout = \"1s\"")
    });
    let start = Instant::now();
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.end();
    assert!((Duration::from_millis(900)..SOON).contains(&start.elapsed()));
    stage.assert_guacd_saw(0);
}

#[test]
fn others_are_served_while_some_never_finish() {
    let stage = Stage::one();
    let mut slow = Vec::new();
    for stage_of in 0..150 {
        let mut visitor = Visitor::dial(stage.broker.address());
        match stage_of % 3 {
            0 => {}
            1 => visitor.wire.send(b"6.sel").unwrap(),
            _ => visitor.select("rdp"),
        }
        slow.push(visitor);
    }
    let mut visitor = Visit::office("ann").at(&stage.broker);
    visitor.ready();
    assert_eq!(stage.broker.placed("ann")["host"], "rds1");
}
