//! Whatever our decoder accepts, a reader as lenient as guacd reads alike,
//! element by element; and so does the relay's own lenient view.

use std::path::Path;

use guac_protocol::{Framing, Limits};

use super::lenient::guacd_reads;
use super::stream::{elements, read, recordings};

/// The stream. Counts instructions both read.
pub fn run(stream: &[u8]) -> usize {
    let read = read(Limits::HANDSHAKE, &[stream]);
    let mut start = 0;
    for (instruction, end) in read.instructions.iter().zip(&read.ends) {
        let ours = elements(instruction);
        let ours = ours.iter().map(|text| text.as_bytes().to_vec()).collect();
        let theirs = guacd_reads(&stream[start..]);
        assert!(theirs == Some((ours, end - start)), "at byte {start}");
        start = *end;
    }
    let mut seen = Vec::new();
    let scanned = Framing::new().scan(&stream[..start], |instruction| {
        seen.push((instruction.opcode().to_owned(), instruction.arg_count()));
    });
    assert_eq!(scanned, Ok(()));
    assert_eq!(seen.len(), read.instructions.len());
    for ((opcode, count), instruction) in seen.iter().zip(&read.instructions) {
        let known = opcode.is_empty() || opcode == instruction.opcode();
        assert!(known && *count == instruction.args().len());
    }
    read.instructions.len()
}

pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let mut seeds = recordings(traces).concat();
    seeds.retain(|stream| !stream.is_empty());
    // Where guacd is fooled and we are not.
    let fooling: [&[u8]; 4] = [
        b"4.name,2.a\0;",
        b"4.name,1.\xF0;,,;",
        b"04.name,.;",
        "4.name,2.é😀;".as_bytes(),
    ];
    seeds.extend(fooling.map(<[u8]>::to_vec));
    seeds
}
