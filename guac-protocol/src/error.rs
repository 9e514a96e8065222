//! What can go wrong with bytes, and what may be said about it.
//!
//! Every error carries facts (side, phase, offset, limit, expected and got), so that a test can
//! assert the exact one and a log line needs no prose. None of them can carry the text of an
//! argument: a wrong byte is reduced to its [`ByteClass`], an unexpected opcode to a [`Word`].
//!
//! Called by every module of this crate; the broker maps the variants to a status and a log line.

use thiserror::Error;

use crate::event::Phase;
use crate::instruction::Side;
use crate::shown::{ByteClass, Expected, Word};

/// Bytes that are not the strict grammar of this crate, or exceed a limit of the decoder.
///
/// Offsets count the bytes of the stream, from 0, since the decoder was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A byte that cannot stand where it stands.
    #[error("expected {expected} at byte {offset}, got {got}")]
    Framing {
        /// Position of the byte.
        offset: u64,
        /// What the grammar asks for there.
        expected: Expected,
        /// What stood there.
        got: ByteClass,
    },
    /// A length above the limit for one element.
    #[error("the length at byte {offset} announces more than {limit} characters")]
    ElementTooLong {
        /// Position of the digit that made it too long.
        offset: u64,
        /// Most code points an element may have.
        limit: usize,
    },
    /// One more element than the limit.
    #[error("the comma at byte {offset} opens more than {limit} elements")]
    TooManyElements {
        /// Position of the comma.
        offset: u64,
        /// Most elements an instruction may have, opcode included.
        limit: usize,
    },
    /// An instruction that is not over where its limit in bytes is.
    #[error("the instruction at byte {offset} is longer than {limit} bytes")]
    InstructionTooLong {
        /// Position of the first byte of the instruction.
        offset: u64,
        /// Most bytes an instruction may have, framing included.
        limit: usize,
    },
    /// A NUL inside an element: guacd ends the text there, Guacamole does not.
    #[error("NUL inside an element at byte {offset}")]
    Nul {
        /// Position of the NUL.
        offset: u64,
    },
    /// Bytes that are no UTF-8: overlong forms and surrogates are none either.
    #[error("invalid UTF-8 inside an element at byte {offset}")]
    NotUtf8 {
        /// Position of the first byte of the broken character.
        offset: u64,
    },
    /// The opcode is empty; only the browser tunnel uses that, internally.
    #[error("empty opcode at byte {offset}")]
    EmptyOpcode {
        /// Position of the dot behind the length.
        offset: u64,
    },
}

impl DecodeError {
    /// Position of the fault, in bytes since the decoder was made.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Self::Framing { offset, .. }
            | Self::ElementTooLong { offset, .. }
            | Self::TooManyElements { offset, .. }
            | Self::InstructionTooLong { offset, .. }
            | Self::Nul { offset }
            | Self::NotUtf8 { offset }
            | Self::EmptyOpcode { offset } => *offset,
        }
    }
}

/// An instruction that its reader would refuse or misread. Element 0 is the opcode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The opcode is empty.
    #[error("the opcode is empty")]
    EmptyOpcode,
    /// An element holds a NUL.
    #[error("element {element} contains NUL")]
    Nul {
        /// Index of the element.
        element: usize,
    },
    /// A character above U+FFFF for Guacamole, whose releases disagree on how to count it.
    #[error(
        "element {element} has a character outside the basic plane, which Guacamole cannot count"
    )]
    OutsideBasicPlane {
        /// Index of the element.
        element: usize,
    },
    /// More elements than the reader takes.
    #[error("{got} elements, {reader} takes at most {limit}")]
    TooManyElements {
        /// Who would read it.
        reader: Side,
        /// Most elements, opcode included.
        limit: usize,
        /// How many there are.
        got: usize,
    },
    /// An element with more code points than the reader takes.
    #[error("element {element} has {got} characters, {reader} takes at most {limit}")]
    ElementTooLong {
        /// Who would read it.
        reader: Side,
        /// Index of the element.
        element: usize,
        /// Most code points of an element.
        limit: usize,
        /// How many there are.
        got: usize,
    },
    /// The encoded instruction is too long: bytes for guacd, characters for Guacamole.
    #[error("the instruction has {got} {}, {reader} takes at most {limit}", unit(*reader))]
    TooLong {
        /// Who would read it.
        reader: Side,
        /// Most bytes (guacd) or characters (Guacamole), framing included.
        limit: usize,
        /// How many there are.
        got: usize,
    },
}

/// What a reader's limit on a whole instruction counts.
fn unit(reader: Side) -> &'static str {
    match reader {
        Side::Guacamole => "characters",
        Side::Guacd => "bytes",
    }
}

/// Why parameter names could not be added. Nothing was added then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WidenError {
    /// The names were shown to Guacamole already, or guacd has not sent any.
    #[error("names can be added only right after `args`, not in phase {phase}")]
    NotNow {
        /// Where the handshake stands.
        phase: Phase,
    },
    /// Empty, not printable ASCII, or in the form of a protocol version.
    #[error("name {index} of those to add cannot be a parameter name")]
    NotAName {
        /// Index within the names to add.
        index: usize,
    },
    /// The name is announced by guacd, or asked for twice.
    #[error("name {index} of those to add is present already")]
    Present {
        /// Index within the names to add.
        index: usize,
    },
    /// The widened `args` would be more than Guacamole (or guacd, in `connect`) reads.
    #[error("the widened `args` would not fit")]
    TooLong(#[from] EncodeError),
}

/// Why a handshake cannot go on. All of these are final.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// A side sent bytes that are not the grammar.
    #[error("{side} in phase {phase}: {error}")]
    Decode {
        /// Who sent them.
        side: Side,
        /// Where the handshake stood.
        phase: Phase,
        /// What is wrong with them.
        error: DecodeError,
    },
    /// An instruction that would have to be passed on does not fit its reader.
    #[error("for {reader} in phase {phase}: {error}")]
    Encode {
        /// Who would read it.
        reader: Side,
        /// Where the handshake stood.
        phase: Phase,
        /// Which limit it breaks.
        error: EncodeError,
    },
    /// An instruction that may not come from this side in this phase.
    #[error("{side} in phase {phase}: expected {expected}, got {got} at byte {offset}")]
    Unexpected {
        /// Who sent it.
        side: Side,
        /// Where the handshake stood.
        phase: Phase,
        /// What may come, in words.
        expected: &'static str,
        /// The opcode that came.
        got: Word,
        /// Position of the instruction in that side's stream.
        offset: u64,
    },
    /// An instruction of another kind was given to be read as `expected`.
    #[error("expected {expected}, got {got}")]
    Opcode {
        /// The opcode needed.
        expected: &'static str,
        /// The opcode given.
        got: Word,
    },
    /// `select` without exactly one argument that is `[a-z]{1,32}` or `$` and a UUID.
    #[error(
        "`select` at byte {offset} with {arguments} arguments names no protocol and no connection"
    )]
    Select {
        /// Position of the instruction in Guacamole's stream.
        offset: u64,
        /// How many arguments it had.
        arguments: usize,
    },
    /// `size` without width, height and resolution as integers: some guacd releases mishandle it.
    #[error(
        "`size` at byte {offset} with {arguments} arguments lacks width, height and resolution"
    )]
    Size {
        /// Position of the instruction in Guacamole's stream.
        offset: u64,
        /// How many arguments it had.
        arguments: usize,
    },
    /// `args` announces one name twice, so that a value could not be found by its name.
    #[error("`args` announces the same name at {first} and {second}")]
    DuplicateName {
        /// Index of the first, among the names without the version.
        first: usize,
        /// Index of the second.
        second: usize,
    },
    /// `connect` does not answer `args` value by value.
    #[error("`connect` with {got} values, `args` asked for {expected}")]
    ConnectCount {
        /// Values asked for, the version slot included.
        expected: usize,
        /// Values given.
        got: usize,
    },
    /// `ready` without a connection id of the form `$` and a UUID.
    #[error("`ready` at byte {offset} with {arguments} arguments carries no connection id")]
    ReadyId {
        /// Position of the instruction in guacd's stream.
        offset: u64,
        /// How many arguments it had.
        arguments: usize,
    },
    /// More bytes than a side may send before the handshake is over.
    #[error("{side} in phase {phase}: more than {limit} bytes")]
    TooMuch {
        /// Who sent them.
        side: Side,
        /// Where the handshake stood.
        phase: Phase,
        /// Most bytes kept.
        limit: usize,
    },
}

/// The framing of a stream was lost; nothing behind this place can be recognised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("lost the framing at byte {offset}")]
pub struct FramingError {
    /// Position of the byte that cannot be framing, from 0 since the start of the stream.
    pub offset: u64,
}
