//! Bytes in, instructions out, under one strict grammar.
//!
//! guacd and Guacamole both read more than they should, and not the same: guacd sizes a character
//! from its first byte alone, ends a text at NUL, takes leading zeros, empty lengths and lengths
//! that overflow. A proxy that reads as leniently can be shown one instruction while guacd sees
//! another. So this decoder accepts only what all readers understand alike:
//!
//! ```text
//! instruction = element *( "," element ) ";"
//! element     = length "." text            ; text: as many Unicode scalar values as length says
//! length      = "0" / %x31-39 *3DIGIT      ; at most 8192
//! ```
//!
//! in valid UTF-8, without NUL, with an opcode (the first element) that is not empty.
//!
//! Limits are checked before memory is taken: an announced length reserves nothing, text is kept
//! only as it arrives. The outcome does not depend on how the bytes were cut. Called by the
//! handshake, and by whoever reads what Guacamole says while a tunnel is held back.

use std::fmt;

use crate::error::DecodeError;
use crate::instruction::{ELEMENT_CHARS_MAX, ELEMENTS_MAX, Instruction};
use crate::shown::{ByteClass, Expected};

/// What one instruction may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most elements, opcode included.
    pub elements: usize,
    /// Most Unicode scalar values in one element.
    pub element_chars: usize,
    /// Most bytes of the whole instruction, framing included.
    pub instruction_bytes: usize,
}

impl Limits {
    /// For a handshake: 127 elements and 8,192 characters are what guacd 1.3.0 to 1.6.0 read
    /// however the bytes are cut; 64 KiB is what a whole handshake may take.
    pub const HANDSHAKE: Self = Self {
        elements: ELEMENTS_MAX,
        element_chars: ELEMENT_CHARS_MAX,
        instruction_bytes: 65_536,
    };
}

/// What one call of [`Decoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// How many bytes of the input were used; those behind belong to the next instruction.
    pub consumed: usize,
    /// The instruction that ended there; `None` when all input was used and more is needed.
    pub instruction: Option<Instruction>,
}

#[derive(Clone, Copy)]
enum State {
    Length {
        value: usize,
        digits: usize,
    },
    /// INVARIANT: at least one character is still to come.
    Text {
        remaining: usize,
    },
    Terminator,
}

const START: State = State::Length {
    value: 0,
    digits: 0,
};

/// The strict decoder. It keeps a partial instruction between calls.
pub struct Decoder {
    limits: Limits,
    state: State,
    /// Bytes used since the decoder was made.
    offset: u64,
    /// Bytes used of the current instruction.
    taken: usize,
    elements: Vec<String>,
    element: String,
    /// First bytes of a character that was cut. INVARIANT: at most three, and completable.
    cut: Vec<u8>,
    failed: Option<DecodeError>,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: START,
            offset: 0,
            taken: 0,
            elements: Vec::new(),
            element: String::new(),
            cut: Vec::new(),
            failed: None,
        }
    }

    /// Reads up to the end of one instruction, or all of `input` if none ends in it.
    ///
    /// # Errors
    ///
    /// The first fault of the stream, with its offset. A decoder that failed stays failed and
    /// returns the same error: there is no place to pick up a broken stream again.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.run(input);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.elements = Vec::new();
            self.element = String::new();
        }
        result
    }

    /// Whether the next byte belongs to an instruction that began already.
    #[must_use]
    pub fn is_mid_instruction(&self) -> bool {
        self.taken > 0
    }

    fn run(&mut self, input: &[u8]) -> Result<Decoded, DecodeError> {
        let limit = self.limits.instruction_bytes;
        // Looking no further than the limit makes the outcome independent of the cut.
        let room = limit.saturating_sub(self.taken);
        let window = input.get(..room).unwrap_or(input);
        let mut rest = window;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.state {
                State::Length { value, digits } => {
                    self.length(byte, value, digits)?;
                    self.advance(1);
                    rest = behind;
                }
                State::Text { remaining } => {
                    let used = self.text(rest, remaining)?;
                    self.advance(used);
                    rest = rest.get(used..).unwrap_or_default();
                }
                State::Terminator => {
                    let complete = self.terminator(byte)?;
                    self.advance(1);
                    rest = behind;
                    if complete {
                        return Ok(Decoded {
                            consumed: window.len() - rest.len(),
                            instruction: Some(self.finish()),
                        });
                    }
                }
            }
        }
        if window.len() < input.len() {
            let offset = self.offset - self.taken as u64;
            return Err(DecodeError::InstructionTooLong { offset, limit });
        }
        Ok(Decoded {
            consumed: input.len(),
            instruction: None,
        })
    }

    fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        self.taken += bytes;
    }

    fn length(&mut self, byte: u8, value: usize, digits: usize) -> Result<(), DecodeError> {
        let offset = self.offset;
        let expected = match (digits, value) {
            (0, _) => Expected::Digit,
            (_, 0) => Expected::Dot,
            _ => Expected::DigitOrDot,
        };
        match (byte, expected) {
            (b'0'..=b'9', Expected::Digit | Expected::DigitOrDot) => {
                let limit = self.limits.element_chars;
                let value = value
                    .checked_mul(10)
                    .and_then(|v| v.checked_add(usize::from(byte - b'0')))
                    .filter(|v| *v <= limit)
                    .ok_or(DecodeError::ElementTooLong { offset, limit })?;
                let digits = digits + 1;
                self.state = State::Length { value, digits };
                Ok(())
            }
            (b'.', Expected::Dot) if self.elements.is_empty() => {
                Err(DecodeError::EmptyOpcode { offset })
            }
            (b'.', Expected::Dot) => {
                self.end_element();
                Ok(())
            }
            (b'.', Expected::DigitOrDot) => {
                self.state = State::Text { remaining: value };
                Ok(())
            }
            _ => Err(DecodeError::Framing {
                offset,
                expected,
                got: ByteClass::of(byte),
            }),
        }
    }

    /// Takes text out of `rest`, which is not empty; returns how many bytes were used.
    fn text(&mut self, rest: &[u8], remaining: usize) -> Result<usize, DecodeError> {
        if !self.cut.is_empty() {
            return self.complete_cut(rest, remaining);
        }
        // Nearly all of a handshake is plain and whole.
        if let Some(plain) = rest.get(..remaining)
            && plain.is_ascii()
            && !plain.contains(&0)
            && let Ok(text) = std::str::from_utf8(plain)
        {
            self.element.push_str(text);
            self.end_element();
            return Ok(remaining);
        }
        // No character takes more than four bytes: look no further than this element can reach.
        let reach = remaining.saturating_mul(4).min(rest.len());
        let window = rest.get(..reach).unwrap_or(rest);
        let valid = window
            .utf8_chunks()
            .next()
            .map_or("", |chunk| chunk.valid());
        let text = first_chars(valid, remaining);
        if let Some(at) = text.bytes().position(|b| b == 0) {
            let offset = self.offset + at as u64;
            return Err(DecodeError::Nul { offset });
        }
        self.element.push_str(text);
        let missing = remaining - text.chars().count();
        if missing == 0 {
            self.end_element();
            return Ok(text.len());
        }
        self.state = State::Text { remaining: missing };
        let broken = window.get(text.len()..).unwrap_or_default();
        match std::str::from_utf8(broken) {
            Err(error) if error.error_len().is_some() => {
                let offset = self.offset + text.len() as u64;
                Err(DecodeError::NotUtf8 { offset })
            }
            _ => {
                self.cut.extend_from_slice(broken);
                Ok(window.len())
            }
        }
    }

    /// Adds one byte to the character that the last input cut.
    fn complete_cut(&mut self, rest: &[u8], remaining: usize) -> Result<usize, DecodeError> {
        let start = self.offset - self.cut.len() as u64;
        self.cut.extend(rest.first());
        match std::str::from_utf8(&self.cut) {
            Ok(character) => {
                self.element.push_str(character);
                self.cut.clear();
                if remaining == 1 {
                    self.end_element();
                } else {
                    let remaining = remaining - 1;
                    self.state = State::Text { remaining };
                }
                Ok(1)
            }
            Err(error) if error.error_len().is_some() => {
                Err(DecodeError::NotUtf8 { offset: start })
            }
            Err(_) => Ok(1),
        }
    }

    fn end_element(&mut self) {
        self.elements.push(std::mem::take(&mut self.element));
        self.state = State::Terminator;
    }

    /// Returns whether the instruction is complete.
    fn terminator(&mut self, byte: u8) -> Result<bool, DecodeError> {
        let offset = self.offset;
        match byte {
            b',' if self.elements.len() >= self.limits.elements => {
                let limit = self.limits.elements;
                Err(DecodeError::TooManyElements { offset, limit })
            }
            b',' => {
                self.state = START;
                Ok(false)
            }
            b';' => Ok(true),
            _ => Err(DecodeError::Framing {
                offset,
                expected: Expected::CommaOrSemicolon,
                got: ByteClass::of(byte),
            }),
        }
    }

    fn finish(&mut self) -> Instruction {
        self.state = START;
        self.taken = 0;
        Instruction::from_elements(std::mem::take(&mut self.elements))
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder(at byte {})", self.offset)
    }
}

/// The first `count` characters of `text`, or all of it.
fn first_chars(text: &str, count: usize) -> &str {
    if text.len() <= count {
        return text;
    }
    let end = text
        .char_indices()
        .nth(count)
        .map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}
