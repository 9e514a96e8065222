//! The two-sided machine: what each side may say when, and what ends it.

use guac_protocol::{
    ConnectionId, DecodeError, EncodeError, Event, Handshake, HandshakeError, Instruction, Phase,
    Select, Side, Step, WidenError, Word,
};

use crate::support::{ID, Played, Script, wire};

const NAMES: [&str; 3] = ["VERSION_1_5_0", "hostname", "password"];

fn select() -> Vec<u8> {
    wire("select", &["rdp"])
}

fn connect() -> Vec<u8> {
    wire("connect", &["VERSION_1_5_0", "desk-1", "pä🔑"])
}

/// A handshake with these settings between a sound `select` and a sound `connect`.
fn with_settings(settings: &[&[u8]]) -> Script {
    Script::new(&NAMES, &[&select(), &settings.concat(), &connect()])
}

fn opcodes(played: &Played) -> Vec<&str> {
    let name = |event| match event {
        &Event::Selected(_) => "selected",
        Event::Args(_) => "args",
        Event::Forward(instruction) => instruction.opcode(),
        Event::Connect(_) => "connect",
        Event::Ready(_) => "ready",
        Event::Ended { .. } => "ended",
    };
    played.events.iter().map(name).collect()
}

fn unexpected(
    side: Side,
    phase: Phase,
    expected: &'static str,
    got: &str,
    offset: u64,
) -> HandshakeError {
    HandshakeError::Unexpected {
        side,
        phase,
        expected,
        got: Word::new(got),
        offset,
    }
}

#[test]
fn a_pipelined_handshake_goes_through() {
    let played = with_settings(&[
        &wire("size", &["1024", "768", "96"]),
        &wire("audio", &["audio/L16"]),
        &wire("video", &[]),
        &wire("image", &["image/png", "image/jpeg"]),
        &wire("timezone", &["Europe/Paris"]),
        &wire("name", &["älice"]),
    ])
    .play();
    assert_eq!(played.error, None);
    let expected = [
        "selected", "args", "size", "audio", "video", "image", "timezone", "name", "connect",
        "ready",
    ];
    assert_eq!(opcodes(&played), expected);
    let protocol = Select::Protocol("rdp".to_owned());
    assert_eq!(played.events[0], Event::Selected(protocol));
    let size = Instruction::new("size", ["1024", "768", "96"]);
    assert_eq!(played.events[2], Event::Forward(size));
    let Event::Connect(parameters) = &played.events[8] else {
        panic!("{:?}", played.events);
    };
    assert_eq!(parameters.version(), Some("VERSION_1_5_0"));
    assert_eq!(parameters.get("hostname"), Some("desk-1"));
    assert_eq!(parameters.get("password"), Some("pä🔑"));
    assert_eq!(parameters.get("port"), None);
    let id = ConnectionId::parse(ID).unwrap();
    assert_eq!(played.events[9], Event::Ready(id));
    assert_eq!(played.user_name.as_deref(), Some("älice"));
}

#[test]
fn settings_may_be_missing_and_in_any_order() {
    let played = with_settings(&[]).play();
    assert_eq!(opcodes(&played), ["selected", "args", "connect", "ready"]);
    assert_eq!(played.user_name, None);
    let played = with_settings(&[
        &wire("name", &[""]),
        &wire("image", &[]),
        &wire("size", &["0", "0", "0", "later"]),
    ])
    .play();
    let expected = [
        "selected", "args", "name", "image", "size", "connect", "ready",
    ];
    assert_eq!(opcodes(&played), expected);
    assert_eq!(played.user_name.as_deref(), Some(""));
}

#[test]
fn the_last_name_counts_as_it_does_for_guacd() {
    let played = with_settings(&[&wire("name", &["a"]), &wire("name", &["b", "c"])]).play();
    assert_eq!(played.user_name.as_deref(), Some("b"));
    let played = with_settings(&[&wire("name", &["a"]), &wire("name", &[])]).play();
    assert_eq!(played.user_name, None);
}

#[test]
fn a_handshake_without_version_goes_through() {
    let script = Script::new(
        &["hostname", "VERSION_1_1_0"],
        &[
            &select(),
            &wire("connect", &["desk-1", "an ordinary value"]),
        ],
    );
    let played = script.play();
    let Event::Args(names) = &played.events[1] else {
        panic!("{:?}", played.events);
    };
    assert_eq!((names.version(), names.len()), (None, 2));
    let Event::Connect(parameters) = &played.events[2] else {
        panic!("{:?}", played.events);
    };
    assert_eq!(parameters.get("VERSION_1_1_0"), Some("an ordinary value"));
}

#[test]
fn an_empty_answer_to_the_version_is_passed_through() {
    let script = Script::new(&NAMES, &[&select(), &wire("connect", &["", "desk-1", ""])]);
    let played = script.play();
    let Event::Connect(parameters) = &played.events[2] else {
        panic!("{:?}", played.events);
    };
    let bytes = parameters.to_instruction().encode(Side::Guacd).unwrap();
    assert_eq!(bytes, wire("connect", &["", "desk-1", ""]));
}

#[test]
fn a_join_is_told_from_a_protocol() {
    let join = wire("select", &[ID]);
    let script = Script::new(&NAMES, &[&join, &wire("connect", &["", "", ""])]);
    let played = script.play();
    let id = ConnectionId::parse(ID).unwrap();
    let select = Select::Join(id.clone());
    assert_eq!(select.to_instruction().encode(Side::Guacd).unwrap(), join);
    assert_eq!(played.events[0], Event::Selected(select));
    assert_eq!(played.events[3], Event::Ready(id));
}

#[test]
fn guacd_may_refuse_instead_of_args() {
    let mut script = with_settings(&[]);
    script.args = wire("error", &["No such connection.", "516"]);
    let played = script.play();
    let (by, status) = (Side::Guacd, Some(516));
    assert_eq!(played.events[1], Event::Ended { by, status });
    script.args = wire("disconnect", &[]);
    let (by, status) = (Side::Guacd, None);
    assert_eq!(script.play().events[1], Event::Ended { by, status });
    script.args = wire("error", &["what", "no number"]);
    assert_eq!(script.play().events[1], Event::Ended { by, status });
}

#[test]
fn guacd_may_refuse_instead_of_ready() {
    let mut script = with_settings(&[]);
    script.ready = wire("error", &["no", "769"]);
    let played = script.play();
    let (by, status) = (Side::Guacd, Some(769));
    assert_eq!(played.events[3], Event::Ended { by, status });
}

#[test]
fn guacd_may_say_nothing_but_args_and_ready() {
    let mut script = with_settings(&[]);
    for opcode in ["nop", "ready", "log"] {
        script.args = wire(opcode, &[]);
        let expected = unexpected(Side::Guacd, Phase::Args, "`args`", opcode, 0);
        assert_eq!(script.fails(), expected);
    }
    let mut script = with_settings(&[]);
    script.ready = wire("nop", &[]);
    let at = script.args.len() as u64;
    let expected = unexpected(Side::Guacd, Phase::Ready, "`ready`", "nop", at);
    assert_eq!(script.fails(), expected);
}

#[test]
fn guacd_may_not_speak_while_guacamole_answers() {
    for (opcode, args, ends) in [("error", ["x", "519"], true), ("sync", ["1", "0"], false)] {
        let mut machine = Handshake::new();
        machine.feed(Side::Guacamole, &select()).unwrap();
        machine.step().unwrap();
        let stream = [wire("args", &NAMES), wire(opcode, &args)].concat();
        machine.feed(Side::Guacd, &stream).unwrap();
        assert!(matches!(machine.step(), Ok(Step::Event(Event::Args(_)))));
        let (by, status) = (Side::Guacd, Some(519));
        if ends {
            let ended = Step::Event(Event::Ended { by, status });
            assert_eq!(machine.step(), Ok(ended));
            assert_eq!(machine.phase(), Phase::Done);
            assert_eq!(machine.step(), Ok(Step::Read(&[])));
        } else {
            let at = wire("args", &NAMES).len() as u64;
            let expected = "nothing before `connect`";
            let expected = unexpected(by, Phase::Settings, expected, opcode, at);
            assert_eq!(machine.step(), Err(expected));
        }
    }
}

#[test]
fn select_must_come_first() {
    for opcode in ["nop", "size", "connect", "hello"] {
        let script = Script::new(&NAMES, &[&wire(opcode, &[]), &select()]);
        let expected = unexpected(Side::Guacamole, Phase::Select, "`select`", opcode, 0);
        assert_eq!(script.fails(), expected);
    }
}

#[test]
fn a_second_select_is_refused() {
    let at = select().len() as u64;
    let expected = "settings or `connect`";
    let expected = unexpected(Side::Guacamole, Phase::Settings, expected, "select", at);
    assert_eq!(with_settings(&[&select()]).fails(), expected);
}

#[test]
fn select_names_a_protocol_or_a_connection_and_nothing_else() {
    let long = "a".repeat(33);
    let upper = ID.to_uppercase();
    let refused: [&[&str]; 12] = [
        &[],
        &[""],
        &["rdp", "x"],
        &["RDP"],
        &["rdp2"],
        &["../rdp"],
        &["rdp "],
        &[&long],
        &["$"],
        &["$01234567-89ab-cdef-0123-456789abcde"],
        &["$01234567-89ab-cdef-0123-456789abcdeg"],
        &["01234567-89ab-cdef-0123-456789abcdef"],
    ];
    for args in refused {
        let script = Script::new(&NAMES, &[&wire("select", args)]);
        let (offset, arguments) = (0, args.len());
        let expected = HandshakeError::Select { offset, arguments };
        assert_eq!(script.fails(), expected, "{args:?}");
    }
    for argument in [&long[..32], "kubernetes", &upper] {
        let script = Script::new(&NAMES, &[&wire("select", &[argument]), &connect()]);
        assert_eq!(script.play().error, None, "{argument}");
    }
}

#[test]
fn size_without_three_integers_is_refused() {
    let refused: [&[&str]; 9] = [
        &[],
        &["1024"],
        &["1024", "768"],
        &["1024", "768", ""],
        &["1024", "-768", "96"],
        &["+1024", "768", "96"],
        &["1024", "76.8", "96"],
        &["1024", "768", "ninety"],
        &["1024", "2147483648", "96"],
    ];
    for args in refused {
        let (offset, arguments) = (select().len() as u64, args.len());
        let expected = HandshakeError::Size { offset, arguments };
        assert_eq!(
            with_settings(&[&wire("size", args)]).fails(),
            expected,
            "{args:?}"
        );
    }
}

#[test]
fn nop_before_connect_is_dropped() {
    let nop = wire("nop", &[]);
    let played = with_settings(&[&nop, &wire("image", &[]), &nop]).play();
    let expected = ["selected", "args", "image", "connect", "ready"];
    assert_eq!(opcodes(&played), expected);
}

#[test]
fn unknown_settings_are_forwarded() {
    let played = with_settings(&[&wire("newer", &["x", "y😀"])]).play();
    let newer = Instruction::new("newer", ["x", "y😀"]);
    assert_eq!(played.events[2], Event::Forward(newer));
}

#[test]
fn settings_that_guacd_cannot_hold_are_refused() {
    let long = "x".repeat(8_000);
    let many = wire("newer", &[long.as_str(); 5]);
    let (limit, got) = (32_768, many.len());
    let reader = Side::Guacd;
    let expected = HandshakeError::Encode {
        reader,
        phase: Phase::Settings,
        error: EncodeError::TooLong { reader, limit, got },
    };
    assert_eq!(with_settings(&[&many]).fails(), expected);
}

#[test]
fn guacamole_may_leave_at_any_point() {
    let bye = wire("disconnect", &[]);
    let (by, status) = (Side::Guacamole, None);
    let ended = Event::Ended { by, status };
    let scripts = [
        Script::new(&NAMES, &[&bye]),
        with_settings(&[&bye]),
        Script::new(&NAMES, &[&select(), &connect(), &bye]),
    ];
    for (script, at) in scripts.iter().zip([0, 2, 3]) {
        let played = script.play();
        assert_eq!((played.error, &played.events[at]), (None, &ended));
        assert_eq!(played.events.len(), at + 1);
    }
}

#[test]
fn guacamole_may_end_with_an_error() {
    let played = with_settings(&[&wire("error", &["x", "776"])]).play();
    let (by, status) = (Side::Guacamole, Some(776));
    assert_eq!(played.events[2], Event::Ended { by, status });
}

#[test]
fn connect_with_another_count_fails_closed() {
    let cases: [&[&str]; 3] = [&[], &["VERSION_1_5_0", "desk-1"], &["", "", "", ""]];
    for values in cases {
        let script = Script::new(&NAMES, &[&select(), &wire("connect", values)]);
        let (expected, got) = (3, values.len());
        let expected = HandshakeError::ConnectCount { expected, got };
        assert_eq!(script.fails(), expected);
    }
}

#[test]
fn a_name_that_stands_twice_in_args_fails_closed() {
    let names = ["VERSION_1_5_0", "hostname", "port", "hostname"];
    let (first, second) = (0, 2);
    let expected = HandshakeError::DuplicateName { first, second };
    assert_eq!(Script::new(&names, &[&select()]).fails(), expected);
}

#[test]
fn args_that_guacamole_cannot_hold_fail_closed() {
    let long = "n".repeat(8_000);
    let script = Script::new(&[&long], &[&select()]);
    let reader = Side::Guacamole;
    let (limit, got) = (7_999, 8_013);
    let expected = HandshakeError::Encode {
        reader,
        phase: Phase::Args,
        error: EncodeError::TooLong { reader, limit, got },
    };
    assert_eq!(script.fails(), expected);
}

#[test]
fn ready_without_a_connection_id_is_refused() {
    for args in [&[][..], &["x"], &["$x"], &[""]] {
        let mut script = with_settings(&[]);
        script.ready = wire("ready", args);
        let (offset, arguments) = (script.args.len() as u64, args.len());
        let expected = HandshakeError::ReadyId { offset, arguments };
        assert_eq!(script.fails(), expected);
    }
}

#[test]
fn a_broken_stream_says_which_side_where() {
    let script = with_settings(&[b"04.name;"]);
    let HandshakeError::Decode { side, phase, error } = script.fails() else {
        panic!("{:?}", script.fails());
    };
    assert_eq!((side, phase), (Side::Guacamole, Phase::Settings));
    assert_eq!(error.offset(), select().len() as u64 + 1);
    let mut script = with_settings(&[]);
    script.args = b"4.args,1.\xFF;".to_vec();
    let expected = HandshakeError::Decode {
        side: Side::Guacd,
        phase: Phase::Args,
        error: DecodeError::NotUtf8 { offset: 9 },
    };
    assert_eq!(script.fails(), expected);
}

#[test]
fn a_handshake_of_more_than_64_kib_is_refused_before_it_is_kept() {
    let setting = wire("newer", &["x".repeat(8_000).as_str(); 3]);
    let script = with_settings(&[&setting, &setting, &setting]);
    let mut machine = Handshake::new();
    let (side, limit) = (Side::Guacamole, 65_536);
    let mut refused = None;
    for chunk in script.guacamole.chunks(4_096) {
        if let Err(error) = machine.feed(side, chunk) {
            refused = Some(error);
            break;
        }
    }
    let phase = Phase::Select;
    let expected = HandshakeError::TooMuch { side, phase, limit };
    assert_eq!(refused, Some(expected));

    // Read as it comes, it does not get further either.
    let chunks: Vec<&[u8]> = script.guacamole.chunks(4_096).collect();
    let played = script.play_cut(&chunks, &[&script.args], &[&script.ready]);
    let phase = Phase::Settings;
    let expected = HandshakeError::TooMuch { side, phase, limit };
    assert_eq!(played.error, Some(expected));
}

#[test]
fn guacd_may_not_flood_before_ready() {
    let mut machine = Handshake::new();
    machine.feed(Side::Guacamole, &select()).unwrap();
    machine.step().unwrap();
    let (side, phase, limit) = (Side::Guacd, Phase::Args, 65_536);
    let chunk = "x".repeat(8_000);
    machine
        .feed(side, wire("args", &[&chunk]).get(..8_000).unwrap())
        .unwrap();
    let mut fed = 8_000;
    let error = loop {
        match machine.feed(side, &[b'x'; 8_000]) {
            Ok(()) => fed += 8_000,
            Err(error) => break error,
        }
    };
    assert_eq!(error, HandshakeError::TooMuch { side, phase, limit });
    assert!(fed < 65_536 + 8_000);
}

#[test]
fn a_ready_that_ends_behind_64_kib_is_refused() {
    let mut script = with_settings(&[]);
    let long = "x".repeat(8_000);
    let args: Vec<&str> = std::iter::once(ID).chain([long.as_str(); 8]).collect();
    script.ready = wire("ready", &args);
    let padding = 65_536 - script.ready.len() - 8;
    script.ready = wire(
        "ready",
        &[&args[..], &["x".repeat(padding).as_str()]].concat(),
    );
    assert!(script.ready.len() <= 65_536);
    let (side, phase, limit) = (Side::Guacd, Phase::Ready, 65_536);
    let expected = HandshakeError::TooMuch { side, phase, limit };
    let played = script.play_cut(&[&script.guacamole], &[&script.args], &[&script.ready]);
    assert_eq!(played.error, Some(expected));
}

#[test]
fn what_follows_ready_in_the_same_read_is_not_counted() {
    let mut script = with_settings(&[]);
    let drawing = vec![b'#'; 200_000];
    script.ready.extend(&drawing);
    let played = script.play_cut(&[&script.guacamole], &[&script.args], &[&script.ready]);
    assert_eq!(played.error, None);
    assert!(played.to_guacamole == drawing);
}

#[test]
fn bytes_behind_the_handshake_are_handed_out_in_order() {
    let mut script = with_settings(&[]);
    let guacamole = [
        wire("mouse", &["1", "2", "0"]),
        wire("nop", &[]),
        wire("key", &["ü"]),
    ];
    script.guacamole.extend(guacamole.concat());
    script.guacamole.extend(b"4.sync,5.12");
    script.ready.extend(b"4.size,1.0\xFF;broken or not");
    let played = script.play();
    let kept = [
        wire("mouse", &["1", "2", "0"]),
        wire("key", &["ü"]),
        b"4.sync,5.12".to_vec(),
    ];
    assert_eq!(played.to_guacd, kept.concat());
    assert_eq!(played.to_guacamole, b"4.size,1.0\xFF;broken or not");
}

#[test]
fn a_second_connect_or_select_while_ready_is_awaited_fails_closed() {
    for (opcode, again) in [("connect", connect()), ("select", select())] {
        let mut script = with_settings(&[]);
        let at = script.guacamole.len() as u64;
        script.guacamole.extend(again);
        let expected = "anything but a new start";
        let expected = unexpected(Side::Guacamole, Phase::Ready, expected, opcode, at);
        assert_eq!(script.fails(), expected);
    }
}

#[test]
fn a_second_connect_does_not_slip_behind_a_ready_that_is_there() {
    let mut machine = Handshake::new();
    let guacamole = [select(), connect(), connect()].concat();
    machine.feed(Side::Guacamole, &guacamole).unwrap();
    machine.step().unwrap();
    machine.feed(Side::Guacd, &wire("args", &NAMES)).unwrap();
    machine.step().unwrap();
    assert!(matches!(machine.step(), Ok(Step::Event(Event::Connect(_)))));
    machine.feed(Side::Guacd, &wire("ready", &[ID])).unwrap();
    assert!(matches!(
        machine.step(),
        Err(HandshakeError::Unexpected { .. })
    ));
    assert!(machine.step().is_err());
}

#[test]
fn a_broken_stream_behind_connect_is_refused() {
    let mut script = with_settings(&[]);
    script.guacamole.extend(b"0.;");
    let offset = script.guacamole.len() as u64 - 2;
    let expected = HandshakeError::Decode {
        side: Side::Guacamole,
        phase: Phase::Ready,
        error: DecodeError::EmptyOpcode { offset },
    };
    assert_eq!(script.fails(), expected);
}

#[test]
fn names_can_be_added_only_right_after_args() {
    let mut machine = Handshake::new();
    let not_now = |phase| Err(WidenError::NotNow { phase });
    assert_eq!(machine.widen(&["x"]), not_now(Phase::Select));
    machine.feed(Side::Guacamole, &select()).unwrap();
    machine.step().unwrap();
    machine.feed(Side::Guacd, &wire("args", &NAMES)).unwrap();
    assert_eq!(machine.widen(&["x"]), not_now(Phase::Args));
    assert!(matches!(machine.step(), Ok(Step::Event(Event::Args(_)))));
    assert_eq!(machine.widen(&["resource"]), Ok(()));
    assert_eq!(machine.names().unwrap().len(), 3);
    let reads = Step::Read(&[Side::Guacamole, Side::Guacd]);
    assert_eq!(machine.step(), Ok(reads));
    assert_eq!(machine.widen(&["y"]), not_now(Phase::Settings));
}

#[test]
fn a_widened_handshake_asks_guacamole_for_more() {
    let mut script = Script::new(
        &NAMES,
        &[&select(), &wire("connect", &["", "desk-1", "pw", "office"])],
    );
    script.widen = vec!["resource"];
    let played = script.play();
    let Event::Connect(mut parameters) = played.events[2].clone() else {
        panic!("{:?}", played.events);
    };
    assert_eq!(parameters.narrow("resource").as_deref(), Some("office"));
    let bytes = parameters.to_instruction().encode(Side::Guacd).unwrap();
    assert_eq!(bytes, wire("connect", &["", "desk-1", "pw"]));
}

#[test]
fn the_machine_says_where_it_stands_and_whom_to_read() {
    const WEB: Side = Side::Guacamole;
    const DAEMON: Side = Side::Guacd;
    let mut machine = Handshake::new();
    assert!(!machine.saw_bytes());
    machine.feed(Side::Guacamole, b"").unwrap();
    assert!(!machine.saw_bytes());
    let mut expect = |side, bytes: &[u8], phase: Phase, reads: &'static [Side]| {
        machine.feed(side, bytes).unwrap();
        while matches!(machine.step().unwrap(), Step::Event(_)) {}
        assert_eq!(machine.phase(), phase);
        assert_eq!(machine.step(), Ok(Step::Read(reads)));
    };
    expect(WEB, b"6.sel", Phase::Select, &[WEB]);
    expect(WEB, b"ect,3.rdp;", Phase::Args, &[DAEMON, WEB]);
    expect(
        DAEMON,
        &wire("args", &NAMES),
        Phase::Settings,
        &[WEB, DAEMON],
    );
    expect(WEB, &connect(), Phase::Ready, &[DAEMON, WEB]);
    expect(DAEMON, &wire("ready", &[ID]), Phase::Done, &[]);
    assert!(machine.saw_bytes());
    let phases = [
        Phase::Select,
        Phase::Args,
        Phase::Settings,
        Phase::Ready,
        Phase::Done,
    ];
    let words: Vec<String> = phases.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["select", "args", "settings", "ready", "done"]);
}
