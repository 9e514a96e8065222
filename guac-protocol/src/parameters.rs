//! Parameters by name: the names of `args` zipped with the values of `connect`.
//!
//! Never by position: a release may add names in the middle of the list. Refuses lists in which a
//! name stands twice, and answers that do not match the list value by value; prints no value.
//! Called by the handshake, and by whoever reads or rewrites a connection's parameters.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{EncodeError, HandshakeError, WidenError};
use crate::instruction::{self, Instruction, Side};
use crate::shown::Word;

/// The id of a connection in guacd: `$` and a UUID. It may be logged.
// Where it lies: a tunnel has several for as long as it lives.
// INVARIANT: `$` and a UUID, so ASCII.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId([u8; ID_BYTES]);

/// `$` and a UUID's digits, with dashes between.
const ID_BYTES: usize = 37;

impl ConnectionId {
    /// Reads `$` and a UUID in its form of 8-4-4-4-12 hexadecimal digits, in either case.
    ///
    /// The text is kept as it is: ids that differ in case are different ids.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = text.strip_prefix('$')?;
        Self::from_uuid_text(uuid)
    }

    /// Makes an id of a UUID's text, without the `$`; `None` if it is not 8-4-4-4-12.
    #[must_use]
    pub fn from_uuid_text(uuid: &str) -> Option<Self> {
        let digits = <[u8; ID_BYTES - 1]>::try_from(uuid.as_bytes()).ok()?;
        is_uuid(uuid).then(|| Self::of(digits))
    }

    /// Makes an id of a UUID's 128 bits, most significant first; always a well-formed one.
    #[must_use]
    pub fn from_bits(uuid: u128) -> Self {
        const LAST: u32 = 31;
        let mut left = 0;
        Self::of(std::array::from_fn(|at| {
            if is_dash(at) {
                return b'-';
            }
            let digit = uuid >> (4 * (LAST - left)) & 0xf;
            left += 1;
            match u8::try_from(digit) {
                Ok(digit @ 0..=9) => b'0' + digit,
                Ok(digit) => b'a' + (digit - 10),
                // Four bits are no more than that.
                Err(_) => b'0',
            }
        }))
    }

    fn of(uuid: [u8; ID_BYTES - 1]) -> Self {
        let mut text = [b'$'; ID_BYTES];
        text.iter_mut()
            .skip(1)
            .zip(uuid)
            .for_each(|(to, digit)| *to = digit);
        Self(text)
    }

    /// The id as it stands on the wire, `$` included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| match is_dash(at) {
                true => byte == b'-',
                false => byte.is_ascii_hexdigit(),
            })
}

/// Whether a dash stands there in a UUID's text.
fn is_dash(at: usize) -> bool {
    matches!(at, 8 | 13 | 18 | 23)
}

/// Whether the first element of `args` is a protocol version: `VERSION_n_n_n`.
///
/// guacd 1.0.0 sends none; its first element is an ordinary name then.
fn is_version(text: &str) -> bool {
    let Some(numbers) = text.strip_prefix("VERSION_") else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.split('_').count() == 3 && numbers.split('_').all(is_number)
}

/// A version's numbers, to be compared; none for what is no version.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.strip_prefix("VERSION_").unwrap_or_default();
    let numbers = numbers.split('_').map(|part| part.parse().unwrap_or(0));
    match is_version(version) {
        true => numbers.collect(),
        false => Vec::new(),
    }
}

/// The parameter names that `args` announces, in order.
#[derive(Clone, PartialEq, Eq)]
pub struct ParameterNames {
    version: Option<String>,
    /// Shared with the parameters that answer to them: there are eighty.
    /// INVARIANT: no name stands twice.
    names: Arc<Vec<String>>,
}

impl ParameterNames {
    /// Reads an `args` instruction.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::Opcode`] for another instruction, [`HandshakeError::DuplicateName`].
    pub fn from_args(args: Instruction) -> Result<Self, HandshakeError> {
        if args.opcode() != "args" {
            return Err(wrong_opcode("args", &args));
        }
        let mut names = args.into_args();
        let version = match names.first() {
            Some(first) if is_version(first) => Some(names.remove(0)),
            _ => None,
        };
        let mut seen = HashMap::with_capacity(names.len());
        for (second, name) in names.iter().enumerate() {
            if let Some(first) = seen.insert(name.as_str(), second) {
                return Err(HandshakeError::DuplicateName { first, second });
            }
        }
        let names = Arc::new(names);
        Ok(Self { version, names })
    }

    /// The protocol version guacd offers, `None` for 1.0.0 (or a peer that sends none).
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The names in order, without the version.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether the name is announced.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|known| known == name)
    }

    /// How many names there are, without the version.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name is announced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many values `connect` must bring: one for each name, and one for the version if any.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.names.len() + usize::from(self.version.is_some())
    }

    /// The `args` instruction, the version first.
    #[must_use]
    pub fn to_instruction(&self) -> Instruction {
        Instruction::new("args", self.elements().skip(1))
    }

    /// The same as it is written for `reader`.
    ///
    /// # Errors
    ///
    /// Those of [`Instruction::check`].
    pub fn encode(&self, reader: Side) -> Result<Vec<u8>, EncodeError> {
        instruction::encode(reader, self.elements())
    }

    /// Whether `reader` can read it.
    ///
    /// # Errors
    ///
    /// Those of [`Instruction::check`].
    pub(crate) fn check(&self, reader: Side) -> Result<usize, EncodeError> {
        instruction::check(reader, self.elements())
    }

    fn elements(&self) -> impl Iterator<Item = &str> + Clone {
        let version = self.version.iter().map(String::as_str);
        let names = self.names.iter().map(String::as_str);
        std::iter::once("args").chain(version).chain(names)
    }

    /// Adds names at the end, so that guacd's own keep their places. All or nothing.
    ///
    /// # Errors
    ///
    /// A name that is present already or cannot be one (empty, not printable ASCII, of the form of
    /// a version), or a result that Guacamole could not read: more than 127 elements, or 8,000
    /// characters and more.
    pub fn widen(&mut self, names: &[&str]) -> Result<(), WidenError> {
        for (index, name) in names.iter().enumerate() {
            if name.is_empty() || is_version(name) || !name.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(WidenError::NotAName { index });
            }
            let earlier = names.iter().take(index);
            if self.contains(name) || earlier.into_iter().any(|earlier| earlier == name) {
                return Err(WidenError::Present { index });
            }
        }
        let wider = self.elements().chain(names.iter().copied());
        instruction::check(Side::Guacamole, wider)?;
        Arc::make_mut(&mut self.names).extend(names.iter().map(|name| (*name).to_owned()));
        Ok(())
    }
}

impl fmt::Debug for ParameterNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version().unwrap_or("no version");
        write!(f, "ParameterNames({version}, {} names)", self.names.len())
    }
}

/// The parameters of a connection: what `connect` answers to `args`.
///
/// `Debug` shows how many there are; values are read through [`Parameters::get`] alone.
#[derive(Clone)]
pub struct Parameters {
    version: Option<String>,
    /// Of the values, in their order; shared, and so perhaps with more behind them.
    names: Arc<Vec<String>>,
    /// INVARIANT: no more than there are names.
    values: Vec<String>,
}

impl Parameters {
    /// Zips the names with the values of a `connect` instruction.
    ///
    /// What Guacamole writes in the version's place is kept as it is; it may be empty.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::Opcode`] for another instruction; [`HandshakeError::ConnectCount`] unless
    /// there is exactly one value for each slot.
    pub fn from_connect(
        names: &ParameterNames,
        connect: Instruction,
    ) -> Result<Self, HandshakeError> {
        if connect.opcode() != "connect" {
            return Err(wrong_opcode("connect", &connect));
        }
        let (expected, got) = (names.slots(), connect.args().len());
        if got != expected {
            return Err(HandshakeError::ConnectCount { expected, got });
        }
        let mut values = connect.into_args();
        let version = names.version.as_ref().map(|_| values.remove(0));
        let names = Arc::clone(&names.names);
        Ok(Self {
            version,
            names,
            values,
        })
    }

    /// The same parameters as an answer to other names, of another guacd: by name, unset where
    /// Guacamole was not asked. In the version's place stands what Guacamole wrote, or that of this
    /// guacd where it is lower.
    #[must_use]
    pub fn answering(&self, names: &ParameterNames) -> Self {
        let version = names.version().map(|offered| {
            let answered = self.version().unwrap_or_default();
            match numbers(answered) > numbers(offered) {
                true => offered.to_owned(),
                false => answered.to_owned(),
            }
        });
        let value = |name: &str| self.get(name).unwrap_or_default().to_owned();
        Self {
            version,
            values: names.iter().map(value).collect(),
            names: Arc::clone(&names.names),
        }
    }

    /// What stands in the version's place: `None` if `args` had none.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The value: `None` if the name was not announced, `Some("")` if it is unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(self.position(name)?).map(String::as_str)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names().position(|known| known == name)
    }

    /// Replaces a value; `false`, and nothing happens, if the name was not announced.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> bool {
        let at = self.position(name);
        match at.and_then(|at| self.values.get_mut(at)) {
            Some(slot) => {
                *slot = value.into();
                true
            }
            None => false,
        }
    }

    /// Takes a name out, with its value: guacd must not see what it did not announce.
    pub fn narrow(&mut self, name: &str) -> Option<String> {
        let at = self.position(name)?;
        if at + 1 < self.values.len() {
            Arc::make_mut(&mut self.names).remove(at);
        }
        // The last one's name stays with whoever shares it, behind all values.
        Some(self.values.remove(at))
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().map(String::as_str);
        names.take(self.values.len())
    }

    /// Names and values in order, values to be changed in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut String)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(&mut self.values)
    }

    /// How many parameters there are, without the version.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The `connect` instruction, the version first.
    #[must_use]
    pub fn to_instruction(&self) -> Instruction {
        Instruction::new("connect", self.elements().skip(1))
    }

    /// The same as it is written for `reader`.
    ///
    /// # Errors
    ///
    /// Those of [`Instruction::check`].
    pub fn encode(&self, reader: Side) -> Result<Vec<u8>, EncodeError> {
        instruction::encode(reader, self.elements())
    }

    fn elements(&self) -> impl Iterator<Item = &str> + Clone {
        let version = self.version.iter().map(String::as_str);
        let values = self.values.iter().map(String::as_str);
        std::iter::once("connect").chain(version).chain(values)
    }
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.values == other.values
            && self.names().eq(other.names())
    }
}

impl Eq for Parameters {}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameters({} names)", self.values.len())
    }
}

fn wrong_opcode(expected: &'static str, got: &Instruction) -> HandshakeError {
    HandshakeError::Opcode {
        expected,
        got: Word::new(got.opcode()),
    }
}
