//! Texts and bytes of the wire, reduced to what may be printed.
//!
//! Called by the errors and by every `Debug` of this crate.

use std::fmt;

/// Longest opcode that is shown as it is. The longest one known has ten characters.
const WORD_MAX: usize = 16;

/// A text from the wire, reduced to what may be printed.
///
/// Shown as it is only when it has 1 to 16 characters out of `a-z`, `0-9` and `-`, which is what
/// every opcode looks like; of anything else only the length in characters is kept, because a
/// peer that lost its place may put a secret where an opcode belongs.
#[derive(Clone, PartialEq, Eq)]
pub struct Word(Shown);

#[derive(Clone, PartialEq, Eq)]
enum Shown {
    Text(String),
    Length(usize),
}

impl Word {
    /// Reduces `text` to its printable form.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if !text.is_empty() && text.len() <= WORD_MAX && text.bytes().all(plain) {
            Self(Shown::Text(text.to_owned()))
        } else {
            Self(Shown::Length(text.chars().count()))
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Shown::Text(text) => write!(f, "`{text}`"),
            Shown::Length(count) => write!(f, "a text of {count} characters"),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a byte is, without saying which one: it may be a part of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteClass {
    /// `0` to `9`.
    Digit,
    /// An ASCII letter.
    Letter,
    /// The space character.
    Space,
    /// A control character, line ends and NUL included.
    Control,
    /// Any other ASCII character.
    Punctuation,
    /// A byte of 0x80 or more.
    NonAscii,
}

impl ByteClass {
    /// Classifies one byte.
    #[must_use]
    pub fn of(byte: u8) -> Self {
        match byte {
            b'0'..=b'9' => Self::Digit,
            b'A'..=b'Z' | b'a'..=b'z' => Self::Letter,
            b' ' => Self::Space,
            0x00..=0x1F | 0x7F => Self::Control,
            0x80..=0xFF => Self::NonAscii,
            _ => Self::Punctuation,
        }
    }
}

impl fmt::Display for ByteClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Digit => "a digit",
            Self::Letter => "a letter",
            Self::Space => "a space",
            Self::Control => "a control character",
            Self::Punctuation => "punctuation",
            Self::NonAscii => "a byte outside ASCII",
        })
    }
}

/// What the grammar asked for at the place of a framing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The first digit of a length.
    Digit,
    /// Another digit, or the dot behind the length.
    DigitOrDot,
    /// The dot: a length that starts with `0` is over.
    Dot,
    /// The comma or semicolon behind an element.
    CommaOrSemicolon,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Digit => "the first digit of a length",
            Self::DigitOrDot => "a digit or `.`",
            Self::Dot => "`.`",
            Self::CommaOrSemicolon => "`,` or `;`",
        })
    }
}
