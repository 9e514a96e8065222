//! The attempts at a desktop that lie between Guacamole's `connect` and the moment a desktop stood.
//!
//! ```text
//! Guacamole                    this file                          guacd
//!     |                                    (dialled anew: Args) <-- args --|
//!     |                            Ready  <------------------- ready --|
//!     |-- key, mouse, nop ------->  kept        held back <-- img, size --|
//!     |                                                                |
//!     |                  Stood: both go on, to be relayed from here on |
//!     |                  Failed: guacd's output is forgotten, `again`  |
//! ```
//!
//! guacd's output is held back until it is known whether the RDP connection stood, so that an
//! attempt that failed leaves no trace in the page; Guacamole's input is kept, parsed and bounded,
//! for the attempt that stands. Holds for RDP only, and not for those who join (see
//! [`stood`](crate::stood)).
//!
//! It reads and writes nothing and knows no time: silence is the caller's to judge. Called by the
//! tunnel, in a loop: [`Attempt::step`] until it says [`Progress::Pending`], read, then feed.

use std::fmt;

use crate::error::{FramingError, HandshakeError};
use crate::event::{Phase, Rest};
use crate::framing::Framing;
use crate::handshake::BUDGET;
use crate::held::{Held, Said};
use crate::inbox::Inbox;
use crate::instruction::{Instruction, Side};
use crate::parameters::{ConnectionId, ParameterNames};
use crate::shown::Word;
use crate::stood::{STOOD_BYTES, StoodWatch, Verdict};

/// Both sides while a desktop is awaited.
pub struct Attempt {
    guacamole: Held,
    left: bool,
    guacd: Guacd,
    /// guacd's stream is over.
    ended: bool,
}

/// How far guacd's connection came.
enum Guacd {
    /// Its `args` or its `ready` are awaited.
    Asked { awaits: Phase, inbox: Inbox },
    /// It left the handshake without a `ready`.
    Refused { status: Option<u16> },
    /// It broke the handshake.
    Broken(HandshakeError),
    /// It speaks of the desktop.
    Speaks(Box<Output>),
}

/// What guacd said behind `ready`, and what it means.
struct Output {
    bytes: Vec<u8>,
    framing: Framing,
    watch: StoodWatch,
    lost: Option<FramingError>,
}

/// What [`Attempt::step`] says. All but `Args` and `Ready` stay so until the attempt is made
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is known yet: read on.
    Pending,
    /// guacd's `args`, on a connection that was dialled anew: settings and `connect` are to be
    /// written.
    Args(ParameterNames),
    /// guacd's `ready`, with its id: what it says from here on is about the host.
    Ready(ConnectionId),
    /// guacd left before its `ready`: its own trouble, not the host's.
    Refused {
        /// The number `error` carried, defined or not; `None` without an `error`.
        status: Option<u16>,
    },
    /// The desktop is there.
    Stood,
    /// It never stood.
    Failed {
        /// The number `error` carried, defined or not; `None` for a bare `disconnect` or the end
        /// of the stream.
        status: Option<u16>,
    },
    /// guacd's framing is lost: nobody can tell any more.
    Blind(FramingError),
    /// Guacamole said `disconnect`.
    Left,
}

impl Attempt {
    /// Goes on where a handshake gave its `connect`: guacd's `ready` is awaited. `rest` is what
    /// the handshake had read beyond it.
    ///
    /// # Errors
    ///
    /// As for [`Attempt::feed`].
    pub fn new(rest: Rest) -> Result<Self, HandshakeError> {
        let mut attempt = Self {
            guacamole: Held::new(),
            left: false,
            guacd: Guacd::asked(Phase::Ready),
            ended: false,
        };
        attempt.feed(Side::Guacamole, &rest.to_guacd)?;
        attempt.feed(Side::Guacd, &rest.to_guacamole)?;
        Ok(attempt)
    }

    /// Another connection to guacd: what the last one said is forgotten, `args` come next. What
    /// Guacamole said is kept.
    pub fn again(&mut self) {
        self.guacd = Guacd::asked(Phase::Args);
        self.ended = false;
    }

    /// Whether Guacamole said `disconnect`.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.left
    }

    /// How many more bytes of Guacamole can be kept: with less room than a read may bring it is
    /// not to be read.
    #[must_use]
    pub fn room(&self) -> usize {
        BUDGET.saturating_sub(self.guacamole.len())
    }

    /// Takes bytes that were read from a side; [`Attempt::step`] says what they mean.
    ///
    /// Of guacd's output there may be 128 KiB held back, and one read more. What is said behind a
    /// side's end, Guacamole's `disconnect` or [the end of guacd](Attempt::end_of_guacd), is not
    /// taken.
    ///
    /// # Errors
    ///
    /// Of Guacamole: bytes that are not the grammar, a `connect` or `select`, or more than there
    /// is [room](Attempt::room) for; that is final, the same error comes again. Of guacd: more than
    /// 64 KiB before its `ready`; that is final until the attempt is made again.
    pub fn feed(&mut self, from: Side, bytes: &[u8]) -> Result<(), HandshakeError> {
        match from {
            Side::Guacamole => {
                self.left |= self.guacamole.feed(bytes)? == Said::Disconnect;
                Ok(())
            }
            // What came with its end, or behind it, cannot change what the end meant.
            Side::Guacd if self.ended => match &self.guacd {
                Guacd::Broken(error) => Err(error.clone()),
                _ => Ok(()),
            },
            Side::Guacd => {
                let fed = self.guacd.feed(bytes);
                fed.or_else(|error| self.guacd.fail(error))
            }
        }
    }

    /// guacd's stream is over, in good order or not.
    pub fn end_of_guacd(&mut self) {
        self.ended = true;
    }

    /// Goes on as far as one thing that is known, or says [`Progress::Pending`].
    ///
    /// # Errors
    ///
    /// The first fault of guacd before its `ready`. It is final until the attempt is made again.
    pub fn step(&mut self) -> Result<Progress, HandshakeError> {
        if self.left {
            return Ok(Progress::Left);
        }
        let step = self.guacd.step(self.ended);
        step.or_else(|error| self.guacd.fail(error))
    }

    /// The bytes to be relayed before anything else: what was kept, and what was held back.
    #[must_use]
    pub fn into_rest(self) -> Rest {
        Rest {
            to_guacd: self.guacamole.into_bytes(),
            to_guacamole: match self.guacd {
                Guacd::Speaks(output) => output.bytes,
                Guacd::Asked { .. } | Guacd::Refused { .. } | Guacd::Broken(_) => Vec::new(),
            },
        }
    }
}

impl Guacd {
    fn asked(awaits: Phase) -> Self {
        Self::Asked {
            awaits,
            inbox: Inbox::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        match self {
            Self::Asked { awaits, inbox } => {
                // The read that ends the handshake may bring much of what follows it.
                if inbox.position() + inbox.len() as u64 > BUDGET as u64 {
                    return Err(too_much(*awaits));
                }
                inbox.push(bytes);
            }
            Self::Refused { .. } => {}
            Self::Broken(error) => return Err(error.clone()),
            Self::Speaks(output) => output.feed(bytes),
        }
        Ok(())
    }

    fn fail<T>(&mut self, error: HandshakeError) -> Result<T, HandshakeError> {
        *self = Self::Broken(error.clone());
        Err(error)
    }

    fn step(&mut self, ended: bool) -> Result<Progress, HandshakeError> {
        let (awaits, inbox) = match self {
            Self::Asked { awaits, inbox } => (awaits, inbox),
            Self::Refused { status } => return Ok(Progress::Refused { status: *status }),
            Self::Broken(error) => return Err(error.clone()),
            Self::Speaks(output) => return Ok(output.progress(ended)),
        };
        let (side, phase) = (Side::Guacd, *awaits);
        let next = inbox.next();
        let next = next.map_err(|error| HandshakeError::Decode { side, phase, error })?;
        if inbox.position() > BUDGET as u64 {
            return Err(too_much(phase));
        }
        let Some((offset, instruction)) = next else {
            if ended {
                *self = Self::Refused { status: None };
                return Ok(Progress::Refused { status: None });
            }
            return Ok(Progress::Pending);
        };
        match (phase, instruction.opcode()) {
            (_, opcode @ ("error" | "disconnect")) => {
                let code = instruction.args().get(1).filter(|_| opcode == "error");
                let status = code.and_then(|code| code.parse().ok());
                *self = Self::Refused { status };
                Ok(Progress::Refused { status })
            }
            (Phase::Args, "args") => {
                *awaits = Phase::Ready;
                Ok(Progress::Args(ParameterNames::from_args(instruction)?))
            }
            (Phase::Ready, "ready") => {
                let id = read_id(&instruction, offset)?;
                let behind = std::mem::replace(inbox, Inbox::new()).into_raw();
                let mut output = Output::new();
                output.feed(&behind);
                *self = Self::Speaks(Box::new(output));
                Ok(Progress::Ready(id))
            }
            (phase, opcode) => Err(HandshakeError::Unexpected {
                side,
                phase,
                expected: match phase {
                    Phase::Args => "`args`",
                    _ => "`ready`",
                },
                got: Word::new(opcode),
                offset,
            }),
        }
    }
}

impl Output {
    fn new() -> Self {
        Self {
            bytes: Vec::new(),
            framing: Framing::new(),
            watch: StoodWatch::new(),
            lost: None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        // What comes in the same read as the byte that tells is as late as if it came in the next.
        let telling = STOOD_BYTES.saturating_sub(self.bytes.len());
        let telling = bytes.get(..telling).unwrap_or(bytes);
        if self.lost.is_none() {
            let watch = &mut self.watch;
            let scanned = self.framing.scan(telling, |seen| watch.see(seen));
            self.lost = scanned.err();
        }
        // Where the framing is lost nothing tells any more, how much there is neither.
        if self.lost.is_none() {
            self.watch.saw_bytes(telling.len());
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn progress(&self, ended: bool) -> Progress {
        match (self.watch.verdict(), &self.lost) {
            (Verdict::Stood, _) => Progress::Stood,
            (Verdict::Failed { status }, _) => Progress::Failed { status },
            (Verdict::Pending, Some(error)) => Progress::Blind(error.clone()),
            (Verdict::Pending, None) if ended => Progress::Failed { status: None },
            (Verdict::Pending, None) => Progress::Pending,
        }
    }
}

fn read_id(ready: &Instruction, offset: u64) -> Result<ConnectionId, HandshakeError> {
    let arguments = ready.args().len();
    let id = ready.args().first();
    let id = id.and_then(|text| ConnectionId::parse(text));
    id.ok_or(HandshakeError::ReadyId { offset, arguments })
}

fn too_much(phase: Phase) -> HandshakeError {
    HandshakeError::TooMuch {
        side: Side::Guacd,
        phase,
        limit: BUDGET,
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.guacamole.len();
        let (stage, held) = match &self.guacd {
            Guacd::Asked { awaits, inbox } => (format!("awaits {awaits}"), inbox.len()),
            Guacd::Refused { .. } => ("refused".to_owned(), 0),
            Guacd::Broken(_) => ("broken".to_owned(), 0),
            Guacd::Speaks(output) => (format!("{:?}", output.watch.verdict()), output.bytes.len()),
        };
        write!(
            f,
            "Attempt({stage}, {kept} bytes of Guacamole, {held} of guacd)"
        )
    }
}
