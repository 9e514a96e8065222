//! What is said of an attempt, written again from the rules and in no other way
//! than is plainest: all bytes of a side are kept, and read from the start.

use guac_protocol::{
    ConnectionId, FramingError, HandshakeError, Instruction, Limits, ParameterNames, Phase,
    Progress, Side,
};

use super::super::stream::{elements, fits_guacd, read};
use super::{BUDGET, DESKTOP};

/// Why a side is not listened to any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// No instructions.
    Grammar(Side),
    TooMuch(Side),
    /// An instruction that must not stand there, or not so.
    Unfitting(Side),
    /// More than its reader takes.
    TooLong,
}

impl Fault {
    pub(super) fn is(self, error: &HandshakeError) -> bool {
        match error {
            HandshakeError::Decode { side, .. } => self == Self::Grammar(*side),
            HandshakeError::TooMuch { side, limit, .. } => {
                *limit == BUDGET && self == Self::TooMuch(*side)
            }
            HandshakeError::Unexpected { side, .. } => self == Self::Unfitting(*side),
            HandshakeError::Encode { .. } => self == Self::TooLong,
            HandshakeError::DuplicateName { .. } | HandshakeError::ReadyId { .. } => {
                self == Self::Unfitting(Side::Guacd)
            }
            _ => false,
        }
    }
}

pub(super) struct Model {
    guacamole: Guacamole,
    guacd: Guacd,
}

struct Guacamole {
    /// Whole instructions that guacd is to read.
    kept: Vec<u8>,
    /// The beginning of one.
    partial: Vec<u8>,
    left: bool,
    fault: Option<Fault>,
}

struct Guacd {
    said: Vec<u8>,
    /// How much of it is done with.
    done: usize,
    stage: Stage,
    ended: bool,
    /// What all that means, until there is more of it.
    judged: Option<Progress>,
}

#[derive(Clone, Copy)]
enum Stage {
    Awaits(Phase),
    Refused(Option<u16>),
    Broken(Fault),
    /// What follows `ready`.
    Speaks,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            guacamole: Guacamole {
                kept: Vec::new(),
                partial: Vec::new(),
                left: false,
                fault: None,
            },
            guacd: Guacd::asked(Phase::Ready),
        }
    }

    pub(super) fn again(&mut self) {
        self.guacd = Guacd::asked(Phase::Args);
    }

    pub(super) fn end_of_guacd(&mut self) {
        self.guacd.ended = true;
        self.guacd.judged = None;
    }

    pub(super) fn has_left(&self) -> bool {
        self.guacamole.left
    }

    pub(super) fn kept(&self) -> usize {
        self.guacamole.kept.len() + self.guacamole.partial.len()
    }

    /// Nothing is promised of a Guacamole that made a fault.
    pub(super) fn to_be_relayed(&self) -> Option<Vec<u8>> {
        let Guacamole { kept, partial, .. } = &self.guacamole;
        let sound = self.guacamole.fault.is_none();
        sound.then(|| [&kept[..], partial].concat())
    }

    pub(super) fn held_back(&self) -> &[u8] {
        match self.guacd.stage {
            Stage::Speaks => &self.guacd.said[self.guacd.done..],
            _ => &[],
        }
    }

    pub(super) fn feed(&mut self, from: Side, bytes: &[u8]) -> Result<(), Fault> {
        match from {
            Side::Guacamole => self.guacamole.feed(bytes),
            Side::Guacd => self.guacd.feed(bytes),
        }
    }

    pub(super) fn step(&mut self) -> Result<Progress, Fault> {
        if self.guacamole.left {
            return Ok(Progress::Left);
        }
        self.guacd.step()
    }
}

impl Guacamole {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let heard = self.hear(bytes);
        self.fault = heard.err();
        heard
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.left {
            return Ok(());
        }
        if self.kept.len() + self.partial.len() + bytes.len() > BUDGET {
            return Err(Fault::TooMuch(Side::Guacamole));
        }
        self.partial.extend(bytes);
        let said = std::mem::take(&mut self.partial);
        let read = read(Limits::HANDSHAKE, &[&said]);
        let mut start = 0;
        for (instruction, end) in read.instructions.iter().zip(&read.ends) {
            match instruction.opcode() {
                "nop" => {}
                "disconnect" => {
                    self.left = true;
                    return Ok(());
                }
                "connect" | "select" => return Err(Fault::Unfitting(Side::Guacamole)),
                _ if !fits_guacd(&elements(instruction)) => return Err(Fault::TooLong),
                _ => self.kept.extend(&said[start..*end]),
            }
            start = *end;
        }
        if read.error.is_some() {
            return Err(Fault::Grammar(Side::Guacamole));
        }
        self.partial = said[start..].to_vec();
        Ok(())
    }
}

impl Guacd {
    fn asked(phase: Phase) -> Self {
        Self {
            said: Vec::new(),
            done: 0,
            stage: Stage::Awaits(phase),
            ended: false,
            judged: None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match self.stage {
            Stage::Broken(fault) => return Err(fault),
            Stage::Refused(_) => {}
            // Nothing comes behind an end.
            _ if self.ended => {}
            Stage::Awaits(_) if self.said.len() > BUDGET => {
                return self.breaks(Fault::TooMuch(Side::Guacd));
            }
            Stage::Awaits(_) | Stage::Speaks => {
                self.said.extend(bytes);
                self.judged = None;
            }
        }
        Ok(())
    }

    fn breaks<T>(&mut self, fault: Fault) -> Result<T, Fault> {
        self.stage = Stage::Broken(fault);
        Err(fault)
    }

    fn refuses(&mut self, status: Option<u16>) -> Progress {
        self.stage = Stage::Refused(status);
        Progress::Refused { status }
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let behind = &self.said[self.done..];
        let phase = match self.stage {
            Stage::Refused(status) => return Ok(Progress::Refused { status }),
            Stage::Broken(fault) => return Err(fault),
            Stage::Speaks => {
                let ended = self.ended;
                let judged = self.judged.get_or_insert_with(|| judged(behind, ended));
                return Ok(judged.clone());
            }
            Stage::Awaits(phase) => phase,
        };
        let read = read(Limits::HANDSHAKE, &[behind]);
        let (Some(instruction), Some(end)) = (read.instructions.first(), read.ends.first()) else {
            return match (read.error, self.ended) {
                (Some(_), _) => self.breaks(Fault::Grammar(Side::Guacd)),
                (None, true) => Ok(self.refuses(None)),
                (None, false) => Ok(Progress::Pending),
            };
        };
        self.done += end;
        if self.done > BUDGET {
            return self.breaks(Fault::TooMuch(Side::Guacd));
        }
        match (instruction.opcode(), phase) {
            ("error", _) => Ok(self.refuses(number(instruction))),
            ("disconnect", _) => Ok(self.refuses(None)),
            ("args", Phase::Args) => {
                self.stage = Stage::Awaits(Phase::Ready);
                let names = ParameterNames::from_args(instruction.clone());
                names.map_or_else(
                    |_| self.breaks(Fault::Unfitting(Side::Guacd)),
                    |names| Ok(Progress::Args(names)),
                )
            }
            ("ready", Phase::Ready) => {
                self.stage = Stage::Speaks;
                let id = instruction.args().first();
                id.and_then(|id| ConnectionId::parse(id)).map_or_else(
                    || self.breaks(Fault::Unfitting(Side::Guacd)),
                    |id| Ok(Progress::Ready(id)),
                )
            }
            _ => self.breaks(Fault::Unfitting(Side::Guacd)),
        }
    }
}

fn number(error: &Instruction) -> Option<u16> {
    error.args().get(1)?.parse().ok()
}

/// What guacd's output means, whatever it was cut into: the first thing that
/// tells, at the byte where it does.
fn judged(output: &[u8], ended: bool) -> Progress {
    let telling = &output[..output.len().min(DESKTOP)];
    let mut pointer: Option<Vec<u8>> = None;
    let mut at = 0;
    loop {
        match seen(&telling[at..]) {
            Seen::Instruction(elements, length) => {
                at += length;
                let opcode = elements.first().map(Vec::as_slice).unwrap_or_default();
                let arguments = &elements[1..];
                let text = |index: usize| arguments.get(index).map(|text| shown(text));
                match opcode {
                    b"nop" => continue,
                    b"required" => return Progress::Stood,
                    b"sync" if pointer.is_none() || pointer != text(0) => {
                        return Progress::Stood;
                    }
                    b"disconnect" => return Progress::Failed { status: None },
                    b"error" => {
                        let text = text(1).map(|text| String::from_utf8(text).unwrap());
                        let status = text.and_then(|text| text.parse().ok());
                        return Progress::Failed { status };
                    }
                    _ => {}
                }
                pointer = text(3).filter(|_| opcode == b"mouse");
            }
            Seen::Nonsense(offset) => {
                let offset = (at + offset) as u64;
                return Progress::Blind(FramingError { offset });
            }
            Seen::Part => break,
        }
    }
    match output.len() {
        DESKTOP.. => Progress::Stood,
        _ if ended => Progress::Failed { status: None },
        _ => Progress::Pending,
    }
}

enum Seen {
    /// Its elements and its length in bytes.
    Instruction(Vec<Vec<u8>>, usize),
    /// At which byte.
    Nonsense(usize),
    Part,
}

/// An instruction as the lenient reader of a relay takes it: up to seven digits
/// and a dot, then whatever comes before the byte that begins one character
/// more than there should be.
fn seen(bytes: &[u8]) -> Seen {
    let mut elements = Vec::new();
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match rest.get(digits) {
            _ if digits > 7 => return Seen::Nonsense(at + 7),
            None => return Seen::Part,
            Some(b'.') if digits > 0 => {}
            Some(_) => return Seen::Nonsense(at + digits),
        }
        let length = std::str::from_utf8(&rest[..digits]).unwrap();
        let length: usize = length.parse().unwrap();
        at += digits + 1;
        let text = &bytes[at..];
        let begins = text
            .iter()
            .enumerate()
            .filter(|(_, byte)| !(0x80..0xC0).contains(*byte));
        let Some((end, terminator)) = begins.map(|(end, byte)| (end, *byte)).nth(length) else {
            return Seen::Part;
        };
        elements.push(text[..end].to_vec());
        at += end + 1;
        match terminator {
            b',' => {}
            b';' => return Seen::Instruction(elements, at),
            _ => return Seen::Nonsense(at - 1),
        }
    }
}

/// Of an argument the first 64 bytes count, as far as they are text.
fn shown(argument: &[u8]) -> Vec<u8> {
    let start = &argument[..argument.len().min(64)];
    let valid = std::str::from_utf8(start).map_or_else(|error| error.valid_up_to(), str::len);
    start[..valid].to_vec()
}
