//! No value is ever printed: not by `Debug`, not by `Display`, not by an error.

use std::fmt::{Debug, Display};

use guac_protocol::{
    DecodeError, Decoder, Event, Framing, Handshake, Held, Instruction, Limits, ParameterNames,
    Parameters, Said, Side, Step, Word,
};

use crate::support::{Played, Script, wire};

/// Would pass for an opcode in form, but for its length.
const MARKER: &str = "marker-0123456789-secret";

fn assert_silent(what: &(impl Debug + ?Sized)) {
    for text in [format!("{what:?}"), format!("{what:#?}")] {
        assert!(!text.contains("marker"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

fn assert_silent_error(error: &(impl Debug + Display)) {
    assert_silent(error);
    assert_silent(&format!("{error} {error:#}"));
}

fn play(guacamole: &[&[u8]]) -> Played {
    let names = ["VERSION_1_5_0", "hostname", "password"];
    let select = wire("select", &["rdp"]);
    Script::new(&names, &[&select, &guacamole.concat()]).play()
}

#[test]
fn the_marker_is_there_to_be_printed() {
    let instruction = Instruction::new("name", [MARKER]);
    let bytes = instruction.encode(Side::Guacd).unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains(MARKER));
    let played = play(&[&wire("connect", &["", MARKER, MARKER])]);
    let Event::Connect(parameters) = &played.events[2] else {
        panic!("{:?}", played.events);
    };
    assert_eq!(parameters.get("password"), Some(MARKER));
}

#[test]
fn instructions_show_their_opcode_and_the_number_of_arguments() {
    let instruction = Instruction::new("name", [MARKER, MARKER]);
    assert_silent(&instruction);
    assert_eq!(
        format!("{instruction:?}"),
        "Instruction(`name`, 2 arguments)"
    );
    let odd = Instruction::new(MARKER, [MARKER]);
    assert_silent(&odd);
    let expected = "Instruction(a text of 24 characters, 1 arguments)";
    assert_eq!(format!("{odd:?}"), expected);
    for word in [MARKER, "Secret", "secret ", "", "sécret", "marker_1"] {
        let shown = format!("{}", Word::new(word));
        assert_eq!(
            shown,
            format!("a text of {} characters", word.chars().count())
        );
    }
}

#[test]
fn events_and_parameters_are_silent() {
    let played = play(&[
        &wire("name", &[MARKER]),
        &wire(MARKER, &[MARKER]),
        &wire("connect", &[MARKER, MARKER, MARKER]),
        &wire("key", &[MARKER]),
    ]);
    assert_eq!((played.error, played.events.len()), (None, 6));
    assert_silent(&played.events);
    let names = Instruction::new("args", [MARKER, "hostname"]);
    let names = ParameterNames::from_args(names).unwrap();
    assert_silent(&names);
    let connect = Instruction::new("connect", [MARKER, MARKER]);
    assert_silent(&Parameters::from_connect(&names, connect).unwrap());
}

#[test]
fn what_is_relayed_is_silent() {
    let mut machine = Handshake::new();
    machine
        .feed(Side::Guacamole, &wire("disconnect", &[]))
        .unwrap();
    assert!(matches!(machine.step(), Ok(Step::Event(_))));
    machine.feed(Side::Guacamole, MARKER.as_bytes()).unwrap();
    assert_silent(&machine);
    let rest = machine.into_rest();
    assert!(rest.to_guacd.ends_with(MARKER.as_bytes()));
    assert_silent(&rest);
    let mut framing = Framing::new();
    let mut seen_once = false;
    let scanned = framing.scan(&wire("error", &[MARKER, MARKER]), |seen| {
        assert_eq!(seen.arg(0), Some(MARKER));
        assert_silent(seen);
        seen_once = true;
    });
    assert!(scanned.is_ok() && seen_once);
    assert_silent(&framing);
    let mut held = Held::new();
    assert_eq!(held.feed(&wire("key", &[MARKER])), Ok(Said::Nothing));
    assert_silent(&held);
    let mut decoder = Decoder::new(Limits::HANDSHAKE);
    assert!(decoder.decode(b"4.name,24.marker-secret").is_ok());
    assert_silent(&decoder);
}

#[test]
fn decoded_instructions_are_silent() {
    let decoded = Decoder::new(Limits::HANDSHAKE).decode(&wire("name", &[MARKER]));
    assert_silent(&decoded.unwrap());
}

#[test]
fn decode_errors_are_silent() {
    let streams = [
        format!("4.name,3.{MARKER};"),
        format!("4.name,99999.{MARKER};"),
        format!("{MARKER};"),
        format!("4.name,24.{MARKER}{MARKER};"),
        format!("4.name,25.{MARKER}\0;"),
        format!("4.name,{MARKER}"),
    ];
    for stream in streams {
        let error = Decoder::new(Limits::HANDSHAKE).decode(stream.as_bytes());
        assert_silent_error(&error.unwrap_err());
    }
    let mut stream = format!("4.name,25.{MARKER}").into_bytes();
    stream.push(0xFF);
    let error = Decoder::new(Limits::HANDSHAKE).decode(&stream).unwrap_err();
    assert_eq!(error, DecodeError::NotUtf8 { offset: 34 });
    assert_silent_error(&error);
}

#[test]
fn handshake_errors_are_silent() {
    let long = MARKER.repeat(300);
    let long = [long.as_str(); 5];
    let cases: [&[u8]; 8] = [
        &wire("connect", &[MARKER]),
        &wire("size", &[MARKER, MARKER, MARKER]),
        &wire("select", &[MARKER]),
        &wire("newer", &long),
        b"4.name,3.marker;",
        &[wire("connect", &["", "", ""]), wire("connect", &[MARKER])].concat(),
        &[wire("connect", &["", "", ""]), b"1.marker".to_vec()].concat(),
        b"4.name,24.marker-0123456789-secret;secret",
    ];
    for guacamole in cases {
        assert_silent_error(&play(&[guacamole]).error.unwrap());
    }
    for first in [wire("select", &[MARKER, MARKER]), wire(MARKER, &[MARKER])] {
        assert_silent_error(&Script::new(&["x"], &[&first]).fails());
    }
    let duplicate = Script::new(&[MARKER, MARKER], &[&wire("select", &["rdp"])]);
    assert_silent_error(&duplicate.fails());
    let mut script = Script::new(
        &["x"],
        &[&wire("select", &["rdp"]), &wire("connect", &[""])],
    );
    script.ready = wire("ready", &[MARKER]);
    assert_silent_error(&script.fails());
    script.ready = wire(MARKER, &[MARKER]);
    assert_silent_error(&script.fails());
}

#[test]
fn encode_and_widen_errors_are_silent() {
    let instructions = [
        Instruction::new("", [MARKER]),
        Instruction::new(MARKER, [format!("{MARKER}\0")]),
        Instruction::new(MARKER, [format!("{MARKER}😀")]),
        Instruction::new(MARKER, [MARKER.repeat(1_000)]),
        Instruction::new(MARKER, [MARKER; 127]),
        Instruction::new(MARKER, vec![MARKER.repeat(300); 6]),
    ];
    for instruction in instructions {
        assert_silent_error(&instruction.encode(Side::Guacamole).unwrap_err());
    }
    let args = Instruction::new("args", [MARKER]);
    let mut names = ParameterNames::from_args(args).unwrap();
    assert_silent_error(&names.widen(&[MARKER]).unwrap_err());
    assert_silent_error(&names.widen(&[&format!("{MARKER} ")]).unwrap_err());
    assert_silent_error(&names.widen(&[&MARKER.repeat(500)[..]; 1]).unwrap_err());
}
