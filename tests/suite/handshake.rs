//! From `select` to `ready`: what Guacamole is shown and what guacd is told.

use guac_protocol::{Instruction, Side};

use crate::support::{GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor};

/// Parameters that lead past a placement, or are a RemoteApp's.
fn is_cleared(name: &str) -> bool {
    let families = ["gateway-", "preconnection-", "wol-", "remote-app"];
    families.iter().any(|family| name.starts_with(family))
        || ["load-balance-info", "console", "cert-fingerprints"].contains(&name)
}

/// A connection with a value of its own in every parameter.
fn filled(names: &Names) -> Visit {
    let start = Visit::protocol("rdp");
    let filled = names.names().iter().fold(start, |visit, name| {
        visit.answer(name, &format!("value of {name}"))
    });
    filled.answer("hostname", "sessionguard:resource=office")
}

fn assert_placed_by_name(stage: &Stage, names: &Names, visit: &Visit, peer: &GuacdPeer) {
    let host = stage.hosts[0].address();
    for name in names.names() {
        let expected = match name.as_str() {
            "hostname" => host.ip().to_string(),
            "port" => host.port().to_string(),
            name if is_cleared(name) => String::new(),
            name => visit.value(name).to_owned(),
        };
        assert_eq!(peer.value(name), expected, "{name}");
    }
}

#[test]
fn every_release_is_told_the_host_by_name_and_all_else_as_it_came() {
    let releases = [
        ("1.0.0", 65),
        ("1.1.0", 66),
        ("1.3.0", 76),
        ("1.5.5", 81),
        ("1.6.0", 88),
        ("main", 90),
    ];
    for (release, count) in releases {
        let names = Names::rdp(release);
        assert_eq!(names.names().len(), count, "{release}");
        let stage = Stage::before(ScriptedGuacd::polite(names.clone()), 1);
        let visit = filled(&names);
        let (visitor, peer) = stage.tunnel(&visit);
        assert_placed_by_name(&stage, &names, &visit, &peer);
        // The version is passed on in its place.
        assert_eq!(visitor.shown[0], names.0[0], "{release}");
        if let Some(version) = names.version() {
            assert_eq!(peer.values[0], version);
        }
    }
}

#[test]
fn a_name_nobody_knows_in_the_middle_of_the_list_moves_no_value() {
    let mut names = Names::rdp("1.6.0");
    names.0.insert(2, "brand-new".to_owned());
    names.0.insert(40, "another-new".to_owned());
    let stage = Stage::before(ScriptedGuacd::polite(names.clone()), 1);
    let visit = filled(&names);
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_placed_by_name(&stage, &names, &visit, &peer);
    assert_eq!(peer.value("brand-new"), "value of brand-new");
}

#[test]
fn a_password_of_any_characters_arrives_unchanged() {
    let stage = Stage::one();
    for password in [
        "p\u{1F511}\u{1F469}\u{200D}\u{1F4BB}w",
        "a;b,c.5.x",
        "\u{e9}\u{65}\u{301}",
        " ",
        "12.connect",
    ] {
        let (_visitor, peer) = stage.tunnel(&Visit::office("ann").answer("password", password));
        assert_eq!(peer.value("password"), password);
    }
}

#[test]
fn settings_reach_guacd_in_order_and_as_they_were() {
    let stage = Stage::one();
    let visit = Visit::office("ann").login(Some("\u{c4}nn \u{1F600}"));
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_eq!(peer.settings, visit.settings());
}

#[test]
fn an_older_guacamole_sends_no_name() {
    let stage = Stage::one();
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann").login(None));
    assert!(
        peer.settings
            .iter()
            .all(|setting| setting.opcode() != "name")
    );
    assert_eq!(stage.broker.placed("ann")["host"], "rds1");
}

#[test]
fn a_client_that_knows_no_versions_is_served() {
    let stage = Stage::one();
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann").without_version());
    assert_eq!(peer.values[0], "");
    assert_eq!(peer.value("hostname"), "127.0.0.1");
}

#[test]
fn the_login_places_a_user_whose_connection_names_none() {
    let stage = Stage::one();
    let visit = Visit::office("").login(Some("Ann"));
    stage.tunnel(&visit);
    assert_eq!(stage.broker.placed("ann")["host"], "rds1");
}

#[test]
fn a_handshake_instruction_of_a_later_release_is_passed_on() {
    let stage = Stage::one();
    let later = Instruction::new("later-setting", ["a;b", "\u{1F600}"]);
    let visit = Visit::office("ann");
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.select("rdp");
    visitor.read_args();
    visitor.wire.say(&visit.settings()[0]).unwrap();
    visitor.wire.say(&later).unwrap();
    visitor.wire.say(&visit.connect(&visitor.shown)).unwrap();
    visitor.ready();
    let peer = stage.guacd.ready();
    assert_eq!(peer.settings, [visit.settings()[0].clone(), later]);
}

/// Everything from `select` to `connect`, as bytes.
fn whole(visit: &Visit, names: &Names) -> Vec<u8> {
    let mut shown = names.0.clone();
    shown.push("sessionguard-resource".to_owned());
    let mut all = vec![Instruction::new("select", ["rdp"])];
    all.extend(visit.settings());
    all.push(visit.connect(&shown));
    all.iter()
        .flat_map(|i| i.encode(Side::Guacd).unwrap())
        .collect()
}

#[test]
fn a_handshake_in_one_write_is_served() {
    let (stage, names) = (Stage::one(), Names::rdp("1.6.0"));
    let visit = filled(&names);
    let mut visitor = Visitor::dial(stage.broker.address());
    visitor.wire.send(whole(&visit, &names)).unwrap();
    visitor.read_args();
    visitor.ready();
    assert_placed_by_name(&stage, &names, &visit, &stage.guacd.ready());
}

#[test]
fn a_handshake_byte_by_byte_is_served() {
    let (stage, names) = (Stage::one(), Names::rdp("1.6.0"));
    let visit = filled(&names);
    let mut visitor = Visitor::dial(stage.broker.address());
    for byte in whole(&visit, &names) {
        visitor.wire.send([byte]).unwrap();
    }
    visitor.read_args();
    visitor.ready();
    assert_placed_by_name(&stage, &names, &visit, &stage.guacd.ready());
}

#[test]
fn a_handshake_cut_anywhere_is_served() {
    let (stage, names) = (Stage::one(), Names::rdp("1.6.0"));
    let visit = Visit::office("ann").answer("password", "\u{1F511}".repeat(20).as_str());
    let bytes = whole(&visit, &names);
    // A step prime to nothing in particular; the decoder itself is cut everywhere in its own tests.
    for at in (1..bytes.len()).step_by(31) {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.wire.send(&bytes[..at]).unwrap();
        if at > 15 {
            visitor.read_args();
        }
        visitor.wire.send(&bytes[at..]).unwrap();
        if at <= 15 {
            visitor.read_args();
        }
        visitor.ready();
        let peer = stage.guacd.ready();
        assert_eq!(
            peer.value("password"),
            visit.value("password"),
            "cut at {at}"
        );
    }
}

#[test]
fn our_own_parameter_is_shown_last_and_never_reaches_guacd() {
    let (stage, names) = (Stage::one(), Names::rdp("1.6.0"));
    let visit = Visit::rdp("ann").answer("sessionguard-resource", "office");
    let (visitor, mut peer) = stage.tunnel(&visit);
    let (last, others) = visitor.shown.split_last().unwrap();
    assert_eq!(last, "sessionguard-resource");
    assert_eq!(others, names.0);
    assert_eq!(peer.values.len(), names.0.len());
    drop(visitor);
    peer.wire.rest().unwrap();
    let arrived = String::from_utf8_lossy(&peer.wire.arrived).into_owned();
    assert!(
        arrived.contains("3.ann")
            && !arrived.contains("sessionguard")
            && !arrived.contains("6.office")
    );
}

#[test]
fn a_guacd_with_no_room_for_our_parameter_still_serves() {
    let mut names = Names::rdp("1.6.0");
    names
        .0
        .extend((names.0.len()..126).map(|n| format!("later-{n}")));
    assert_eq!(names.0.len(), 126);
    let stage = Stage::before(ScriptedGuacd::polite(names.clone()), 1);
    let (visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(visitor.shown, names.0);
    assert_eq!(peer.value("hostname"), "127.0.0.1");
}

#[test]
fn other_protocols_are_shown_guacds_own_names_and_pass_through() {
    for protocol in ["vnc", "ssh", "telnet"] {
        let names = Names::recorded("1.6.0", &format!("{protocol}-refused"));
        let stage = Stage::before(ScriptedGuacd::polite(names.clone()), 1);
        let visit = Visit::protocol(protocol).answer("hostname", "sessionguard:resource=office");
        let (visitor, peer) = stage.tunnel(&visit);
        assert_eq!(visitor.shown, names.0);
        assert_eq!(peer.select, protocol);
        assert_eq!(peer.value("hostname"), "sessionguard:resource=office");
        stage
            .broker
            .wait("Passed through", |line| line["protocol"] == protocol);
    }
}
