//! A small model of how guacd reads.
//!
//! Modelled from its described behaviour, leniency included: the digits of a length are summed up
//! as they come (none at all is 0, zeros may lead); the size of a character follows from its first
//! byte alone, one that starts no character counts as one byte, and the rest of a character is
//! never looked at; an element, being a C string, ends for its user at the first NUL.

/// The elements of the first instruction and its size in bytes; `None` if guacd refuses it or
/// waits for more.
pub(crate) fn guacd_reads(stream: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let mut elements = Vec::new();
    loop {
        let mut length = 0_usize;
        while let digit @ b'0'..=b'9' = *stream.get(at)? {
            length = length
                .wrapping_mul(10)
                .wrapping_add(usize::from(digit - b'0'));
            at += 1;
        }
        if *stream.get(at)? != b'.' || length > 8_192 {
            return None;
        }
        at += 1;
        let start = at;
        for _ in 0..length {
            at += match *stream.get(at)? {
                0xC0..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF7 => 4,
                _ => 1,
            };
        }
        let terminator = *stream.get(at)?;
        let element = stream[start..at].split(|b| *b == 0).next();
        elements.push(element.unwrap_or_default().to_vec());
        at += 1;
        match terminator {
            b',' => {}
            b';' => return Some((elements, at)),
            _ => return None,
        }
    }
}
