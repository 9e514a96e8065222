//! guacd's output held back and Guacamole's input kept, until a desktop stood.

use std::fs;

use proptest::prelude::*;

use guac_protocol::{
    Attempt, ConnectionId, HandshakeError, Phase, Progress, Rest, Side, StoodWatch, Verdict, Word,
};

use crate::support::{ID, in_every_cut, wire};

const RELEASES: [&str; 3] = ["1.3.0", "1.5.5", "1.6.0"];

/// What guacd said in a recording from its `ready` on, and what of that is behind it.
fn recorded(release: &str, what: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/traces");
    let bytes = fs::read(format!("{folder}/guacd-{release}-{what}.server.guac")).unwrap();
    let end = |bytes: &[u8]| bytes.iter().position(|b| *b == b';').unwrap() + 1;
    let from_ready = bytes[end(&bytes)..].to_vec();
    let behind = from_ready[end(&from_ready)..].to_vec();
    (from_ready, behind)
}

fn fresh() -> Attempt {
    Attempt::new(Rest {
        to_guacd: Vec::new(),
        to_guacamole: Vec::new(),
    })
    .unwrap()
}

fn ready() -> Vec<u8> {
    wire("ready", &[ID])
}

/// Feeds a side; what is known then, the `ready` passed over.
fn after(attempt: &mut Attempt, from: Side, bytes: &[u8]) -> Progress {
    attempt.feed(from, bytes).unwrap();
    match attempt.step().unwrap() {
        Progress::Ready(_) => attempt.step().unwrap(),
        progress => progress,
    }
}

/// Plays guacd's bytes until something is known, and its end where nothing is.
fn played(cut: &[&[u8]], ends: bool) -> (Progress, Vec<u8>) {
    let mut attempt = fresh();
    let mut known = Progress::Pending;
    for chunk in cut {
        known = after(&mut attempt, Side::Guacd, chunk);
    }
    if ends {
        attempt.end_of_guacd();
        known = attempt.step().unwrap();
    }
    (known, attempt.into_rest().to_guacamole)
}

#[test]
fn recorded_desktops_stand_and_all_that_was_held_back_comes_out() {
    for release in RELEASES {
        let (spoken, behind) = recorded(release, "rdp-desktop");
        let (known, held) = in_every_cut(&spoken, |cut| played(cut, false));
        assert_eq!(known, Progress::Stood, "{release}");
        assert!(held == behind, "{release}");
    }
}

#[test]
fn recorded_failures_fail_with_guacds_own_word_or_at_its_end() {
    for (release, what, status) in [
        ("1.3.0", "rdp-refused", Some(519)),
        ("1.5.5", "rdp-refused", None),
        ("1.6.0", "rdp-refused", Some(519)),
        ("1.3.0", "rdp-dns-failure", Some(519)),
        ("1.5.5", "rdp-dns-failure", Some(519)),
        ("1.6.0", "rdp-dns-failure", Some(519)),
        ("1.3.0", "rdp-no-credentials-nla", Some(769)),
        ("1.5.5", "rdp-no-credentials-nla", Some(769)),
        ("1.6.0", "rdp-no-credentials-nla", Some(769)),
    ] {
        let (spoken, _) = recorded(release, what);
        let (known, _) = in_every_cut(&spoken, |cut| played(cut, true));
        assert_eq!(known, Progress::Failed { status }, "{release} {what}");
    }
}

#[test]
fn behind_a_failure_only_the_next_connection_is_heard_and_all_that_was_typed() {
    let (args, id) = (wire("args", &["VERSION_1_5_0", "hostname"]), ID);
    for release in RELEASES {
        let (refused, _) = recorded(release, "rdp-refused");
        let (desktop, behind) = recorded(release, "rdp-desktop");
        let mut attempt = fresh();
        after(&mut attempt, Side::Guacamole, b"3.key,2.97,1.1;3.ke");
        attempt.feed(Side::Guacd, &refused).unwrap();
        attempt.end_of_guacd();
        assert!(matches!(attempt.step(), Ok(Progress::Ready(_))));
        assert!(matches!(attempt.step(), Ok(Progress::Failed { .. })));

        attempt.again();
        assert_eq!(attempt.step(), Ok(Progress::Pending), "a new stream");
        after(&mut attempt, Side::Guacamole, b"y,2.98,1.1;3.nop;");
        attempt.feed(Side::Guacd, &args).unwrap();
        let Ok(Progress::Args(names)) = attempt.step() else {
            panic!("{attempt:?}");
        };
        assert_eq!(names.to_instruction().args(), ["VERSION_1_5_0", "hostname"]);
        let (of_ready, rest) = desktop.split_at(desktop.len() - behind.len());
        attempt.feed(Side::Guacd, of_ready).unwrap();
        assert!(matches!(attempt.step(), Ok(Progress::Ready(_))));
        assert_eq!(after(&mut attempt, Side::Guacd, rest), Progress::Stood);
        let rest = attempt.into_rest();
        assert!(rest.to_guacamole == behind, "{release}: not a byte of {id}");
        assert_eq!(rest.to_guacd, b"3.key,2.97,1.1;3.key,2.98,1.1;");
    }
}

#[test]
fn it_goes_on_with_what_a_handshake_had_read() {
    let mut attempt = Attempt::new(Rest {
        to_guacd: b"3.nop;3.key,2.97,1.1;5.mou".to_vec(),
        to_guacamole: ready()[..9].to_vec(),
    })
    .unwrap();
    assert_eq!(attempt.step(), Ok(Progress::Pending));
    attempt.feed(Side::Guacd, &ready()[9..]).unwrap();
    let id = ConnectionId::parse(ID).unwrap();
    assert_eq!(attempt.step(), Ok(Progress::Ready(id)));
    let known = after(&mut attempt, Side::Guacamole, b"se,1.1,1.1;");
    assert_eq!(known, Progress::Pending);
    let kept = attempt.into_rest().to_guacd;
    assert_eq!(kept, b"3.key,2.97,1.1;5.mouse,1.1,1.1;");
}

#[test]
fn guacamole_leaving_counts_more_than_anything_guacd_says() {
    let mut attempt = fresh();
    let stood = [ready(), wire("sync", &["1"])].concat();
    assert_eq!(after(&mut attempt, Side::Guacd, &stood), Progress::Stood);
    attempt.feed(Side::Guacamole, b"10.disconnect;").unwrap();
    assert_eq!(attempt.step(), Ok(Progress::Left));
    attempt.again();
    assert_eq!(attempt.step(), Ok(Progress::Left));
}

#[test]
fn what_guacd_says_before_its_ready_is_its_own_trouble() {
    for (said, status) in [
        (wire("error", &["no", "513"]), Some(513)),
        (wire("error", &["no"]), None),
        (wire("disconnect", &["x", "513"]), None),
        (Vec::new(), None),
        (b"5.read".to_vec(), None),
    ] {
        let mut attempt = fresh();
        attempt.feed(Side::Guacd, &said).unwrap();
        attempt.end_of_guacd();
        let refused = Ok(Progress::Refused { status });
        assert_eq!(attempt.step(), refused);
        assert_eq!(attempt.step(), refused, "and stays so");
        attempt.again();
        assert_eq!(attempt.step(), Ok(Progress::Pending));
    }
}

#[test]
fn a_guacd_that_breaks_the_handshake_is_done_with_until_another_is_dialled() {
    let (side, phase) = (Side::Guacd, Phase::Ready);
    let unexpected = HandshakeError::Unexpected {
        side,
        phase,
        expected: "`ready`",
        got: Word::new("sync"),
        offset: 0,
    };
    let mut attempt = fresh();
    attempt.feed(side, &wire("sync", &["1"])).unwrap();
    assert_eq!(attempt.step(), Err(unexpected.clone()));
    assert_eq!(attempt.step(), Err(unexpected.clone()));
    assert_eq!(attempt.feed(side, b"x"), Err(unexpected));
    attempt.feed(Side::Guacamole, b"3.key;").unwrap();
    attempt.again();
    attempt.feed(side, &wire("args", &["hostname"])).unwrap();
    assert!(matches!(attempt.step(), Ok(Progress::Args(_))));
    attempt.feed(side, &wire("ready", &["none"])).unwrap();
    let error = HandshakeError::ReadyId {
        offset: 18,
        arguments: 1,
    };
    assert_eq!(attempt.step(), Err(error));

    let mut attempt = fresh();
    let mut fed = Ok(());
    for _ in 0..10 {
        fed = fed.and_then(|()| attempt.feed(side, &b"4.blob,9999."[..6].repeat(2_000)));
    }
    let limit = 65_536;
    assert_eq!(fed, Err(HandshakeError::TooMuch { side, phase, limit }));
}

#[test]
fn required_is_a_desktop_and_a_prompt_is_never_taken_elsewhere() {
    let spoken = [ready(), wire("required", &["username", "password"])].concat();
    let (known, held) = in_every_cut(&spoken, |cut| played(cut, false));
    assert_eq!(known, Progress::Stood);
    assert_eq!(held, wire("required", &["username", "password"]));
}

#[test]
fn framing_that_is_lost_says_nothing_of_the_host() {
    let noise = [ready(), b"4.size,1.0;no".to_vec()].concat();
    let (known, held) = in_every_cut(&noise, |cut| played(cut, true));
    assert!(matches!(known, Progress::Blind(_)));
    assert_eq!(held, b"4.size,1.0;no");
    // What was known before stays.
    let noise = [ready(), wire("error", &["x", "519"]), b"no".to_vec()].concat();
    let (known, _) = in_every_cut(&noise, |cut| played(cut, true));
    assert_eq!(known, Progress::Failed { status: Some(519) });
}

#[test]
fn so_much_output_is_a_desktop_and_no_more_than_that_is_held_back() {
    let mut attempt = fresh();
    assert_eq!(
        after(&mut attempt, Side::Guacd, &ready()),
        Progress::Pending
    );
    let blob = wire("blob", &["0", &"x".repeat(8_000)]);
    let mut held = 0;
    while after(&mut attempt, Side::Guacd, &blob) == Progress::Pending {
        held += blob.len();
        assert!(held < 128 * 1024);
    }
    let all = attempt.into_rest().to_guacamole;
    assert!((128 * 1024..128 * 1024 + blob.len()).contains(&all.len()));
}

#[test]
fn guacamole_is_read_no_further_than_there_is_room() {
    let mut attempt = fresh();
    let key = wire("key", &["97", "1"]);
    while attempt.room() >= key.len() {
        attempt.feed(Side::Guacamole, &key).unwrap();
    }
    let room = attempt.room();
    attempt.feed(Side::Guacamole, &key[..room]).unwrap();
    assert_eq!(attempt.room(), 0);
    assert_eq!(attempt.step(), Ok(Progress::Pending));
    assert_eq!(attempt.into_rest().to_guacd.len(), 65_536);
}

#[test]
fn what_came_behind_guacds_end_changes_nothing() {
    let stood = wire("sync", &["1"]);
    let mut attempt = fresh();
    after(&mut attempt, Side::Guacd, &ready());
    attempt.end_of_guacd();
    let failed = Ok(Progress::Failed { status: None });
    assert_eq!(attempt.step(), failed);
    attempt.feed(Side::Guacd, &stood).unwrap();
    assert_eq!(attempt.step(), failed);
    assert_eq!(attempt.into_rest().to_guacamole, b"");

    let mut attempt = fresh();
    attempt.end_of_guacd();
    attempt.feed(Side::Guacd, &ready()).unwrap();
    let refused = Ok(Progress::Refused { status: None });
    assert_eq!(attempt.step(), refused);

    // A handshake that was broken stays so for who goes on.
    let mut attempt = fresh();
    attempt.feed(Side::Guacd, &stood).unwrap();
    let error = attempt.step().unwrap_err();
    attempt.end_of_guacd();
    assert_eq!(attempt.feed(Side::Guacd, &stood), Err(error));
}

#[test]
fn behind_lost_framing_its_length_says_nothing() {
    let lost = [b"4.size,1.0;no".to_vec(), vec![b'x'; 140_000]].concat();
    for cut in [13, 5_000, lost.len()] {
        let mut attempt = fresh();
        after(&mut attempt, Side::Guacd, &ready());
        for chunk in lost.chunks(cut) {
            let known = after(&mut attempt, Side::Guacd, chunk);
            assert!(matches!(known, Progress::Blind(_)), "{known:?}");
        }
        assert!(attempt.into_rest().to_guacamole == lost);
    }
}

#[test]
fn an_error_behind_128_kib_comes_too_late_however_it_is_read() {
    let error = wire("error", &["x", "519"]);
    // The last byte of the error is the last that tells, or the first that does not.
    let filled = |to: usize| {
        let nops = (to - error.len() - 4) / 6;
        let odd = to - error.len() - nops * 6;
        let odd = wire(&"x".repeat(odd - 3), &[]);
        [&odd[..], &wire("nop", &[]).repeat(nops), &error].concat()
    };
    let (early, late) = (filled(131_072), filled(131_073));
    assert_eq!((early.len(), late.len()), (131_072, 131_073));
    for (said, known) in [
        (early, Progress::Failed { status: Some(519) }),
        (late, Progress::Stood),
    ] {
        for cut in [6, 8_192, 131_071, 131_072, said.len()] {
            let mut attempt = fresh();
            let mut last = after(&mut attempt, Side::Guacd, &ready());
            for chunk in said.chunks(cut) {
                last = after(&mut attempt, Side::Guacd, chunk);
            }
            assert_eq!(last, known, "in reads of {cut} bytes");
        }
    }
}

/// What hostile and honest sides say, in any order.
fn speech() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(ready()),
        Just(wire("args", &["VERSION_1_5_0", "hostname"])),
        Just(wire("error", &["x", "519"])),
        Just(wire("disconnect", &[])),
        Just(wire("sync", &["7"])),
        Just(wire("mouse", &["1", "1", "0", "7"])),
        Just(wire("img", &["0", "12", "image/png"])),
        Just(wire("nop", &[])),
        Just(wire("key", &["97", "1"])),
        Just(wire("connect", &["x"])),
        Just(wire("blob", &["0", &"x".repeat(8_000)])),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn hostile_sides_break_nothing_and_stay_bounded(
        turns in prop::collection::vec((any::<bool>(), speech()), 0..12),
        again in 0_usize..12,
    ) {
        let mut attempt = fresh();
        for (turn, (web, bytes)) in turns.iter().enumerate() {
            if turn == again {
                attempt.again();
            }
            for chunk in bytes.chunks(8 * 1024) {
                // As the tunnel does: no read without room, none once something is known.
                let known = matches!(attempt.step(), Ok(Progress::Pending | Progress::Ready(_)
                    | Progress::Args(_)));
                if *web && attempt.room() >= chunk.len() {
                    let _ = attempt.feed(Side::Guacamole, chunk);
                } else if !*web && known {
                    let _ = attempt.feed(Side::Guacd, chunk);
                }
            }
            let first = attempt.step();
            if !matches!(first, Ok(Progress::Args(_) | Progress::Ready(_))) {
                prop_assert_eq!(attempt.step(), first);
            }
        }
        let rest = attempt.into_rest();
        prop_assert!(rest.to_guacd.len() <= 65_536);
        prop_assert!(rest.to_guacamole.len() <= (128 + 64 + 8) * 1024);
    }

    #[test]
    fn what_is_held_back_is_what_guacd_said_and_the_watch_says_the_same(
        bytes in speech(),
        size in 1_usize..40,
    ) {
        let spoken = [ready(), bytes.clone()].concat();
        let cut: Vec<_> = spoken.chunks(size).collect();
        let (known, held) = played(&cut, false);
        prop_assert_eq!(held, bytes.clone());
        let mut watch = StoodWatch::new();
        let mut framing = guac_protocol::Framing::new();
        let lost = framing.scan(&bytes, |seen| watch.see(seen)).err();
        watch.saw_bytes(bytes.len());
        let expected = match (watch.verdict(), lost) {
            (Verdict::Stood, _) => Progress::Stood,
            (Verdict::Failed { status }, _) => Progress::Failed { status },
            (Verdict::Pending, Some(error)) => Progress::Blind(error),
            (Verdict::Pending, None) => Progress::Pending,
        };
        prop_assert_eq!(known, expected);
    }
}
