//! One side's bytes: those that came, and how far they are understood.
//!
//! Keeps the raw bytes of a partial instruction, so that they can still be handed on untouched
//! when the handshake ends in its middle. Knows no limit on the sum: its owners check before they
//! push. Called by the handshake and by [`Held`](crate::Held).

use crate::decoder::{Decoder, Limits};
use crate::error::DecodeError;
use crate::instruction::Instruction;

pub(crate) struct Inbox {
    decoder: Decoder,
    bytes: Vec<u8>,
    /// Start of the current instruction in `bytes`; everything before it is done with.
    head: usize,
    /// How far the decoder has read. INVARIANT: `head <= scanned <= bytes.len()`.
    scanned: usize,
    /// Bytes dropped from the front of `bytes` since the stream began.
    dropped: u64,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            decoder: Decoder::new(Limits::HANDSHAKE),
            bytes: Vec::new(),
            head: 0,
            scanned: 0,
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.head);
        self.dropped += self.head as u64;
        self.scanned -= self.head;
        self.head = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes held: of the current instruction, and behind it.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Bytes of all complete instructions so far, which is where the current one starts.
    pub(crate) fn position(&self) -> u64 {
        self.dropped + self.head as u64
    }

    /// The next complete instruction, with the position of its first byte.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Instruction)>, DecodeError> {
        let position = self.position();
        let input = self.bytes.get(self.scanned..).unwrap_or_default();
        let decoded = self.decoder.decode(input)?;
        self.scanned += decoded.consumed;
        let Some(instruction) = decoded.instruction else {
            return Ok(None);
        };
        self.head = self.scanned;
        Ok(Some((position, instruction)))
    }

    /// The raw bytes of the current instruction, and all behind it.
    pub(crate) fn into_raw(mut self) -> Vec<u8> {
        self.bytes.drain(..self.head);
        self.bytes
    }
}
