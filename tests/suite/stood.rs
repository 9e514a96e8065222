//! Did the RDP connection stand? Recorded guacd of three releases, and what becomes of the lease.

use crate::support::{
    BYSTANDER, GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor, eventually, instruction,
    trace,
};

const RELEASES: [&str; 3] = ["1.3.0", "1.5.5", "1.6.0"];

/// What a recording says up to and with its `args`, and behind it.
fn halves(recorded: &[u8]) -> (Names, Vec<u8>) {
    let names = Names(instruction(recorded).into_args());
    let end = recorded.iter().position(|byte| *byte == b';').unwrap() + 1;
    (names, recorded[end..].to_vec())
}

/// A guacd that says to bystanders nothing but `ready`, and to others what was recorded.
fn recorded_guacd(recorded: Vec<u8>, ends: bool) -> ScriptedGuacd {
    let (names, behind_args) = halves(&recorded);
    ScriptedGuacd::playing(move |peer| {
        peer.hear_select()?;
        peer.wire.say(&names.to_instruction())?;
        peer.hear_connect(&names)?;
        if peer.value("username").starts_with(BYSTANDER) {
            return peer.say_ready();
        }
        peer.wire.send(&behind_args)?;
        if ends {
            peer.wire.finish();
        }
        Ok(())
    })
}

/// What a recording says behind `ready`.
fn behind_ready(recorded: &[u8]) -> Vec<u8> {
    let (_, rest) = halves(recorded);
    let end = rest.iter().position(|byte| *byte == b';').unwrap() + 1;
    rest[end..].to_vec()
}

/// A visit that hears the whole recording.
fn hear(stage: &Stage, visit: &Visit, recorded: &[u8]) -> (Visitor, GuacdPeer) {
    let mut visitor = visit.at(&stage.broker);
    assert_eq!(visitor.ready().len(), 37);
    let expected = behind_ready(recorded);
    let got = visitor.wire.exact(expected.len()).unwrap();
    assert!(got == expected, "byte by byte what was recorded");
    (visitor, stage.guacd.ready())
}

#[test]
fn behind_a_desktop_the_lease_lingers_and_the_user_returns_to_the_host() {
    for release in RELEASES {
        let recorded = trace(release, "rdp-desktop");
        let stage = Stage::before(recorded_guacd(recorded.clone(), false), 2);
        let (visitor, peer) = hear(&stage, &Visit::office("ann"), &recorded);
        let first = stage.host_of(&peer);
        let _burden = stage.burden(&first);
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(ended["phase"], "stood", "{release}");

        // Somebody new goes to the other host, which scores higher; ann does not.
        let (_new, of_new) = hear(&stage, &Visit::office("carl"), &recorded);
        assert_ne!(stage.host_of(&of_new), first, "{release}");
        drop((_new, of_new));
        stage.broker.ended(&stage.broker.placed("carl"));
        let (_again, of_again) = hear(&stage, &Visit::office("ann"), &recorded);
        assert_eq!(stage.host_of(&of_again), first, "{release}");
    }
}

#[test]
fn behind_a_failure_the_lease_is_given_back_and_the_page_is_told() {
    for release in RELEASES {
        for what in ["rdp-refused", "rdp-dns-failure", "rdp-no-credentials-nla"] {
            let recorded = trace(release, what);
            let stage = Stage::before(recorded_guacd(recorded.clone(), true), 2);
            let mut visitor = Visit::office("ann").at(&stage.broker);
            visitor.ready();
            let (code, phase, attempts) = match (what, release) {
                // What is no fault of the host comes as guacd said it.
                ("rdp-no-credentials-nla", _) => {
                    let said = visitor.wire.rest().unwrap();
                    assert!(said == behind_ready(&recorded), "{release} {what}");
                    (None, "pending", 1)
                }
                ("rdp-refused", "1.5.5") => (Some(520), "attempting", 2),
                _ => (Some(519), "attempting", 2),
            };
            if let Some(code) = code {
                assert_eq!(visitor.farewell().0, code, "{release} {what}");
            }
            drop(visitor);
            let ended = stage.broker.ended(&stage.broker.placed("ann"));
            assert_eq!(ended["phase"], phase, "{release} {what}");
            assert_eq!(stage.guacd.accepted(), attempts, "{release} {what}");
            eventually("no lease", || {
                super::asking::list(&stage, "leases?user=ann")
                    .is_empty()
                    .then_some(())
            });
        }
    }
}

#[test]
fn guacd_asking_for_credentials_has_met_its_host() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.tunnel(&Visit::office("ann"));
    peer.wire
        .send(b"8.required,8.username,8.password;")
        .unwrap();
    visitor.hear("required");
    let answer = b"4.argv,1.1,10.text/plain,8.username;4.blob,1.1,4.YW5u;3.end,1.1;";
    visitor.wire.send(answer).unwrap();
    assert_eq!(peer.wire.exact(answer.len()).unwrap(), answer);
    drop((visitor, peer));
    assert_eq!(
        stage.broker.ended(&stage.broker.placed("ann"))["phase"],
        "stood"
    );
}

#[test]
fn a_mouse_and_a_sync_of_one_moment_are_no_desktop() {
    let stage = Stage::one();
    for (user, said, phase) in [
        (
            "ann",
            "5.mouse,1.0,1.0,1.0,5.12345;4.sync,5.12345,1.0;",
            "attempting",
        ),
        (
            "bob",
            "5.mouse,1.0,1.0,1.0,5.12345;3.nop;4.sync,5.12345,1.0;",
            "attempting",
        ),
        (
            "carl",
            "5.mouse,1.0,1.0,1.0,5.12345;4.sync,5.12346,1.0;",
            "stood",
        ),
        ("dora", "4.size,1.0,4.1024,3.768;3.nop;", "attempting"),
    ] {
        let (mut visitor, mut peer) = stage.tunnel(&Visit::office(user));
        peer.wire.send(said).unwrap();
        match phase {
            "stood" => assert_eq!(visitor.wire.exact(said.len()).unwrap(), said.as_bytes()),
            // Nothing of it was let through.
            _ => {
                peer.wire.finish();
                assert_eq!(visitor.farewell().0, 520, "{said}");
            }
        }
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed(user));
        assert_eq!(ended["phase"], phase, "{said}");
    }
}

#[test]
fn recordings_of_other_protocols_pass_byte_by_byte() {
    for release in RELEASES {
        for protocol in ["vnc", "ssh", "telnet"] {
            let recorded = trace(release, &format!("{protocol}-refused"));
            let stage = Stage::before(ScriptedGuacd::replaying(recorded.clone()), 1);
            let (_visitor, peer) = hear(&stage, &Visit::protocol(protocol), &recorded);
            assert_eq!(peer.select, protocol);
        }
    }
}

#[test]
fn recordings_of_joins_pass_byte_by_byte() {
    for release in RELEASES {
        let recorded = trace(release, "join");
        let (names, behind_args) = halves(&recorded);
        let guacd = ScriptedGuacd::playing(move |peer| {
            peer.hear_select()?;
            peer.wire.say(&names.to_instruction())?;
            peer.hear_connect(&names)?;
            if peer.select.starts_with('$') {
                return peer.wire.send(&behind_args);
            }
            peer.say_ready()
        });
        let stage = Stage::before(guacd, 1);
        let mut owner = Visit::office("ann").at(&stage.broker);
        let id = owner.ready();
        let mut of_owner = stage.guacd.ready();
        of_owner.stand();
        owner.hear_past_nops("sync");
        let (_joiner, _peer) = hear(&stage, &Visit::join(&id), &recorded);
    }
}

#[test]
fn a_join_that_guacd_knows_nothing_of_ends_as_it_was_recorded() {
    for (release, code) in [("1.3.0", 0x204), ("1.5.5", 0x204), ("1.6.0", 0x204)] {
        let missing = trace(release, "join-missing");
        let guacd = ScriptedGuacd::playing(move |peer| {
            peer.hear_select()?;
            if peer.select.starts_with('$') {
                peer.wire.send(&missing)?;
                peer.wire.finish();
                return Ok(());
            }
            let names = Names::rdp(release);
            peer.wire.say(&names.to_instruction())?;
            peer.hear_connect(&names)?;
            peer.say_ready()
        });
        let stage = Stage::before(guacd, 1);
        let mut owner = Visit::office("ann").at(&stage.broker);
        let id = owner.ready();
        let mut of_owner = stage.guacd.ready();
        of_owner.stand();
        owner.hear_past_nops("sync");
        assert_eq!(
            Visit::join(&id).refused_at(&stage.broker).code,
            code,
            "{release}"
        );
    }
}
