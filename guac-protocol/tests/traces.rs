//! Recorded guacd, replayed: the handshake, the framing to the end, and whether a desktop stood.

use std::fs;
use std::path::PathBuf;

use guac_protocol::{
    Event, Framing, Handshake, Instruction, Select, Side, Step, StoodWatch, Verdict,
};

use crate::support::{decode_chunks, follow};

const RELEASES: [&str; 3] = ["1.3.0", "1.5.5", "1.6.0"];

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", "traces"]
        .iter()
        .collect()
}

/// The bytes of one side; `None` if that side was not recorded.
fn recorded(release: &str, what: &str, side: &str) -> Option<Vec<u8>> {
    fs::read(folder().join(format!("guacd-{release}-{what}.{side}.guac"))).ok()
}

/// A replayed recording.
struct Replay {
    events: Vec<Event>,
    /// Opcode and first argument of what guacd sent after `ready`, with the verdict behind each.
    drawn: Vec<(String, String, Verdict)>,
    at_boundary: bool,
    /// Whether Guacamole's bytes behind the handshake came out as they went in.
    up_is_exact: bool,
}

impl Replay {
    fn verdict(&self) -> Verdict {
        self.drawn
            .last()
            .map_or(Verdict::Pending, |(_, _, verdict)| *verdict)
    }

    /// The instruction that brought the verdict, and those it did not.
    fn decided_by(&self) -> (&str, &str) {
        let decided = |(_, _, verdict): &&(String, String, Verdict)| *verdict != Verdict::Pending;
        let (opcode, arg, _) = self.drawn.iter().find(decided).expect("decided");
        (opcode, arg)
    }
}

/// Plays guacd's side in reads of `size` bytes against Guacamole's.
fn replay(release: &str, what: &str, size: usize) -> Replay {
    let client = recorded(release, what, "client").expect("recorded");
    let server = recorded(release, what, "server").expect("recorded");
    let args = server
        .iter()
        .position(|b| *b == b';')
        .map_or(0, |at| at + 1);
    let mut machine = Handshake::new();
    let mut events = Vec::new();
    let mut parts = [
        (Side::Guacamole, Phase::First, client.chunks(size)),
        (Side::Guacd, Phase::Args, server[..args].chunks(size)),
        (Side::Guacd, Phase::Rest, server[args..].chunks(size)),
    ];
    loop {
        match machine.step().expect("sound") {
            Step::Event(event) => events.push(event),
            Step::Read(sides) => {
                let connected = events.iter().any(|e| matches!(e, Event::Connect(_)));
                let part = match sides {
                    [Side::Guacd, ..] if !connected => 1,
                    [Side::Guacamole, ..] => 0,
                    // What Guacamole sent later came after guacd's `ready`.
                    _ => 2,
                };
                let (side, _, chunks) = &mut parts[part];
                match chunks.next() {
                    Some(chunk) => machine.feed(*side, chunk).expect("sound"),
                    None => break,
                }
            }
        }
    }
    for chunk in parts[0].2.by_ref() {
        machine.feed(Side::Guacamole, chunk).expect("sound");
    }
    let rest = machine.into_rest();
    let (mut framing, mut watch) = (Framing::new(), StoodWatch::new());
    let mut drawn = Vec::new();
    for chunk in rest.to_guacamole.chunks(size) {
        let scanned = framing.scan(chunk, |seen| {
            watch.see(seen);
            let arg = seen.arg(0).unwrap_or_default().to_owned();
            drawn.push((seen.opcode().to_owned(), arg, watch.verdict()));
        });
        assert_eq!(scanned, Ok(()));
    }
    Replay {
        events,
        drawn,
        at_boundary: framing.at_boundary(),
        up_is_exact: client.ends_with(&rest.to_guacd),
    }
}

/// Which part of a recording is played next.
enum Phase {
    First,
    Args,
    Rest,
}

/// Replays in several read sizes, which must not matter, and checks what all recordings share.
fn replayed(release: &str, what: &str) -> Replay {
    let whole = replay(release, what, usize::MAX);
    for size in [1, 2, 3, 7, 100] {
        let parts = replay(release, what, size);
        assert_eq!(parts.events, whole.events);
        assert_eq!(parts.drawn, whole.drawn);
    }
    assert!(whole.at_boundary && whole.up_is_exact, "{release} {what}");
    assert!(matches!(whole.events.last(), Some(Event::Ready(_))));
    whole
}

#[test]
fn a_desktop_stood_and_not_before_its_first_frame() {
    // 1.6.0 sends a `sync` 947828 for an empty display first.
    let first_frames = ["908986", "929275", "949581"];
    for (release, timestamp) in RELEASES.iter().zip(first_frames) {
        let replay = replayed(release, "rdp-desktop");
        assert_eq!(replay.verdict(), Verdict::Stood);
        assert_eq!(replay.decided_by(), ("sync", timestamp), "{release}");
        let rdp = Select::Protocol("rdp".to_owned());
        assert_eq!(replay.events[0], Event::Selected(rdp));
    }
    let empty = replayed("1.6.0", "rdp-desktop");
    let first = empty.drawn.iter().find(|(opcode, ..)| opcode == "sync");
    let expected = ("sync".to_owned(), "947828".to_owned(), Verdict::Pending);
    assert_eq!(first, Some(&expected));
}

#[test]
fn a_failed_name_lookup_never_stood() {
    for release in RELEASES {
        let replay = replayed(release, "rdp-dns-failure");
        let status = Some(519);
        assert_eq!(replay.verdict(), Verdict::Failed { status }, "{release}");
    }
}

#[test]
fn a_failed_security_negotiation_never_stood() {
    for release in RELEASES {
        let replay = replayed(release, "rdp-no-credentials-nla");
        let status = Some(769);
        assert_eq!(replay.verdict(), Verdict::Failed { status }, "{release}");
    }
}

#[test]
fn a_refused_connection_never_stood() {
    for release in ["1.3.0", "1.6.0"] {
        let replay = replayed(release, "rdp-refused");
        let status = Some(519);
        assert_eq!(replay.verdict(), Verdict::Failed { status }, "{release}");
    }
}

#[test]
fn a_refused_connection_may_end_without_a_word() {
    let replay = replayed("1.5.5", "rdp-refused");
    assert_eq!(replay.verdict(), Verdict::Pending);
    assert!(replay.drawn.iter().any(|(opcode, ..)| opcode == "img"));
}

#[test]
fn a_join_goes_through_with_blank_answers() {
    for release in RELEASES {
        let replay = replayed(release, "join");
        assert!(matches!(
            &replay.events[0],
            Event::Selected(Select::Join(_))
        ));
        let (Event::Selected(Select::Join(asked)), Some(Event::Ready(given))) =
            (&replay.events[0], replay.events.last())
        else {
            panic!("{release}: {:?}", replay.events);
        };
        assert_eq!(asked, given, "`ready` repeats the id");
    }
}

#[test]
fn a_join_of_nothing_is_refused() {
    for release in ["1.5.5", "1.6.0"] {
        let server = recorded(release, "join-missing", "server").expect("recorded");
        let mut machine = Handshake::new();
        let select = b"6.select,37.$01234567-89ab-cdef-0123-456789abcdef;";
        machine.feed(Side::Guacamole, select).unwrap();
        machine.step().unwrap();
        machine.feed(Side::Guacd, &server).unwrap();
        let (by, status) = (Side::Guacd, Some(516));
        let ended = Step::Event(Event::Ended { by, status });
        assert_eq!(machine.step(), Ok(ended), "{release}");
    }
    // Before 1.4.0 guacd just closes.
    let server = recorded("1.3.0", "join-missing", "server");
    assert_eq!(server.as_deref(), Some(&b""[..]));
}

#[test]
fn other_protocols_go_through_too() {
    for release in RELEASES {
        for what in ["ssh-refused", "telnet-refused", "vnc-refused"] {
            replayed(release, what);
        }
    }
}

#[test]
fn every_recording_is_read_to_its_end_and_written_back_the_same() {
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "guac") {
            continue;
        }
        count += 1;
        let bytes = fs::read(&path).unwrap();
        let followed = follow(&bytes);
        assert_eq!((followed.error, followed.at_boundary), (None, true));
        let read = decode_chunks(&[&bytes]);
        assert_eq!(read.error, None);
        assert_eq!(read.instructions.len(), followed.seen.len());
        let encode = |instruction: &Instruction| instruction.encode(Side::Guacd).unwrap();
        let again: Vec<u8> = read.instructions.iter().flat_map(encode).collect();
        assert!(again == bytes, "{}", path.display());
    }
    assert_eq!(count, 51, "all recordings are there");
}
