//! What holds for any text, any cut and any bytes.

use proptest::prelude::*;

use guac_protocol::{Handshake, Instruction, Side, StoodWatch};

use crate::support::{Script, decode_chunks, follow_chunks, wire};

/// Any text without NUL: astral characters, emoji, combining marks, framing characters.
fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        any::<char>(),
        prop::char::range(' ', '~'),
        prop::sample::select(vec![
            '.', ',', ';', '0', '9', 'ü', '日', '😀', '🔑', '\u{FE0F}'
        ]),
    ];
    let character = character.prop_filter("NUL is refused", |c| *c != '\0');
    prop::collection::vec(character, 0..20).prop_map(String::from_iter)
}

/// Any instruction guacd would read.
pub(crate) fn instruction() -> impl Strategy<Value = Instruction> {
    let opcode = text().prop_filter("an opcode is not empty", |text| !text.is_empty());
    (opcode, prop::collection::vec(text(), 0..12))
        .prop_map(|(opcode, args)| Instruction::new(opcode, args))
}

pub(crate) fn bytes_of(instruction: &Instruction) -> Vec<u8> {
    instruction.encode(Side::Guacd).expect("fits")
}

/// Cuts the bytes at the given places.
fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|p| p.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut chunks = Vec::new();
    let mut from = 0;
    for at in places {
        chunks.push(&bytes[from..at]);
        from = at;
    }
    chunks.push(&bytes[from..]);
    chunks
}

fn places() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..6)
}

/// Parts of handshakes in any order, most of them sound.
fn speech() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(wire("size", &["1024", "768", "96"])),
        Just(wire("audio", &["audio/L16"])),
        Just(wire("name", &["ünïcode 😀"])),
        Just(wire("nop", &[])),
        Just(wire("connect", &["VERSION_1_5_0", "host", "🔑"])),
        Just(wire("disconnect", &[])),
        Just(wire("size", &["1024"])),
        Just(b"4.na".to_vec()),
        instruction().prop_map(|instruction| bytes_of(&instruction)),
    ];
    let parts = prop::collection::vec(part, 0..8);
    parts.prop_map(|parts| [wire("select", &["rdp"]), parts.concat()].concat())
}

proptest! {
    #[test]
    fn decoding_what_was_encoded_gives_it_back(instructions in prop::collection::vec(instruction(), 1..4)) {
        let stream: Vec<u8> = instructions.iter().flat_map(bytes_of).collect();
        let read = decode_chunks(&[&stream]);
        prop_assert_eq!(read.error, None);
        prop_assert_eq!(read.instructions, instructions);
    }

    #[test]
    fn what_is_written_for_guacamole_has_no_character_outside_the_basic_plane(instruction in instruction()) {
        if let Ok(bytes) = instruction.encode(Side::Guacamole) {
            let text = String::from_utf8(bytes).unwrap();
            let astral = text.chars().any(|c| u32::from(c) > 0xFFFF);
            prop_assert!(!astral);
        }
    }

    #[test]
    fn encoding_what_was_decoded_gives_the_same_bytes(instruction in instruction()) {
        let stream = bytes_of(&instruction);
        let read = decode_chunks(&[&stream]);
        prop_assert_eq!(bytes_of(&read.instructions[0]), stream);
    }

    #[test]
    fn the_decoder_does_not_see_cuts(
        instructions in prop::collection::vec(instruction(), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..12),
        places in places(),
    ) {
        let mut stream: Vec<u8> = instructions.iter().flat_map(bytes_of).collect();
        stream.extend(noise);
        prop_assert_eq!(decode_chunks(&cut(&stream, &places)), decode_chunks(&[&stream]));
    }

    #[test]
    fn the_framing_does_not_see_cuts(
        instructions in prop::collection::vec(instruction(), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..12),
        places in places(),
    ) {
        let mut stream: Vec<u8> = instructions.iter().flat_map(bytes_of).collect();
        stream.extend(noise);
        prop_assert_eq!(follow_chunks(&cut(&stream, &places)), follow_chunks(&[&stream]));
    }

    #[test]
    fn the_framing_sees_what_the_decoder_reads(instructions in prop::collection::vec(instruction(), 0..6)) {
        let stream: Vec<u8> = instructions.iter().flat_map(bytes_of).collect();
        let followed = follow_chunks(&[&stream]);
        prop_assert_eq!(followed.error, None);
        prop_assert!(followed.at_boundary);
        prop_assert_eq!(followed.seen.len(), instructions.len());
        for ((opcode, args, count), instruction) in followed.seen.iter().zip(&instructions) {
            if instruction.opcode().len() <= 64 {
                prop_assert_eq!(opcode, instruction.opcode());
            } else {
                prop_assert_eq!(opcode, "");
            }
            prop_assert_eq!(*count, instruction.args().len());
            for (seen, arg) in args.iter().zip(instruction.args()) {
                prop_assert!(arg.starts_with(seen) && seen.len() >= arg.len().min(61));
            }
        }
    }

    #[test]
    fn the_handshake_does_not_see_cuts(
        guacamole in speech(),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        (p, q, r) in (places(), places(), places()),
    ) {
        let mut script = Script::new(&["VERSION_1_5_0", "hostname", "password"], &[&guacamole]);
        script.ready.extend(noise);
        let whole = script.play_cut(&[&script.guacamole], &[&script.args], &[&script.ready]);
        let parts = script.play_cut(
            &cut(&script.guacamole, &p),
            &cut(&script.args, &q),
            &cut(&script.ready, &r),
        );
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn any_bytes_are_survived(chunks in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 0..8)) {
        let mut machine = Handshake::new();
        let mut watch = StoodWatch::new();
        let mut framing = guac_protocol::Framing::new();
        for (from_guacd, bytes) in &chunks {
            decode_chunks(&[bytes]);
            drop(framing.scan(bytes, |seen| watch.see(seen)));
            let _ = guac_protocol::recognise(bytes);
            let side = if *from_guacd { Side::Guacd } else { Side::Guacamole };
            if machine.feed(side, bytes).is_err() {
                break;
            }
            while let Ok(guac_protocol::Step::Event(_)) = machine.step() {}
        }
        drop(machine.into_rest());
    }
}
