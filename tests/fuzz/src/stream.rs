//! Streams of instructions: cut up, read strictly, written down without help of
//! the crate under test, and the recorded ones.

use std::path::Path;

use guac_protocol::{DecodeError, Decoder, Instruction, Limits};

/// What a decoder made of a stream.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) instructions: Vec<Instruction>,
    /// Where each of them ended.
    pub(super) ends: Vec<usize>,
    pub(super) error: Option<DecodeError>,
    pub(super) mid_instruction: bool,
}

pub(super) fn read(limits: Limits, chunks: &[&[u8]]) -> Read {
    let mut decoder = Decoder::new(limits);
    let (mut instructions, mut ends, mut error) = (Vec::new(), Vec::new(), None);
    let mut at = 0;
    'chunks: for chunk in chunks {
        let mut rest = *chunk;
        while !rest.is_empty() {
            match decoder.decode(rest) {
                Ok(decoded) => {
                    assert!(decoded.instruction.is_some() || decoded.consumed == rest.len());
                    at += decoded.consumed;
                    rest = &rest[decoded.consumed..];
                    if let Some(instruction) = decoded.instruction {
                        assert!(!decoder.is_mid_instruction());
                        instructions.push(instruction);
                        ends.push(at);
                    }
                }
                Err(fault) => {
                    assert_eq!(decoder.decode(b"3.nop;"), Err(fault.clone()), "final");
                    error = Some(fault);
                    break 'chunks;
                }
            }
        }
    }
    Read {
        mid_instruction: error.is_none() && decoder.is_mid_instruction(),
        instructions,
        ends,
        error,
    }
}

/// Strictly one instruction, and nothing behind it.
pub(super) fn read_one(bytes: &[u8]) -> Instruction {
    let mut read = read(Limits::HANDSHAKE, &[bytes]);
    assert_eq!((read.error, read.mid_instruction), (None, false));
    assert_eq!(read.instructions.len(), 1);
    read.instructions.remove(0)
}

/// Cuts at these places, which need not be in order nor inside.
pub(super) fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|at| at % (bytes.len() + 1)).collect();
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

pub(super) fn elements(instruction: &Instruction) -> Vec<&str> {
    let args = instruction.args().iter().map(String::as_str);
    std::iter::once(instruction.opcode()).chain(args).collect()
}

/// An instruction as anybody would write it who read the grammar only.
pub(super) fn written(elements: &[&str]) -> Vec<u8> {
    let elements = elements
        .iter()
        .map(|text| format!("{}.{text}", text.chars().count()));
    let mut text = elements.collect::<Vec<_>>().join(",");
    text.push(';');
    text.into_bytes()
}

/// What guacd can read at all: 127 elements, 8,192 characters in each, 32,768
/// bytes together, an opcode, no NUL.
pub(super) fn fits_guacd(elements: &[&str]) -> bool {
    let sound = |text: &&str| text.chars().count() <= 8_192 && !text.contains('\0');
    elements.len() <= 127
        && elements.first().is_some_and(|opcode| !opcode.is_empty())
        && elements.iter().all(sound)
        && written(elements).len() <= 32_768
}

/// The same for Guacamole: no astral characters, below 8,000 characters.
pub(super) fn fits_guacamole(elements: &[&str]) -> bool {
    let text = String::from_utf8(written(elements)).unwrap();
    fits_guacd(elements) && text.chars().all(|c| c <= '\u{FFFF}') && text.chars().count() < 8_000
}

/// The recordings in this folder, Guacamole's side with guacd's; either may
/// be missing. In the order of their names.
pub(super) fn recordings(traces: &Path) -> Vec<[Vec<u8>; 2]> {
    let entries = std::fs::read_dir(traces).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".guac")?.rsplit_once('.')?.0.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    let side = |name: &str, side| {
        std::fs::read(traces.join(format!("{name}.{side}.guac"))).unwrap_or_default()
    };
    let sides = names
        .iter()
        .map(|name| [side(name, "client"), side(name, "server")]);
    sides.collect()
}
