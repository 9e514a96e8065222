//! Names of every release, zipped with values, widened and narrowed.

use guac_protocol::{
    ConnectionId, EncodeError, HandshakeError, Instruction, ParameterNames, Parameters, Side,
    WidenError, Word,
};

use crate::support::{ID, Script, wire};

/// What guacd of each release announces for RDP, the version included, one name a line.
const RELEASES: [(&str, usize, &str); 13] = [
    ("1.0.0", 65, include_str!("data/args/rdp-1.0.0.txt")),
    ("1.1.0", 66, include_str!("data/args/rdp-1.1.0.txt")),
    ("1.2.0", 76, include_str!("data/args/rdp-1.2.0.txt")),
    ("1.3.0", 76, include_str!("data/args/rdp-1.3.0.txt")),
    ("1.4.0", 81, include_str!("data/args/rdp-1.4.0.txt")),
    ("1.5.0", 81, include_str!("data/args/rdp-1.5.0.txt")),
    ("1.5.1", 81, include_str!("data/args/rdp-1.5.1.txt")),
    ("1.5.2", 81, include_str!("data/args/rdp-1.5.2.txt")),
    ("1.5.3", 81, include_str!("data/args/rdp-1.5.3.txt")),
    ("1.5.4", 81, include_str!("data/args/rdp-1.5.4.txt")),
    ("1.5.5", 81, include_str!("data/args/rdp-1.5.5.txt")),
    ("1.6.0", 88, include_str!("data/args/rdp-1.6.0.txt")),
    ("main", 90, include_str!("data/args/rdp-main.txt")),
];

const OURS: [&str; 3] = ["sg-resource", "sg-user", "sg-mode"];

fn names(list: &[&str]) -> ParameterNames {
    let args = Instruction::new("args", list.iter().copied());
    ParameterNames::from_args(args).unwrap()
}

fn value(name: &str) -> String {
    format!("value of {name} 🔑")
}

#[test]
fn the_args_of_every_release_are_answered_by_name() {
    for (release, count, list) in RELEASES {
        let list: Vec<&str> = list.lines().collect();
        let names = names(&list);
        assert_eq!(names.len(), count, "{release}");
        assert_eq!(names.version().is_some(), release != "1.0.0");
        assert_eq!(names.slots(), list.len());
        let args = names.to_instruction().encode(Side::Guacamole).unwrap();
        assert_eq!(args, wire("args", &list), "{release}");

        let mut wide = names.clone();
        wide.widen(&OURS).unwrap();
        let values = wide.iter().map(value);
        let version = wide.version().map(str::to_owned);
        let connect = Instruction::new("connect", version.into_iter().chain(values));
        let mut parameters = Parameters::from_connect(&wide, connect).unwrap();
        for name in wide.iter() {
            assert_eq!(parameters.get(name), Some(value(name).as_str()));
        }
        assert!(parameters.set("hostname", "desk-7"));
        for name in OURS {
            assert_eq!(parameters.narrow(name), Some(value(name)));
            assert_eq!(parameters.narrow(name), None);
            assert_eq!(parameters.get(name), None);
        }
        assert!(parameters.names().eq(names.iter()), "{release}");
        assert_eq!(
            wide.len(),
            names.len() + OURS.len(),
            "{release}: what was asked stays"
        );
        let connect = parameters.to_instruction();
        connect.check(Side::Guacd).unwrap();
        for (name, answer) in list.iter().zip(connect.args()) {
            let expected = match *name {
                "hostname" => "desk-7".to_owned(),
                version if Some(version) == names.version() => version.to_owned(),
                name => value(name),
            };
            assert_eq!(*answer, expected, "{release} {name}");
        }
    }
}

#[test]
fn the_handshake_of_every_release_goes_through() {
    for (release, _, list) in RELEASES {
        let list: Vec<&str> = list.lines().collect();
        let values: Vec<&str> = list.iter().map(|_| "ü").chain(OURS).collect();
        let guacamole = [wire("select", &["rdp"]), wire("connect", &values)];
        let mut script = Script::new(&list, &[&guacamole.concat()]);
        script.widen = OURS.to_vec();
        let chunks: Vec<&[u8]> = script.args.chunks(100).collect();
        let played = script.play_cut(&[&script.guacamole], &chunks, &[&script.ready]);
        assert_eq!((played.error, played.events.len()), (None, 4), "{release}");
    }
}

#[test]
fn a_name_added_in_the_middle_moves_no_value() {
    let names = names(&["VERSION_1_5_0", "hostname", "brand-new", "password"]);
    let connect = Instruction::new("connect", ["VERSION_1_3_0", "desk-1", "?", "secret"]);
    let parameters = Parameters::from_connect(&names, connect.clone()).unwrap();
    assert_eq!(parameters.get("hostname"), Some("desk-1"));
    assert_eq!(parameters.get("password"), Some("secret"));
    assert_eq!(parameters.to_instruction(), connect);
}

#[test]
fn the_version_is_told_from_a_name_by_its_form() {
    for version in ["VERSION_1_5_0", "VERSION_10_0_12"] {
        assert_eq!(names(&[version, "a"]).version(), Some(version));
    }
    for name in [
        "VERSION_1_5",
        "VERSION_1_5_0_0",
        "VERSION_1__0",
        "VERSION_a_b_c",
        "version_1_5_0",
    ] {
        assert_eq!(names(&[name]).version(), None);
        assert!(names(&[name]).contains(name));
    }
    assert!(names(&[]).is_empty());
}

#[test]
fn values_are_read_and_changed_by_name() {
    let names = names(&["hostname", "port"]);
    let connect = Instruction::new("connect", ["desk-1", ""]);
    let mut parameters = Parameters::from_connect(&names, connect).unwrap();
    assert_eq!((parameters.len(), parameters.is_empty()), (2, false));
    assert_eq!(parameters.get("port"), Some(""));
    assert!(!parameters.set("domain", "x"));
    assert_eq!(parameters.get("domain"), None);
    for (name, value) in parameters.iter_mut() {
        value.push_str(name);
    }
    assert_eq!(parameters.get("hostname"), Some("desk-1hostname"));
    assert_eq!(parameters.get("port"), Some("port"));
}

#[test]
fn other_instructions_are_no_names_and_no_values() {
    let expected = "args";
    let got = Word::new("ready");
    let ready = Instruction::new("ready", [ID]);
    let error = HandshakeError::Opcode { expected, got };
    assert_eq!(ParameterNames::from_args(ready), Err(error));
    let expected = "connect";
    let got = Word::new("args");
    let args = Instruction::new("args", ["x"]);
    let error = HandshakeError::Opcode { expected, got };
    assert_eq!(Parameters::from_connect(&names(&["x"]), args), Err(error));
}

#[test]
fn widening_is_all_or_nothing() {
    let mut known = names(&["VERSION_1_5_0", "hostname"]);
    let before = known.clone();
    let present = |index| Err(WidenError::Present { index });
    assert_eq!(known.widen(&["a", "hostname"]), present(1));
    assert_eq!(known.widen(&["a", "b", "a"]), present(2));
    for bad in ["", "VERSION_1_5_0", "a b", "a\0", "ü"] {
        let index = 1;
        assert_eq!(
            known.widen(&["a", bad]),
            Err(WidenError::NotAName { index })
        );
    }
    assert_eq!(known, before);
    known.widen(&["a", "b"]).unwrap();
    assert!(known.iter().eq(["hostname", "a", "b"]));
}

#[test]
fn widening_stops_at_what_can_be_read() {
    let many: Vec<String> = (0..125).map(|n| format!("name-{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut known = names(&many);
    assert_eq!(known.widen(&["one-more"]), Ok(()));
    let reader = Side::Guacamole;
    let (limit, got) = (127, 128);
    let error = EncodeError::TooManyElements { reader, limit, got };
    assert_eq!(known.widen(&["too-many"]), Err(WidenError::TooLong(error)));
    assert_eq!(known.len(), 126);

    let long = "n".repeat(7_900);
    let mut known = names(&[&long]);
    let error = known.widen(&[&"m".repeat(90)]).unwrap_err();
    let (limit, got) = (7_999, 8_007);
    let expected = EncodeError::TooLong { reader, limit, got };
    assert_eq!(error, WidenError::TooLong(expected));
}

#[test]
fn connection_ids_are_a_dollar_and_a_uuid() {
    let id = ConnectionId::parse(ID).unwrap();
    assert_eq!(ConnectionId::from_uuid_text(&ID[1..]), Some(id.clone()));
    assert_eq!((id.as_str(), id.to_string()), (ID, ID.to_owned()));
    assert_eq!(ConnectionId::from_uuid_text(ID), None);
    for bits in [0, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
        let made = ConnectionId::from_bits(bits);
        assert_eq!(ConnectionId::parse(made.as_str()), Some(made));
    }
    for text in [
        "",
        "$",
        &ID[1..],
        &ID[..36],
        &format!("{ID}0"),
        &ID.replace('-', "0"),
    ] {
        assert_eq!(ConnectionId::parse(text), None, "{text}");
    }
}

#[test]
fn another_guacd_gets_the_same_answers_by_name() {
    let shown = names(&["VERSION_1_5_0", "hostname", "port", "username"]);
    let answered = ["VERSION_1_3_0", "host", "3389", "ann"];
    let connect = Instruction::new("connect", answered);
    let parameters = Parameters::from_connect(&shown, connect).unwrap();
    for (theirs, expected) in [
        // The lower version of both, names in their order, unset where nobody asked.
        (
            &["VERSION_1_6_0", "port", "new", "hostname"][..],
            &["VERSION_1_3_0", "3389", "", "host"][..],
        ),
        (&["VERSION_1_1_0", "username"], &["VERSION_1_1_0", "ann"]),
        (&["username", "hostname"], &["ann", "host"]),
        (&["VERSION_1_10_0"], &["VERSION_1_3_0"]),
    ] {
        let again = parameters.answering(&names(theirs));
        assert_eq!(again.to_instruction().args(), expected);
    }
    // A Guacamole that wrote no version keeps to that, as it would have done here.
    let connect = Instruction::new("connect", ["", "host", "3389", "ann"]);
    let parameters = Parameters::from_connect(&shown, connect).unwrap();
    let again = parameters.answering(&names(&["VERSION_1_1_0", "port"]));
    assert_eq!(again.to_instruction().args(), ["", "3389"]);
}
