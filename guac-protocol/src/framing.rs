//! Follows the instructions of a long stream without owning it: the relay's view of what guacd
//! sends to Guacamole.
//!
//! Memory is fixed: of each instruction the opcode and the first five arguments, 64 bytes each.
//! Far more lenient than the [`Decoder`](crate::Decoder), because the bytes are relayed whatever
//! it says and a wrong "malformed" would make the relay blind: any content passes, characters are
//! counted by their first bytes, empty opcodes and leading zeros are fine.
//!
//! Called by the relay for every read, and by whoever waits for a desktop to stand.

use std::fmt;

use crate::error::FramingError;
use crate::shown::Word;

/// Captured elements: the opcode and five arguments.
const SLOTS: usize = 6;
/// Captured bytes of each.
const SLOT_BYTES: usize = 64;
/// More digits than any writer needs; also keeps the length far from overflow.
const DIGITS_MAX: usize = 7;

#[derive(Clone, Copy)]
enum State {
    Length {
        value: usize,
        digits: usize,
    },
    /// INVARIANT: at least one character has not begun yet.
    Text {
        remaining: usize,
    },
    /// The last character has begun; its further bytes may follow before the terminator.
    Tail,
    /// The framing was lost: nothing is recognised any more.
    Blind,
}

const START: State = State::Length {
    value: 0,
    digits: 0,
};

#[derive(Clone, Copy)]
struct Slot {
    bytes: [u8; SLOT_BYTES],
    len: usize,
    cut: bool,
}

const EMPTY: Slot = Slot {
    bytes: [0; SLOT_BYTES],
    len: 0,
    cut: false,
};

impl Slot {
    fn clear(&mut self) {
        self.len = 0;
        self.cut = false;
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let take = room.len().min(bytes.len());
        if let (Some(to), Some(from)) = (room.get_mut(..take), bytes.get(..take)) {
            to.copy_from_slice(from);
        }
        self.len += take;
        self.cut |= take < bytes.len();
    }

    /// As much of the captured bytes as is text.
    fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }

    fn is_whole(&self) -> bool {
        !self.cut && self.text().len() == self.len
    }
}

/// Follows a stream of instructions from its first byte.
pub struct Framing {
    state: State,
    /// Bytes before the current chunk.
    offset: u64,
    /// Elements begun in the current instruction.
    elements: usize,
    slots: [Slot; SLOTS],
}

impl Framing {
    /// At the start of an instruction.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: START,
            offset: 0,
            elements: 0,
            slots: [EMPTY; SLOTS],
        }
    }

    /// Reads on and calls `on` for every instruction that ends within `bytes`, in order.
    ///
    /// # Errors
    ///
    /// [`FramingError`], once, at the byte that cannot be framing; instructions before it were
    /// seen. From then on nothing is recognised and every call returns `Ok`.
    pub fn scan(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(&Seen<'_>),
    ) -> Result<(), FramingError> {
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.state {
                State::Length { value, digits } => match byte {
                    b'0'..=b'9' if digits < DIGITS_MAX => {
                        let value = value * 10 + usize::from(byte - b'0');
                        let digits = digits + 1;
                        self.state = State::Length { value, digits };
                        rest = behind;
                    }
                    b'.' if digits > 0 => {
                        self.begin_element(value);
                        rest = behind;
                    }
                    _ => return self.lose(bytes.len() - rest.len()),
                },
                State::Text { remaining } => rest = self.skip(rest, remaining),
                State::Tail => {
                    match byte {
                        0x80..=0xBF => self.capture(&[byte]),
                        b',' => self.state = START,
                        b';' => {
                            on(&Seen { framing: self });
                            self.state = START;
                            self.elements = 0;
                        }
                        _ => return self.lose(bytes.len() - rest.len()),
                    }
                    rest = behind;
                }
                State::Blind => break,
            }
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Whether the stream stands between two instructions, so that one of ours may go between.
    /// Never once the framing was lost.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.elements == 0 && matches!(self.state, State::Length { digits: 0, .. })
    }

    fn begin_element(&mut self, remaining: usize) {
        if let Some(slot) = self.slots.get_mut(self.elements) {
            slot.clear();
        }
        self.elements = self.elements.saturating_add(1);
        self.state = if remaining == 0 {
            State::Tail
        } else {
            State::Text { remaining }
        };
    }

    /// Skips text in bulk; returns what lies behind it.
    fn skip<'a>(&mut self, rest: &'a [u8], remaining: usize) -> &'a [u8] {
        // A character has at least one byte: so many bytes can be taken without looking for an
        // end, and counted in one go.
        let take = remaining.min(rest.len());
        let (text, behind) = rest.split_at_checked(take).unwrap_or((rest, &[]));
        let begun = characters_begun(text);
        self.capture(text);
        self.state = match remaining - begun {
            0 => State::Tail,
            remaining => State::Text { remaining },
        };
        behind
    }

    fn capture(&mut self, text: &[u8]) {
        let slot = self.elements.checked_sub(1);
        if let Some(slot) = slot.and_then(|at| self.slots.get_mut(at)) {
            slot.push(text);
        }
    }

    fn lose(&mut self, at: usize) -> Result<(), FramingError> {
        self.state = State::Blind;
        let offset = self.offset + at as u64;
        Err(FramingError { offset })
    }
}

impl fmt::Debug for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blind = matches!(self.state, State::Blind);
        write!(f, "Framing(byte {} or later, blind: {blind})", self.offset)
    }
}

impl Default for Framing {
    fn default() -> Self {
        Self::new()
    }
}

/// How many characters begin in it. Pictures are most of what passes, and are plain.
fn characters_begun(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // So few at a time that a byte can count them: then many are counted in one instruction.
    let counts = text.chunks(240).map(|chunk| {
        let begin = chunk.iter().map(|&b| u8::from(!is_continuation(b)));
        usize::from(begin.sum::<u8>())
    });
    counts.sum()
}

/// Whether the byte continues a character that began before it.
const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// An instruction that has just ended, as far as it was captured.
///
/// `Debug` shows the opcode and how many arguments there are, never an argument.
pub struct Seen<'a> {
    framing: &'a Framing,
}

impl Seen<'_> {
    /// The opcode; empty if it is no valid text or longer than 64 bytes.
    #[must_use]
    pub fn opcode(&self) -> &str {
        let opcode = self.framing.slots.first().filter(|slot| slot.is_whole());
        opcode.map_or("", Slot::text)
    }

    /// An argument, counted from 0: its first 64 bytes at most, and only as far as they are valid
    /// text. `None` if it does not exist or is beyond the first five.
    #[must_use]
    pub fn arg(&self, index: usize) -> Option<&str> {
        if index >= self.arg_count() {
            return None;
        }
        self.framing
            .slots
            .get(index.checked_add(1)?)
            .map(Slot::text)
    }

    /// How many arguments there are, captured or not.
    #[must_use]
    pub fn arg_count(&self) -> usize {
        self.framing.elements.saturating_sub(1)
    }
}

impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opcode = Word::new(self.opcode());
        write!(f, "Seen({opcode}, {} arguments)", self.arg_count())
    }
}
