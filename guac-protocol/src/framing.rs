//! Follows the instructions of a long stream without owning it: the relay's view of what guacd
//! sends to Guacamole.
//!
//! Of each instruction the opcode and the first five arguments are seen, 64 bytes each. They are
//! looked at where they lie; only of one that a chunk leaves unfinished they are kept, so that who
//! waits between two instructions keeps nothing, and nobody more than 64 bytes for each.
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
const DIGITS_MAX: u8 = 7;

#[derive(Clone, Copy)]
enum State {
    Length {
        value: u32,
        digits: u8,
    },
    /// INVARIANT: at least one character has not begun yet.
    Text {
        remaining: u32,
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

/// Elements of an unfinished instruction, kept from one chunk to the next.
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
    fn push(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let take = room.len().min(bytes.len());
        if let (Some(to), Some(from)) = (room.get_mut(..take), bytes.get(..take)) {
            to.copy_from_slice(from);
        }
        self.len += take;
        self.cut |= take < bytes.len();
    }

    fn element(&self) -> Element<'_> {
        Element {
            bytes: self.bytes.get(..self.len).unwrap_or_default(),
            cut: self.cut,
        }
    }
}

/// An element as far as it is captured, wherever that is.
struct Element<'a> {
    bytes: &'a [u8],
    cut: bool,
}

impl<'a> Element<'a> {
    /// As much of the captured bytes as is text.
    fn text(&self) -> &'a str {
        let mut chunks = self.bytes.utf8_chunks();
        chunks.next().map_or("", |chunk| chunk.valid())
    }

    fn whole(&self) -> Option<&'a str> {
        let text = self.text();
        (!self.cut && text.len() == self.bytes.len()).then_some(text)
    }
}

/// Where in a chunk elements lie that began in it.
#[derive(Clone, Copy, Default)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    fn of(self, chunk: &[u8]) -> &[u8] {
        chunk.get(self.start..self.end).unwrap_or_default()
    }
}

type Spans = [Span; SLOTS];

/// Follows a stream of instructions from its first byte.
pub struct Framing {
    state: State,
    /// Elements begun in the current instruction.
    elements: u32,
    /// Bytes before the current chunk.
    offset: u64,
    /// What came before the current chunk of the instruction that goes on in it.
    kept: Option<Box<Kept>>,
}

/// The beginning of an instruction.
struct Kept {
    /// Elements begun before the current chunk.
    elements: usize,
    slots: [Slot; SLOTS],
}

impl Framing {
    /// At the start of an instruction.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: START,
            elements: 0,
            offset: 0,
            kept: None,
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
        let mut spans = Spans::default();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::Length { value, digits } => match byte {
                    b'0'..=b'9' if digits < DIGITS_MAX => {
                        let value = value * 10 + u32::from(byte - b'0');
                        let digits = digits + 1;
                        self.state = State::Length { value, digits };
                        at += 1;
                    }
                    b'.' if digits > 0 => {
                        at += 1;
                        self.begin_element(value, at, &mut spans);
                    }
                    _ => return self.lose(at),
                },
                State::Text { remaining } => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    at += self.skip(rest, remaining, &mut spans);
                }
                State::Tail => {
                    match byte {
                        0x80..=0xBF => self.capture(&[byte], &mut spans),
                        b',' => self.state = START,
                        b';' => {
                            on(&Seen {
                                elements: self.elements,
                                kept: self.kept.as_deref(),
                                chunk: bytes,
                                spans: &spans,
                            });
                            self.state = START;
                            self.elements = 0;
                            if let Some(kept) = &mut self.kept {
                                kept.elements = 0;
                            }
                        }
                        _ => return self.lose(at),
                    }
                    at += 1;
                }
                State::Blind => break,
            }
        }
        self.offset += bytes.len() as u64;
        self.keep(bytes, &spans);
        Ok(())
    }

    /// Whether the stream stands between two instructions, so that one of ours may go between.
    /// Never once the framing was lost.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.elements == 0 && matches!(self.state, State::Length { digits: 0, .. })
    }

    fn begin_element(&mut self, remaining: u32, at: usize, spans: &mut Spans) {
        let span = usize::try_from(self.elements).ok();
        if let Some(span) = span.and_then(|element| spans.get_mut(element)) {
            *span = Span { start: at, end: at };
        }
        self.elements = self.elements.saturating_add(1);
        self.state = match remaining {
            0 => State::Tail,
            remaining => State::Text { remaining },
        };
    }

    /// Skips text in bulk; returns how much.
    fn skip(&mut self, rest: &[u8], remaining: u32, spans: &mut Spans) -> usize {
        // A character has at least one byte: so many bytes can be taken without looking for an
        // end, and counted in one go.
        let most = usize::try_from(remaining).unwrap_or(usize::MAX);
        let text = rest.get(..most).unwrap_or(rest);
        self.capture(text, spans);
        // No more than there were bytes, of which no more were taken than that.
        let begun = u32::try_from(characters_begun(text)).unwrap_or(remaining);
        self.state = match remaining.saturating_sub(begun) {
            0 => State::Tail,
            remaining => State::Text { remaining },
        };
        text.len()
    }

    /// Counts text to the element it belongs to, behind what was captured of that.
    fn capture(&mut self, text: &[u8], spans: &mut Spans) {
        let element = usize::try_from(self.elements).ok();
        let Some(element) = element.and_then(|begun| begun.checked_sub(1)) else {
            return;
        };
        match &mut self.kept {
            Some(kept) if element < kept.elements => {
                if let Some(slot) = kept.slots.get_mut(element) {
                    slot.push(text);
                }
            }
            _ => {
                if let Some(span) = spans.get_mut(element) {
                    span.end += text.len();
                }
            }
        }
    }

    /// Keeps what has begun of an instruction, before the chunk it lies in is gone.
    fn keep(&mut self, chunk: &[u8], spans: &Spans) {
        let elements = usize::try_from(self.elements).unwrap_or(usize::MAX);
        if elements == 0 || matches!(self.state, State::Blind) {
            self.kept = None;
            return;
        }
        let kept = self.kept.get_or_insert_with(|| {
            Box::new(Kept {
                elements: 0,
                slots: [EMPTY; SLOTS],
            })
        });
        let begun = spans.iter().zip(&mut kept.slots).take(elements);
        for (span, slot) in begun.skip(kept.elements) {
            *slot = EMPTY;
            slot.push(span.of(chunk));
        }
        kept.elements = elements;
    }

    fn lose(&mut self, at: usize) -> Result<(), FramingError> {
        self.state = State::Blind;
        self.kept = None;
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
    elements: u32,
    kept: Option<&'a Kept>,
    chunk: &'a [u8],
    spans: &'a Spans,
}

impl Seen<'_> {
    /// The opcode; empty if it is no valid text or longer than 64 bytes.
    #[must_use]
    pub fn opcode(&self) -> &str {
        let opcode = self.element(0).and_then(|element| element.whole());
        opcode.unwrap_or_default()
    }

    /// An argument, counted from 0: its first 64 bytes at most, and only as far as they are valid
    /// text. `None` if it does not exist or is beyond the first five.
    #[must_use]
    pub fn arg(&self, index: usize) -> Option<&str> {
        if index >= self.arg_count() {
            return None;
        }
        let element = self.element(index.checked_add(1)?)?;
        Some(element.text())
    }

    /// How many arguments there are, captured or not.
    #[must_use]
    pub fn arg_count(&self) -> usize {
        let elements = usize::try_from(self.elements).unwrap_or(usize::MAX);
        elements.saturating_sub(1)
    }

    fn element(&self, at: usize) -> Option<Element<'_>> {
        if let Some(kept) = self.kept.filter(|kept| at < kept.elements) {
            return kept.slots.get(at).map(Slot::element);
        }
        let text = self.spans.get(at)?.of(self.chunk);
        let captured = text.get(..SLOT_BYTES).unwrap_or(text);
        Some(Element {
            bytes: captured,
            cut: captured.len() < text.len(),
        })
    }
}

impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opcode = Word::new(self.opcode());
        write!(f, "Seen({opcode}, {} arguments)", self.arg_count())
    }
}
