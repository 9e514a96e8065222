//! The strict decoder: however the bytes are cut it says the same, and it holds
//! no more of them than its limit.

use std::path::Path;

use guac_protocol::{Framing, FramingError, Limits};

use super::input::Input;
use super::stream::{cut, elements, read, recordings};

/// Limits, places to cut at, then the stream. Counts instructions.
pub fn run(input: &[u8]) -> usize {
    let mut input = Input::new(input);
    let limits = match input.byte() {
        0 => Limits::HANDSHAKE,
        elements => Limits {
            elements: usize::from(elements),
            element_chars: input.byte().into(),
            instruction_bytes: input.number(),
        },
    };
    let places: Vec<_> = (0..input.byte() % 8).map(|_| input.number()).collect();
    let stream = input.rest();
    let whole = read(limits, &[stream]);
    assert!(
        whole == read(limits, &cut(stream, &places)),
        "cut at {places:?}"
    );
    let single: Vec<_> = stream.chunks(1).collect();
    assert!(whole == read(limits, &single), "byte by byte");

    let starts = std::iter::once(0).chain(whole.ends.iter().copied());
    for ((instruction, start), end) in whole.instructions.iter().zip(starts).zip(&whole.ends) {
        assert!(end - start <= limits.instruction_bytes);
        let elements = elements(instruction);
        assert!(elements.len() <= limits.elements.max(1));
        let longest = elements.iter().map(|text| text.chars().count()).max();
        assert!(longest <= Some(limits.element_chars));
    }
    let done = whole.ends.last().copied().unwrap_or_default();
    match &whole.error {
        Some(error) => assert!((done as u64..=stream.len() as u64).contains(&error.offset())),
        // What is kept of an instruction that is not over is bounded.
        None => assert!(stream.len() - done <= limits.instruction_bytes),
    }
    follow(stream, &places);
    whole.instructions.len()
}

/// The relay's view of any stream does not depend on the cut either.
fn follow(stream: &[u8], places: &[usize]) {
    type Seen = (String, Option<String>, usize);
    fn followed(chunks: &[&[u8]]) -> (Vec<Seen>, Vec<FramingError>, bool) {
        let mut framing = Framing::new();
        let (mut seen, mut errors) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let scanned = framing.scan(chunk, |instruction| {
                let last = instruction.arg(4).map(str::to_owned);
                seen.push((
                    instruction.opcode().to_owned(),
                    last,
                    instruction.arg_count(),
                ));
            });
            errors.extend(scanned.err());
        }
        (seen, errors, framing.at_boundary())
    }
    let whole = followed(&[stream]);
    assert!(whole.1.len() <= 1, "reported once");
    assert!(whole == followed(&cut(stream, places)), "cut at {places:?}");
}

pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let sides = recordings(traces).into_iter().flatten();
    let streams = sides.filter(|stream| !stream.is_empty());
    let mut seeds: Vec<_> = streams
        .map(|stream| [&[0, 2, 7, 0, 100, 1], &stream[..]].concat())
        .collect();
    // Small limits: three elements of three characters, twenty bytes.
    seeds.push(
        b"\x03\x03\x14\x00\x01\x05\x003.nop;3.abc,0.,1.\xC3\xA9;2.ab,2.ab,2.ab,2.ab;".to_vec(),
    );
    seeds
}
