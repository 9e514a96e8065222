//! What is encoded decodes to itself; what its reader could not read is not
//! written, and everything else is. What is decoded is written the same again.

use std::path::Path;

use guac_protocol::{Instruction, Limits, Side};

use super::input::Input;
use super::lenient::guacd_reads;
use super::stream::{elements, fits_guacamole, fits_guacd, read, read_one, recordings, written};

/// Elements, each with its length and how often it is repeated, the opcode
/// first. Counts instructions written and read back.
pub fn run(input: &[u8]) -> usize {
    let mut reached = decoded_first(input);
    let mut input = Input::new(input);
    let mut texts = Vec::new();
    while texts.is_empty() || !input.is_over() {
        let (length, times) = (input.number(), input.byte());
        let text = String::from_utf8_lossy(input.bytes(length));
        texts.push(text.repeat(usize::from(times % 64) + 1));
        // As many as an instruction may have and some more are enough.
        if texts.len() > 130 {
            break;
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let instruction = Instruction::new(texts[0], texts[1..].iter().copied());
    for (reader, fits) in [
        (Side::Guacd, fits_guacd(&texts)),
        (Side::Guacamole, fits_guacamole(&texts)),
    ] {
        let encoded = instruction.encode(reader);
        assert_eq!(encoded.is_ok(), fits, "for {reader}: {:?}", encoded.err());
        let Ok(bytes) = encoded else { continue };
        assert_eq!(instruction.check(reader), Ok(bytes.len()));
        assert!(bytes == written(&texts), "for {reader}");
        assert!(read_one(&bytes) == instruction, "for {reader}");
        let meant = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert!(guacd_reads(&bytes) == Some((meant, bytes.len())));
        reached += 1;
    }
    reached
}

/// Any bytes: what is read of them is written again as it stood there.
fn decoded_first(stream: &[u8]) -> usize {
    let read = read(Limits::HANDSHAKE, &[stream]);
    let mut start = 0;
    for (instruction, end) in read.instructions.iter().zip(&read.ends) {
        assert!(written(&elements(instruction)) == stream[start..*end]);
        if let Ok(bytes) = instruction.encode(Side::Guacd) {
            assert!(bytes == stream[start..*end], "one way to write a thing");
        }
        start = *end;
    }
    read.instructions.len()
}

pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for stream in recordings(traces).concat() {
        let read = read(Limits::HANDSHAKE, &[&stream]);
        // The handshake is where instructions are written anew.
        for instruction in read.instructions.iter().take(8) {
            let mut seed = Vec::new();
            for text in elements(instruction) {
                let length = u16::try_from(text.len()).unwrap();
                seed.extend(length.to_le_bytes());
                seed.push(0);
                seed.extend(text.as_bytes());
            }
            seeds.push(seed);
        }
        seeds.push(stream);
    }
    seeds.sort();
    seeds.dedup();
    // 64 times 129 characters are more than an element may have.
    seeds.push([b"\x04\x00\x00name\x81\x00\x3f".to_vec(), vec![b'x'; 129]].concat());
    seeds
}
