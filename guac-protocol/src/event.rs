//! What the handshake says to the one who drives it: phases, events, steps, and what is left over.
//!
//! Data only; the rules are in [`handshake`](crate::handshake). No `Debug` here shows an argument,
//! except what `select` and `ready` carry, which may be logged: a protocol or a connection id.

use std::fmt;

use crate::instruction::{Instruction, Side};
use crate::parameters::{ConnectionId, ParameterNames, Parameters};

/// Longest protocol name in `select`; the longest one known is `kubernetes`.
const PROTOCOL_CHARS_MAX: usize = 32;

/// Where the handshake stands: named after what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Guacamole's `select`.
    Select,
    /// guacd's `args`.
    Args,
    /// Guacamole's settings, up to and including `connect`.
    Settings,
    /// guacd's `ready`.
    Ready,
    /// Nothing: the handshake is over, in one way or the other.
    Done,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Select => "select",
            Self::Args => "args",
            Self::Settings => "settings",
            Self::Ready => "ready",
            Self::Done => "done",
        })
    }
}

/// What Guacamole asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// A new connection of this protocol, `[a-z]{1,32}`.
    Protocol(String),
    /// A seat in a live connection.
    Join(ConnectionId),
}

impl Select {
    /// The `select` instruction.
    #[must_use]
    pub fn to_instruction(&self) -> Instruction {
        let argument = match self {
            Self::Protocol(name) => name.as_str(),
            Self::Join(id) => id.as_str(),
        };
        Instruction::new("select", [argument])
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(id) = ConnectionId::parse(text) {
            return Some(Self::Join(id));
        }
        let plain = text.bytes().all(|b| b.is_ascii_lowercase());
        let fits = (1..=PROTOCOL_CHARS_MAX).contains(&text.len());
        (plain && fits).then(|| Self::Protocol(text.to_owned()))
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Guacamole's `select`: now guacd is to be asked.
    Selected(Select),
    /// guacd's `args`; they may be widened before the next step.
    Args(ParameterNames),
    /// An instruction of Guacamole that guacd shall read, to be encoded anew. It fits guacd.
    Forward(Instruction),
    /// Guacamole's `connect`, with a value for every name it was shown. Its size is checked only
    /// when it is encoded, since it is narrowed first.
    Connect(Parameters),
    /// guacd's `ready`: the handshake is over.
    Ready(ConnectionId),
    /// `error` or `disconnect` in place of what was to come: the handshake is over.
    Ended {
        /// Who ended it.
        by: Side,
        /// The number `error` carried, defined or not; `None` for `disconnect`.
        status: Option<u16>,
    },
}

/// What [`Handshake::step`](crate::Handshake::step) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing more can be said before one of these sides is read. The first is the one awaited;
    /// the other may speak ahead, or leave. Empty when the handshake is over.
    Read(&'static [Side]),
    /// Something happened.
    Event(Event),
}

/// The bytes behind the handshake, to be relayed as they are before anything else.
pub struct Rest {
    /// From Guacamole: what it sent after `connect`, without `nop`.
    pub to_guacd: Vec<u8>,
    /// From guacd: what it sent after `ready`.
    pub to_guacamole: Vec<u8>,
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, down) = (self.to_guacd.len(), self.to_guacamole.len());
        write!(f, "Rest({up} bytes to guacd, {down} bytes to Guacamole)")
    }
}
