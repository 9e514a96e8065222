//! The handshake between Guacamole and guacd, seen by the one in the middle.
//!
//! Fed with bytes of either side, it says what they mean and what may come next; it reads and
//! writes nothing itself, and knows no time. It refuses everything that is not the handshake: see
//! the picture in the crate's documentation. All failures are final: the same error comes again.
//!
//! Called by the tunnel, in a loop: [`Handshake::step`] until it asks to read, read, then
//! [`Handshake::feed`].

use std::fmt;

use crate::error::{EncodeError, HandshakeError, WidenError};
use crate::event::{Event, Phase, Rest, Select, Step};
use crate::held::{Held, Said};
use crate::inbox::Inbox;
use crate::instruction::{Instruction, Side};
use crate::parameters::{ConnectionId, ParameterNames, Parameters};
use crate::shown::Word;

/// Most bytes of a whole handshake from one side, and of what is kept behind `connect`.
pub(crate) const BUDGET: usize = 65_536;

/// The two-sided machine.
pub struct Handshake {
    phase: Phase,
    guacamole: Held,
    guacd: Inbox,
    names: Option<ParameterNames>,
    may_widen: bool,
    saw_bytes: bool,
    user_name: Option<String>,
    failed: Option<HandshakeError>,
}

impl Handshake {
    /// A handshake of which nothing was seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            phase: Phase::Select,
            guacamole: Held::new(),
            guacd: Inbox::new(),
            names: None,
            may_widen: false,
            saw_bytes: false,
            user_name: None,
            failed: None,
        }
    }

    /// Takes bytes that were read from a side; [`Handshake::step`] says what they mean.
    ///
    /// Both sides may be ahead: their bytes wait. What follows guacd's `ready` within the bytes of
    /// one call is not counted, so the caller's read buffer bounds it.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::TooMuch`] for more than 64 KiB from one side: of handshake, or of what
    /// Guacamole sends between `connect` and the end; or the error of an earlier failure.
    pub fn feed(&mut self, from: Side, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.check_alive()?;
        let fits = match from {
            Side::Guacamole => self.guacamole_used().saturating_add(bytes.len()) <= BUDGET,
            // The read that ends the handshake may bring much of what follows it.
            Side::Guacd => self.guacd_used() < BUDGET,
        };
        if !fits {
            return self.fail(HandshakeError::TooMuch {
                side: from,
                phase: self.phase,
                limit: BUDGET,
            });
        }
        match from {
            Side::Guacamole => {
                self.saw_bytes |= !bytes.is_empty();
                self.guacamole.inbox.push(bytes);
            }
            Side::Guacd => self.guacd.push(bytes),
        }
        Ok(())
    }

    /// Goes on as far as one event, or says which side to read.
    ///
    /// # Errors
    ///
    /// The first fault of either side. It is final.
    pub fn step(&mut self) -> Result<Step, HandshakeError> {
        self.check_alive()?;
        self.may_widen = false;
        let step = match self.phase {
            Phase::Select => self.step_select(),
            Phase::Args => self.step_args(),
            Phase::Settings => self.step_settings(),
            Phase::Ready => self.step_ready(),
            Phase::Done => Ok(Step::Read(&[])),
        };
        step.or_else(|error| self.fail(error))
    }

    /// Adds names to those Guacamole is shown, and must answer. All or nothing.
    ///
    /// # Errors
    ///
    /// [`WidenError::NotNow`] unless the last step was [`Event::Args`], else those of
    /// [`ParameterNames::widen`].
    pub fn widen(&mut self, names: &[&str]) -> Result<(), WidenError> {
        let phase = self.phase;
        match &mut self.names {
            Some(known) if self.may_widen => known.widen(names),
            _ => Err(WidenError::NotNow { phase }),
        }
    }

    /// The names as they are shown to Guacamole, widened; `None` before guacd's `args`.
    #[must_use]
    pub fn names(&self) -> Option<&ParameterNames> {
        self.names.as_ref()
    }

    /// Where the handshake stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether Guacamole sent any byte at all; a TCP health check does not.
    #[must_use]
    pub fn saw_bytes(&self) -> bool {
        self.saw_bytes
    }

    /// The login name out of the `name` instruction (Guacamole 1.5.0 and later): empty for a share
    /// link, `None` if none came. The last one counts, as it does for guacd.
    #[must_use]
    pub fn user_name(&self) -> Option<&str> {
        self.user_name.as_deref()
    }

    /// The bytes behind the handshake.
    #[must_use]
    pub fn into_rest(self) -> Rest {
        Rest {
            to_guacd: self.guacamole.into_bytes(),
            to_guacamole: self.guacd.into_raw(),
        }
    }

    fn step_select(&mut self) -> Result<Step, HandshakeError> {
        let Some((offset, instruction)) = self.next_of_guacamole()? else {
            return Ok(Step::Read(&[Side::Guacamole]));
        };
        if let Some(ended) = self.ended(Side::Guacamole, &instruction) {
            return Ok(ended);
        }
        if instruction.opcode() != "select" {
            return Err(self.unexpected(Side::Guacamole, "`select`", &instruction, offset));
        }
        let select = match instruction.args() {
            [argument] => Select::parse(argument),
            _ => None,
        };
        let arguments = instruction.args().len();
        let select = select.ok_or(HandshakeError::Select { offset, arguments })?;
        self.phase = Phase::Args;
        Ok(Step::Event(Event::Selected(select)))
    }

    fn step_args(&mut self) -> Result<Step, HandshakeError> {
        let Some((offset, instruction)) = self.next_of_guacd()? else {
            return Ok(Step::Read(&[Side::Guacd, Side::Guacamole]));
        };
        if let Some(ended) = self.ended(Side::Guacd, &instruction) {
            return Ok(ended);
        }
        if instruction.opcode() != "args" {
            return Err(self.unexpected(Side::Guacd, "`args`", &instruction, offset));
        }
        let names = ParameterNames::from_args(instruction)?;
        let fits = names.check(Side::Guacamole);
        fits.map_err(|error| self.does_not_fit(Side::Guacamole, error))?;
        self.names = Some(names.clone());
        self.may_widen = true;
        self.phase = Phase::Settings;
        Ok(Step::Event(Event::Args(names)))
    }

    fn step_settings(&mut self) -> Result<Step, HandshakeError> {
        if let Some((offset, instruction)) = self.next_of_guacd()? {
            let ended = self.ended(Side::Guacd, &instruction);
            return ended.ok_or_else(|| {
                self.unexpected(
                    Side::Guacd,
                    "nothing before `connect`",
                    &instruction,
                    offset,
                )
            });
        }
        while let Some((offset, instruction)) = self.next_of_guacamole()? {
            if let Some(ended) = self.ended(Side::Guacamole, &instruction) {
                return Ok(ended);
            }
            match instruction.opcode() {
                // guacd ignores it here, and it says nothing.
                "nop" => continue,
                "select" => {
                    let expected = "settings or `connect`";
                    return Err(self.unexpected(Side::Guacamole, expected, &instruction, offset));
                }
                "connect" => return self.connect(instruction),
                "size" => check_size(&instruction, offset)?,
                "name" => self.user_name = instruction.args().first().cloned(),
                _ => {}
            }
            self.check_fits(Side::Guacd, &instruction)?;
            return Ok(Step::Event(Event::Forward(instruction)));
        }
        Ok(Step::Read(&[Side::Guacamole, Side::Guacd]))
    }

    fn connect(&mut self, instruction: Instruction) -> Result<Step, HandshakeError> {
        // INVARIANT: phase Settings begins with names; without any, only an empty answer fits.
        let parameters = match &self.names {
            Some(names) => Parameters::from_connect(names, instruction)?,
            None => {
                let (expected, got) = (0, instruction.args().len());
                return Err(HandshakeError::ConnectCount { expected, got });
            }
        };
        self.phase = Phase::Ready;
        Ok(Step::Event(Event::Connect(parameters)))
    }

    fn step_ready(&mut self) -> Result<Step, HandshakeError> {
        // Guacamole first: a second `connect` that is here already must not slip behind `ready`.
        if self.guacamole.parse()? == Said::Disconnect {
            return Ok(self.end(Side::Guacamole, None));
        }
        let Some((offset, instruction)) = self.next_of_guacd()? else {
            return Ok(Step::Read(&[Side::Guacd, Side::Guacamole]));
        };
        if let Some(ended) = self.ended(Side::Guacd, &instruction) {
            return Ok(ended);
        }
        if instruction.opcode() != "ready" {
            return Err(self.unexpected(Side::Guacd, "`ready`", &instruction, offset));
        }
        let arguments = instruction.args().len();
        let id = instruction.args().first();
        let id = id.and_then(|text| ConnectionId::parse(text));
        let id = id.ok_or(HandshakeError::ReadyId { offset, arguments })?;
        self.phase = Phase::Done;
        Ok(Step::Event(Event::Ready(id)))
    }

    fn next_of_guacamole(&mut self) -> Result<Option<(u64, Instruction)>, HandshakeError> {
        let phase = self.phase;
        let next = self.guacamole.inbox.next();
        next.map_err(|error| HandshakeError::Decode {
            side: Side::Guacamole,
            phase,
            error,
        })
    }

    fn next_of_guacd(&mut self) -> Result<Option<(u64, Instruction)>, HandshakeError> {
        let phase = self.phase;
        let side = Side::Guacd;
        let next = self.guacd.next();
        let next = next.map_err(|error| HandshakeError::Decode { side, phase, error })?;
        if self.guacd.position() > BUDGET as u64 {
            let limit = BUDGET;
            return Err(HandshakeError::TooMuch { side, phase, limit });
        }
        Ok(next)
    }

    fn ended(&mut self, by: Side, instruction: &Instruction) -> Option<Step> {
        match instruction.opcode() {
            "disconnect" => Some(self.end(by, None)),
            "error" => {
                let status = instruction.args().get(1).and_then(|code| code.parse().ok());
                Some(self.end(by, status))
            }
            _ => None,
        }
    }

    fn end(&mut self, by: Side, status: Option<u16>) -> Step {
        self.phase = Phase::Done;
        Step::Event(Event::Ended { by, status })
    }

    fn unexpected(
        &self,
        side: Side,
        expected: &'static str,
        got: &Instruction,
        offset: u64,
    ) -> HandshakeError {
        HandshakeError::Unexpected {
            side,
            phase: self.phase,
            expected,
            got: Word::new(got.opcode()),
            offset,
        }
    }

    fn check_fits(&self, reader: Side, instruction: &Instruction) -> Result<(), HandshakeError> {
        let fits = instruction.check(reader).map(|_| ());
        fits.map_err(|error| self.does_not_fit(reader, error))
    }

    fn does_not_fit(&self, reader: Side, error: EncodeError) -> HandshakeError {
        HandshakeError::Encode {
            reader,
            phase: self.phase,
            error,
        }
    }

    /// Before `connect` all that came counts; behind it, all that is kept.
    fn guacamole_used(&self) -> usize {
        let held = self.guacamole.len();
        match self.phase {
            Phase::Select | Phase::Args | Phase::Settings => {
                let read = usize::try_from(self.guacamole.inbox.position());
                held.saturating_add(read.unwrap_or(usize::MAX))
            }
            Phase::Ready | Phase::Done => held,
        }
    }

    fn guacd_used(&self) -> usize {
        let held = self.guacd.len();
        match self.phase {
            Phase::Done => held,
            _ => {
                let read = usize::try_from(self.guacd.position());
                held.saturating_add(read.unwrap_or(usize::MAX))
            }
        }
    }

    fn check_alive(&self) -> Result<(), HandshakeError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail<T>(&mut self, error: HandshakeError) -> Result<T, HandshakeError> {
        self.failed = Some(error.clone());
        Err(error)
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (web, daemon) = (self.guacamole.len(), self.guacd.len());
        write!(
            f,
            "Handshake({}, {web} bytes of Guacamole, {daemon} of guacd)",
            self.phase
        )
    }
}

impl Default for Handshake {
    fn default() -> Self {
        Self::new()
    }
}

/// Width, height and resolution must be there as integers that fit guacd's `int`.
fn check_size(size: &Instruction, offset: u64) -> Result<(), HandshakeError> {
    let is_number =
        |text: &String| text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<i32>().is_ok();
    let numbers = size.args().first_chunk::<3>();
    if numbers.is_some_and(|three| three.iter().all(is_number)) {
        return Ok(());
    }
    let arguments = size.args().len();
    Err(HandshakeError::Size { offset, arguments })
}
