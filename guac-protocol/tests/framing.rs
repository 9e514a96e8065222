//! The relay's view of a long stream, and whether a desktop stood.

use guac_protocol::{Framing, FramingError, StoodWatch, Verdict};

use crate::support::{follow, follow_chunks, in_every_cut, wire};

/// The verdict after each instruction of the stream; the same in every cut.
fn verdicts(instructions: &[Vec<u8>]) -> Vec<Verdict> {
    in_every_cut(&instructions.concat(), |cut| {
        let (mut framing, mut watch) = (Framing::new(), StoodWatch::new());
        let mut verdicts = Vec::new();
        for chunk in cut {
            let scanned = framing.scan(chunk, |seen| {
                watch.see(seen);
                verdicts.push(watch.verdict());
            });
            assert_eq!(scanned, Ok(()));
        }
        verdicts
    })
}

#[test]
fn instructions_are_seen_with_their_first_arguments() {
    let stream = [
        wire("copy", &["1", "2", "3", "4", "5", "6"]),
        wire("nop", &[]),
    ]
    .concat();
    let followed = follow(&stream);
    let first = ["1", "2", "3", "4", "5"].map(str::to_owned).to_vec();
    let expected = vec![("copy".to_owned(), first, 6), ("nop".to_owned(), vec![], 0)];
    assert_eq!(followed.seen, expected);
    assert_eq!((followed.error, followed.at_boundary), (None, true));
}

#[test]
fn long_elements_are_captured_up_to_64_bytes_and_never_inside_a_character() {
    let long = "日".repeat(3_000);
    let followed = follow(&wire("blob", &["7", &long]));
    let (opcode, args, count) = &followed.seen[0];
    assert_eq!((opcode.as_str(), *count), ("blob", 2));
    assert_eq!(args[1], "日".repeat(21));
    assert_eq!(follow(&wire("name", &["a日"])).seen[0].1, ["a日"]);
    let opcode = "o".repeat(65);
    assert_eq!(follow(&wire(&opcode, &["x"])).seen[0].0, "");
    assert_eq!(follow(&wire(&opcode[..64], &["x"])).seen[0].0, opcode[..64]);
}

#[test]
fn what_one_instruction_left_is_not_seen_in_the_next() {
    let stream = [
        wire("error", &["text", "519"]),
        wire("msg", &[""]),
        wire("x", &[]),
    ]
    .concat();
    let followed = follow(&stream);
    assert_eq!(followed.seen[1], ("msg".to_owned(), vec![String::new()], 1));
    assert_eq!(followed.seen[2], ("x".to_owned(), vec![], 0));
}

#[test]
fn one_that_waits_is_small() {
    // Two of them stand in every tunnel for as long as it is open.
    assert!(size_of::<Framing>() <= 40, "{}", size_of::<Framing>());
}

#[test]
fn leniency_keeps_the_view() {
    for stream in [&b"0.;"[..], b"0003.nop;", b"4.name,3.a\xFF\x00;", b"0.,0.;"] {
        let followed = follow(&[stream, b"3.nop;"].concat());
        assert_eq!(followed.error, None, "{stream:?}");
        assert_eq!(followed.seen.last().unwrap().0, "nop");
        assert!(followed.at_boundary);
    }
    let megabyte = wire("blob", &["1", &"ü".repeat(1_000_000)]);
    let chunks: Vec<&[u8]> = megabyte.chunks(16_384).collect();
    assert_eq!(follow_chunks(&chunks).seen[0].0, "blob");
}

#[test]
fn an_instruction_of_any_number_of_elements_is_seen() {
    let followed = follow(&wire("many", &["é"; 300]));
    assert_eq!((followed.seen[0].2, followed.error), (300, None));
}

#[test]
fn lost_framing_is_reported_once_and_then_all_is_blind() {
    let cases = [
        ("3.nop;x", 6),
        ("3.nopx", 5),
        (".;", 0),
        ("12345678.x;", 7),
        ("3.nop;\n", 6),
    ];
    for (stream, offset) in cases {
        let followed = follow(format!("{stream}3.nop;").as_bytes());
        assert_eq!(followed.error, Some(FramingError { offset }), "{stream}");
        assert!(!followed.at_boundary);
        assert!(followed.seen.len() <= 1);
    }
}

#[test]
fn a_boundary_is_between_instructions_only() {
    let mut framing = Framing::default();
    assert!(framing.at_boundary());
    for byte in b"4.name,1.x" {
        framing.scan(&[*byte], |_| {}).unwrap();
        assert!(!framing.at_boundary());
    }
    framing.scan(b";", |_| {}).unwrap();
    assert!(framing.at_boundary());
}

#[test]
fn a_sync_means_stood() {
    let stream = [wire("size", &["0", "1", "1"]), wire("sync", &["5"])];
    assert_eq!(verdicts(&stream), [Verdict::Pending, Verdict::Stood]);
}

#[test]
fn a_sync_behind_a_mouse_of_the_same_time_means_nothing() {
    let mouse = wire("mouse", &["0", "0", "0", "77"]);
    let pending = Verdict::Pending;
    let copy = [
        mouse.clone(),
        wire("sync", &["77", "0"]),
        wire("sync", &["78", "0"]),
    ];
    assert_eq!(verdicts(&copy), [pending, pending, Verdict::Stood]);
    let with_nop = [mouse.clone(), wire("nop", &[]), wire("sync", &["77", "0"])];
    assert_eq!(verdicts(&with_nop), [pending; 3]);
    let later = [mouse.clone(), wire("sync", &["78", "0"])];
    assert_eq!(verdicts(&later), [pending, Verdict::Stood]);
    let apart = [mouse, wire("end", &["1"]), wire("sync", &["77", "0"])];
    assert_eq!(verdicts(&apart), [pending, pending, Verdict::Stood]);
    let no_time = [wire("mouse", &["0", "0"]), wire("sync", &["77"])];
    assert_eq!(verdicts(&no_time), [pending, Verdict::Stood]);
}

#[test]
fn a_question_for_credentials_means_stood() {
    assert_eq!(
        verdicts(&[wire("required", &["password"])]),
        [Verdict::Stood]
    );
}

#[test]
fn an_error_or_disconnect_before_that_means_failed() {
    let failed = |status| Verdict::Failed { status };
    assert_eq!(
        verdicts(&[wire("error", &["no", "519"])]),
        [failed(Some(519))]
    );
    assert_eq!(verdicts(&[wire("error", &["no"])]), [failed(None)]);
    assert_eq!(verdicts(&[wire("error", &["no", "-1"])]), [failed(None)]);
    assert_eq!(verdicts(&[wire("disconnect", &[])]), [failed(None)]);
}

#[test]
fn the_first_verdict_is_final() {
    let failed = Verdict::Failed { status: Some(519) };
    let stream = [
        wire("error", &["no", "519"]),
        wire("sync", &["1"]),
        wire("disconnect", &[]),
    ];
    assert_eq!(verdicts(&stream), [failed; 3]);
    let stream = [wire("sync", &["1"]), wire("error", &["no", "519"])];
    assert_eq!(verdicts(&stream), [Verdict::Stood; 2]);
}

#[test]
fn much_output_means_stood() {
    let mut watch = StoodWatch::default();
    watch.saw_bytes(131_071);
    assert_eq!(watch.verdict(), Verdict::Pending);
    watch.saw_bytes(1);
    assert_eq!(watch.verdict(), Verdict::Stood);
}
