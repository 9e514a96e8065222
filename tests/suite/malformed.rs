//! What is no handshake: refused with 0x300 at every stage, and never passed on.

use guac_protocol::Instruction;

use crate::support::{Stage, Visit, Visitor};

/// What is no handshake, behind whatever came before it; 0x300 on our side.
fn malformed() -> Vec<Vec<u8>> {
    let many = format!("1.x{};", ",0.".repeat(127)).into_bytes();
    let long = format!("1.x,8193.{};", "y".repeat(8193)).into_bytes();
    let endless = format!("1.x{};", format!(",8192.{}", "y".repeat(8192)).repeat(8)).into_bytes();
    let mut all: Vec<Vec<u8>> = [
        &b"hello"[..],
        b"4.size,4.1024,3.768;",
        b"4.size,4.wide,3.768,2.96;",
        b"4.size,2.-1,3.768,2.96;",
        b"6.select,3.rdp;",
        b"7.connect,1.a;",
        b"0.;",
        b"04.size,1.1,1.1,1.1;",
        b"4.name,.x;",
        b"4.name,+1.x;",
        b"4.name,3.ann;\n4.name,3.ann;",
        b"4.name,4.a\0nn;",
        b"4.name,3.\xff\xfe\xfd;",
        // Counted in UTF-16 units.
        "4.name,2.\u{1F600};4.name,3.ann;".as_bytes(),
    ]
    .map(<[u8]>::to_vec)
    .into();
    all.extend([many, long, endless]);
    all
}

#[test]
fn a_malformed_start_is_refused_before_guacd_hears_of_it() {
    let stage = Stage::one();
    let starts = malformed()
        .into_iter()
        .filter(|bytes| !bytes.starts_with(b"6.select"));
    let selects = [
        &b"6.select,4.rdp1;"[..],
        b"6.select,0.;",
        b"6.select;",
        b"6.select,3.rdp,3.vnc;",
        b"6.select,3.RDP;",
        b"6.select,5.$1234;",
    ];
    for bytes in starts.chain(selects.map(<[u8]>::to_vec)) {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.wire.send(&bytes).unwrap();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(visitor.farewell().0, 0x300, "{shown}");
    }
    stage.assert_guacd_saw(0);
}

#[test]
fn a_malformed_setting_is_refused_and_never_forwarded() {
    let stage = Stage::one();
    for bytes in malformed() {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.select("rdp");
        visitor.read_args();
        visitor.wire.send(&bytes).unwrap();
        let refusal = visitor.refusal();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(refusal.code, 0x300, "{shown}: {}", refusal.text);
        let mut peer = stage.guacd.next();
        let said = peer.wire.rest();
        assert!(matches!(said.as_deref(), Ok(b"")), "{shown}: {said:?}");
        let arrived = String::from_utf8_lossy(&peer.wire.arrived).into_owned();
        // `select`, and for two names at most the one that was well-formed: what came
        // together with a malformed one need not be told.
        let most = 1 + usize::from(shown.contains('\n'));
        assert!(
            (1..=most).contains(&arrived.matches(';').count()),
            "{arrived}"
        );
    }
}

#[test]
fn a_connect_that_answers_too_few_or_too_many_names_is_refused() {
    let stage = Stage::one();
    let visit = Visit::office("ann");
    for change in [-1_isize, 1] {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.select("rdp");
        visitor.read_args();
        visitor.wire.say(&visit.settings()[0]).unwrap();
        let mut values = visit.connect(&visitor.shown).into_args();
        values.resize(values.len().saturating_add_signed(change), String::new());
        visitor
            .wire
            .say(&Instruction::new("connect", values))
            .unwrap();
        assert_eq!(visitor.refusal().code, 0x300);
        assert!(stage.guacd.next().connect.is_empty());
    }
}

#[test]
fn parameters_larger_than_guacd_reads_are_refused() {
    let stage = Stage::one();
    let mut visit = Visit::office("ann");
    for name in ["password", "domain", "drive-path", "static-channels"] {
        visit = visit.answer(name, &"\u{e9}".repeat(8000));
    }
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.select("rdp");
    visitor.read_args();
    let mut bytes = b"7.connect".to_vec();
    for value in visit.connect(&visitor.shown).args() {
        bytes.extend(format!(",{}.{value}", value.chars().count()).bytes());
    }
    bytes.push(b';');
    visitor.wire.send(bytes).unwrap();
    assert_eq!(visitor.refusal().code, 0x300);
    assert!(stage.guacd.next().connect.is_empty());
}
