//! What Guacamole says while guacd's output is held back, kept for the attempt that stands.
//!
//! Between `connect` and the moment a desktop stood, nobody may read Guacamole's instructions, but
//! they must not be lost, nor be used to start over: `nop` is dropped, `disconnect` is obeyed, a
//! second `connect` or `select` fails closed, all else is kept in order, at most 64 KiB.
//! Called by the handshake until `ready`, and by whoever holds the output back longer than that.

use std::fmt;

use crate::error::HandshakeError;
use crate::event::Phase;
use crate::handshake::BUDGET;
use crate::inbox::Inbox;
use crate::instruction::{Instruction, Side};
use crate::shown::Word;

/// What [`Held::feed`] heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing that ends the tunnel.
    Nothing,
    /// `disconnect`: Guacamole is done. What follows it is not read any more.
    Disconnect,
}

/// Keeps Guacamole's instructions, parsed and bounded.
pub struct Held {
    pub(crate) inbox: Inbox,
    kept: Vec<u8>,
    gone: bool,
    failed: Option<HandshakeError>,
}

impl Held {
    /// Nothing held, at the start of an instruction.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inbox: Inbox::new(),
            kept: Vec::new(),
            gone: false,
            failed: None,
        }
    }

    /// Takes bytes of Guacamole and parses them as far as they go.
    ///
    /// The bytes of [`Rest::to_guacd`](crate::Rest::to_guacd) may be fed first, to go on where a
    /// handshake ended.
    ///
    /// # Errors
    ///
    /// Bytes that are not the grammar, a `connect` or `select`, or more than 64 KiB in all. The
    /// errors name phase [`Phase::Ready`]; offsets count from the first byte fed. They are final:
    /// the same error comes again.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Said, HandshakeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let said = self.take(bytes);
        self.failed = said.clone().err();
        said
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Said, HandshakeError> {
        if self.gone {
            return Ok(Said::Disconnect);
        }
        if self.len().saturating_add(bytes.len()) > BUDGET {
            return Err(HandshakeError::TooMuch {
                side: Side::Guacamole,
                phase: Phase::Ready,
                limit: BUDGET,
            });
        }
        self.inbox.push(bytes);
        self.parse()
    }

    /// Bytes held so far: never more than 64 KiB.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len() + self.inbox.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kept instructions in order, then the raw bytes of one that is not complete yet; nothing
    /// of what stood behind a `disconnect`.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.kept;
        if !self.gone {
            bytes.extend(self.inbox.into_raw());
        }
        bytes
    }

    pub(crate) fn parse(&mut self) -> Result<Said, HandshakeError> {
        while !self.gone {
            let next = self.inbox.next().map_err(|error| HandshakeError::Decode {
                side: Side::Guacamole,
                phase: Phase::Ready,
                error,
            })?;
            let Some((offset, instruction)) = next else {
                return Ok(Said::Nothing);
            };
            self.hear(offset, &instruction)?;
        }
        // Never to be read, it must not come out as the part of an instruction either.
        self.inbox = Inbox::new();
        Ok(Said::Disconnect)
    }

    fn hear(&mut self, offset: u64, instruction: &Instruction) -> Result<(), HandshakeError> {
        match instruction.opcode() {
            "nop" => {}
            "disconnect" => self.gone = true,
            "connect" | "select" => {
                return Err(HandshakeError::Unexpected {
                    side: Side::Guacamole,
                    phase: Phase::Ready,
                    expected: "anything but a new start",
                    got: Word::new(instruction.opcode()),
                    offset,
                });
            }
            _ => {
                let bytes =
                    instruction
                        .encode(Side::Guacd)
                        .map_err(|error| HandshakeError::Encode {
                            reader: Side::Guacd,
                            phase: Phase::Ready,
                            error,
                        })?;
                self.kept.extend(bytes);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({} bytes)", self.len())
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::new()
    }
}
