//! What arrives on the Guacamole port besides honest handshakes.

use std::net::TcpStream;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use guac_protocol::{Instruction, Side};

use crate::support::{Names, ScriptedGuacd, Stage, Visit, Visitor, eventually};

fn names() -> Names {
    Names::rdp("1.6.0")
}

#[test]
fn http_and_tls_on_the_plain_port_are_told_to_the_administrator() {
    let stage = Stage::one();
    for (bytes, setting) in [
        (
            &b"GET / HTTP/1.1\r\nHost: guacd\r\n\r\n"[..],
            "guacd-hostname",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "guacd-ssl"),
    ] {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.wire.send(bytes).unwrap();
        visitor.end();
        let said = |line: &serde_json::Value| {
            let message = line["message"].as_str();
            line["level"] == "WARN" && message.is_some_and(|text| text.contains(setting))
        };
        let found = eventually(setting, || stage.broker.said().into_iter().find(said));
        assert_eq!(found["level"], "WARN");
    }
    stage.assert_guacd_saw(0);
}

#[test]
fn a_hundred_health_checks_leave_no_line_and_never_reach_guacd() {
    let stage = Stage::one();
    for n in 0..100 {
        let check = Visitor::dial(stage.broker.address());
        if n % 2 == 0 {
            check.wire.reset();
        }
    }
    stage.assert_guacd_saw(0);
    // The witness's end is logged, so the ends of others would have been.
    stage.broker.ended(&stage.broker.placed("witness"));
    assert_eq!(stage.broker.told(), ["Placed", "Tunnel ended"]);
}

#[test]
fn what_follows_connect_waits_for_the_desktop_and_reaches_guacd_in_order() {
    let guacd = ScriptedGuacd::playing(|peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())?;
        peer.say_ready()?;
        let early = peer.wire.within(Duration::from_millis(300));
        assert_eq!(String::from_utf8_lossy(&early), "", "before a desktop");
        Ok(())
    });
    let stage = Stage::before(guacd, 1);
    let mut visitor = Visit::office("ann").at(&stage.broker);
    visitor
        .wire
        .send(b"3.nop;3.key,5.65307,1.1;3.nop;5.mouse,1.1,1.2,1.0;3.key,5.653")
        .unwrap();
    visitor.ready();
    visitor.wire.send(b"07,1.0;3.nop;").unwrap();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    let expected = b"3.key,5.65307,1.1;5.mouse,1.1,1.2,1.0;3.key,5.65307,1.0;";
    let got = peer.wire.exact(expected.len()).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&got),
        String::from_utf8_lossy(expected)
    );
}

#[test]
fn who_leaves_while_waiting_for_ready_takes_guacd_along() {
    let guacd = ScriptedGuacd::playing(|peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())
    });
    let stage = Stage::before(guacd, 1);
    for goodbye in ["10.disconnect;", ""] {
        let mut visitor = Visit::office("ann").at(&stage.broker);
        let mut peer = stage.guacd.ready();
        visitor.wire.send(goodbye).unwrap();
        if goodbye.is_empty() {
            visitor.wire.finish();
        }
        visitor.ready();
        visitor.end();
        assert_eq!(peer.wire.rest().unwrap(), b"");
    }
}

#[test]
fn more_than_is_kept_while_waiting_for_ready_is_refused() {
    let guacd = ScriptedGuacd::playing(|peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())
    });
    let stage = Stage::before(guacd, 1);
    let mut visitor = Visit::protocol("vnc").at(&stage.broker);
    let blob = format!("4.blob,1.1,8000.{};", "x".repeat(8000));
    visitor.wire.send(blob.repeat(10)).unwrap();
    assert_eq!(visitor.ready().len(), 37);
    assert_eq!(visitor.hear("error").args()[1], 0x300.to_string());
    let mut peer = stage.guacd.ready();
    assert_eq!(peer.wire.rest().unwrap(), b"");
}

#[test]
fn a_second_connect_never_reaches_guacd() {
    let gate = Arc::new(Barrier::new(2));
    let opened = Arc::clone(&gate);
    let guacd = ScriptedGuacd::playing(move |peer| {
        peer.hear_select()?;
        peer.wire.say(&names().to_instruction())?;
        peer.hear_connect(&names())?;
        opened.wait();
        Ok(())
    });
    let stage = Stage::before(guacd, 1);
    for again in ["7.connect,9.127.0.0.9;", "6.select,3.rdp;"] {
        // In the write of the first one, and in one of its own.
        for together in [true, false] {
            let visit = Visit::office("ann");
            let mut visitor = Visitor::dial(stage.broker.address());
            visitor.select("rdp");
            visitor.read_args();
            let connect = visit.connect(&visitor.shown);
            let mut bytes = connect.encode(Side::Guacd).unwrap();
            if together {
                bytes.extend(again.bytes());
                visitor.wire.send(bytes).unwrap();
            } else {
                visitor.wire.send(bytes).unwrap();
                gate.wait();
                visitor.wire.send(again).unwrap();
            }
            assert_eq!(visitor.refusal().code, 0x300);
            let mut peer = stage.guacd.next();
            // What is broken at once is broken before guacd is told anything.
            let told = peer.connect.get("hostname").map(String::as_str);
            assert_eq!(told, (!together).then_some("127.0.0.1"));
            assert_eq!(peer.wire.rest().unwrap(), b"");
        }
    }
}

/// Instructions that a lenient proxy reads as one harmless text, and guacd as more.
fn smuggled() -> Vec<Vec<u8>> {
    let connect = "7.connect,9.127.0.0.9;";
    let mut all = Vec::new();
    // guacd takes the size of a character from its first byte, and never checks the rest.
    for lead in [
        &b"\xf0"[..],
        b"\xe0",
        b"\xc3",
        b"\xf8",
        b"\xed\xa0\x80",
        b"\xc0\xae",
        b"\xf4\x90\x80\x80",
    ] {
        let mut name = b"4.name,3.".to_vec();
        name.extend(lead);
        name.extend(format!("ab;{connect}").bytes());
        all.push(name);
    }
    // It ends a text at NUL, and takes lengths that nobody else does.
    all.push(format!("4.name,9.ann\0;{connect}").into_bytes());
    all.push(format!("4.name,18446744073709551617.x;{connect}").into_bytes());
    all.push(format!("4.name,01.x;{connect}").into_bytes());
    all.push(format!("4.name,.;{connect}").into_bytes());
    all.push(format!("4.name,1.xy;{connect}").into_bytes());
    all.push(format!("4.name,1.x\n;{connect}").into_bytes());
    all
}

#[test]
fn nothing_that_guacd_would_read_as_a_connect_is_smuggled_in() {
    let stage = Stage::one();
    for bytes in smuggled() {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.select("rdp");
        visitor.read_args();
        visitor.wire.send(&bytes).unwrap();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(visitor.refusal().code, 0x300, "{shown}");
        let mut peer = stage.guacd.next();
        peer.wire.rest().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&peer.wire.arrived),
            "6.select,3.rdp;",
            "{shown}"
        );
    }
}

#[test]
fn a_login_that_looks_like_an_instruction_stays_a_login() {
    let stage = Stage::one();
    let login = "x;7.connect,9.127.0.0.9;4.name,1.\u{1F600}";
    let (visitor, mut peer) = stage.tunnel(&Visit::office("ann").login(Some(login)));
    let name = Instruction::new("name", [login]);
    assert!(peer.settings.contains(&name));
    assert_eq!(peer.value("hostname"), "127.0.0.1");
    drop(visitor);
    assert_eq!(peer.wire.rest().unwrap(), b"");
}

#[test]
fn a_reset_at_any_step_ends_the_tunnel_alone() {
    let stage = Stage::one();
    for steps in 0..4 {
        let mut visitor = Visitor::dial(stage.broker.address());
        let mut reached = false;
        for step in 0..steps {
            match step {
                0 => visitor.wire.send(b"6.sel").unwrap(),
                1 => {
                    visitor.wire.send(b"ect,3.rdp;").unwrap();
                    visitor.read_args();
                    reached = true;
                }
                _ => visitor.wire.send(b"4.size,4.1024").unwrap(),
            }
        }
        visitor.wire.reset();
        if reached {
            assert_eq!(stage.guacd.next().wire.rest().unwrap(), b"");
        }
    }
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(peer.value("hostname"), "127.0.0.1");
}

#[test]
fn a_port_scan_of_plain_text_is_refused_and_the_port_goes_on() {
    let stage = Stage::one();
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.wire.send(b"\r\n\r\n").unwrap();
    assert_eq!(visitor.farewell().0, 0x300);
    TcpStream::connect(stage.broker.address()).unwrap();
    stage.assert_guacd_saw(0);
}
