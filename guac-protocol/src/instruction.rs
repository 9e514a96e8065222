//! One instruction: an opcode and its arguments, and how it is written for a given reader.
//!
//! Refuses to write what its reader would refuse or read differently, and to print arguments.
//! Called by everything that sends: the handshake's driver, and whoever refuses a tunnel.

use std::fmt;

use crate::error::EncodeError;
use crate::parameters::ConnectionId;
use crate::shown::Word;
use crate::status::Status;

/// guacd accepts 128 elements, but only when the last one arrives in one read; 127 always work.
pub(crate) const ELEMENTS_MAX: usize = 127;
/// guacd 1.3.0 to 1.6.0 accept an element of at most 8,192 code points.
pub(crate) const ELEMENT_CHARS_MAX: usize = 8_192;
/// guacd 1.3.0 to 1.6.0 hold one instruction in 32,768 bytes.
const GUACD_BYTES_MAX: usize = 32_768;
/// Guacamole after 1.6.0 holds one instruction in 8,192 characters; stay below 8,000.
const GUACAMOLE_CHARS_MAX: usize = 7_999;
/// The text of `error` is logged by Guacamole and shown to nobody; more than this helps no one.
const MESSAGE_CHARS_MAX: usize = 500;

/// One of the two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The web application: opens the connection, sends `select`.
    Guacamole,
    /// The proxy daemon: answers with `args` and `ready`, then draws.
    Guacd,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guacamole => "Guacamole",
            Self::Guacd => "guacd",
        })
    }
}

/// An opcode with its arguments.
///
/// `Debug` shows the opcode and how many arguments there are, never an argument.
#[derive(Clone, PartialEq, Eq)]
pub struct Instruction {
    opcode: String,
    args: Vec<String>,
}

impl Instruction {
    /// Makes an instruction of any texts; limits are checked when it is encoded.
    pub fn new<O, A, S>(opcode: O, args: A) -> Self
    where
        O: Into<String>,
        A: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self {
            opcode: opcode.into(),
            args: args.into_iter().map(Into::into).collect(),
        }
    }

    /// `error`: a text for Guacamole's log and a status that chooses what the user reads.
    ///
    /// Control characters and characters above U+FFFF become `?` (Guacamole 1.5.2 to 1.6.0 writes
    /// code points but reads UTF-16 units, so such a character breaks its connection); the text
    /// ends after 500 characters. The result always fits both readers.
    #[must_use]
    pub fn error(message: &str, status: Status) -> Self {
        let tame = |c: char| {
            if c.is_control() || c > '\u{FFFF}' {
                '?'
            } else {
                c
            }
        };
        let text: String = message.chars().take(MESSAGE_CHARS_MAX).map(tame).collect();
        Self::new("error", [text, status.code().to_string()])
    }

    /// `ready` with the connection id that Guacamole shall know.
    #[must_use]
    pub fn ready(id: &ConnectionId) -> Self {
        Self::new("ready", [id.as_str()])
    }

    /// `disconnect`: the sender is done.
    #[must_use]
    pub fn disconnect() -> Self {
        Self::bare("disconnect")
    }

    /// `nop`: keeps the other side's timer (15 s) from running out.
    #[must_use]
    pub fn nop() -> Self {
        Self::bare("nop")
    }

    fn bare(opcode: &str) -> Self {
        Self {
            opcode: opcode.to_owned(),
            args: Vec::new(),
        }
    }

    /// From the decoder, whose first element is the opcode.
    pub(crate) fn from_elements(mut elements: Vec<String>) -> Self {
        let opcode = if elements.is_empty() {
            String::new()
        } else {
            elements.remove(0)
        };
        Self {
            opcode,
            args: elements,
        }
    }

    /// The opcode.
    #[must_use]
    pub fn opcode(&self) -> &str {
        &self.opcode
    }

    /// The arguments. Never print them.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// The arguments, without a copy. Never print them.
    #[must_use]
    pub fn into_args(self) -> Vec<String> {
        self.args
    }

    /// Writes the instruction for `reader`, who reads exactly these elements back.
    ///
    /// # Errors
    ///
    /// Those of [`Instruction::check`].
    pub fn encode(&self, reader: Side) -> Result<Vec<u8>, EncodeError> {
        encode(reader, self.elements())
    }

    /// Checks `reader`'s limits without writing; returns the encoded size in bytes.
    ///
    /// # Errors
    ///
    /// For both readers: an empty opcode, a NUL, more than 127 elements (opcode included), an
    /// element of more than 8,192 code points. For guacd: more than 32,768 bytes in all. For
    /// Guacamole: 8,000 characters or more in all, or a character above U+FFFF.
    pub fn check(&self, reader: Side) -> Result<usize, EncodeError> {
        check(reader, self.elements())
    }

    fn elements(&self) -> impl Iterator<Item = &str> + Clone {
        std::iter::once(self.opcode.as_str()).chain(self.args.iter().map(String::as_str))
    }
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Instruction({}, {} arguments)",
            Word::new(&self.opcode),
            self.args.len()
        )
    }
}

/// Writes elements, the opcode first, as [`Instruction::encode`] does.
pub(crate) fn encode<'a>(
    reader: Side,
    elements: impl Iterator<Item = &'a str> + Clone,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(check(reader, elements.clone())?);
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_decimal(&mut out, chars_of(element));
        out.push(b'.');
        out.extend_from_slice(element.as_bytes());
    }
    out.push(b';');
    Ok(out)
}

/// Checks elements, the opcode first, as [`Instruction::check`] does.
pub(crate) fn check<'a>(
    reader: Side,
    elements: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, EncodeError> {
    if elements.clone().next().is_none_or(str::is_empty) {
        return Err(EncodeError::EmptyOpcode);
    }
    let got = elements.clone().count();
    if got > ELEMENTS_MAX {
        return Err(EncodeError::TooManyElements {
            reader,
            limit: ELEMENTS_MAX,
            got,
        });
    }
    let (mut bytes, mut chars, mut units) = (0, 0, 0);
    for (element, text) in elements.enumerate() {
        let count = check_element(reader, element, text)?;
        // Digits, the dot, and the comma or semicolon behind it.
        let framing = decimal_digits(count) + 2;
        bytes += framing + text.len();
        chars += framing + count;
        units += framing
            + match text.is_ascii() {
                true => count,
                false => text.encode_utf16().count(),
            };
    }
    let (limit, got) = match reader {
        Side::Guacd => (GUACD_BYTES_MAX, bytes),
        // Releases differ in what they count; the larger of both fits every one.
        Side::Guacamole => (GUACAMOLE_CHARS_MAX, chars.max(units)),
    };
    if got > limit {
        return Err(EncodeError::TooLong { reader, limit, got });
    }
    Ok(bytes)
}

/// Returns the element's length in code points.
fn check_element(reader: Side, element: usize, text: &str) -> Result<usize, EncodeError> {
    if text.as_bytes().contains(&0) {
        return Err(EncodeError::Nul { element });
    }
    if reader == Side::Guacamole && !text.is_ascii() && text.chars().any(|c| c > '\u{FFFF}') {
        return Err(EncodeError::OutsideBasicPlane { element });
    }
    let got = chars_of(text);
    if got > ELEMENT_CHARS_MAX {
        return Err(EncodeError::ElementTooLong {
            reader,
            element,
            limit: ELEMENT_CHARS_MAX,
            got,
        });
    }
    Ok(got)
}

/// Code points. Most texts are short and plain: told apart first, for a handshake has two
/// hundred of them and is checked more than once.
fn chars_of(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.chars().count(),
    }
}

fn push_decimal(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        push_decimal(out, number / 10);
    }
    out.extend(b"0123456789".get(number % 10));
}

fn decimal_digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}
