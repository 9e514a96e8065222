//! Feeds bytes in every cut, and plays the one who drives a handshake.

use std::fmt::Debug;

use guac_protocol::{
    DecodeError, Decoder, Event, Framing, FramingError, Handshake, HandshakeError, Instruction,
    Limits, Rest, Side, Step,
};

pub(crate) const ID: &str = "$01234567-89ab-cdef-0123-456789abcdef";

/// Above this size not every cut is tried.
const EVERY_CUT_MAX: usize = 1_500;

/// Runs on the bytes whole, byte by byte, and cut in two at every place (at some, if there are
/// many); demands the same outcome and returns it.
pub(crate) fn in_every_cut<T: PartialEq + Debug>(bytes: &[u8], run: impl Fn(&[&[u8]]) -> T) -> T {
    let whole = run(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(run(&single), whole, "byte by byte");
    let step = if bytes.len() > EVERY_CUT_MAX { 997 } else { 1 };
    for at in (0..=bytes.len()).step_by(step) {
        let (left, right) = bytes.split_at(at);
        assert_eq!(run(&[left, right]), whole, "cut at byte {at}");
    }
    whole
}

/// What a decoder made of a stream: the instructions before the end or the error.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) error: Option<DecodeError>,
    pub(crate) mid_instruction: bool,
}

pub(crate) fn decode_chunks(chunks: &[&[u8]]) -> Read {
    let mut decoder = Decoder::new(Limits::HANDSHAKE);
    let mut instructions = Vec::new();
    let mut error = None;
    'chunks: for chunk in chunks {
        let mut rest = *chunk;
        while !rest.is_empty() {
            match decoder.decode(rest) {
                Ok(decoded) => {
                    rest = &rest[decoded.consumed..];
                    assert!(decoded.instruction.is_some() || rest.is_empty());
                    instructions.extend(decoded.instruction);
                }
                Err(fault) => {
                    error = Some(fault);
                    break 'chunks;
                }
            }
        }
    }
    Read {
        instructions,
        mid_instruction: error.is_none() && decoder.is_mid_instruction(),
        error,
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Read {
    in_every_cut(bytes, decode_chunks)
}

/// The one error the bytes end in.
pub(crate) fn decode_error(bytes: impl AsRef<[u8]>) -> DecodeError {
    decode(bytes.as_ref()).error.expect("must be refused")
}

pub(crate) fn wire(opcode: &str, args: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, element) in std::iter::once(&opcode).chain(args).enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend(format!("{}.{element}", element.chars().count()).bytes());
    }
    bytes.push(b';');
    bytes
}

/// Both sides of a handshake: Guacamole's whole speech, and what guacd says when it is asked and
/// when it was answered.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) guacamole: Vec<u8>,
    pub(crate) args: Vec<u8>,
    pub(crate) ready: Vec<u8>,
    pub(crate) widen: Vec<&'static str>,
}

/// How a handshake went.
#[derive(Debug, PartialEq)]
pub(crate) struct Played {
    pub(crate) events: Vec<Event>,
    pub(crate) error: Option<HandshakeError>,
    pub(crate) to_guacd: Vec<u8>,
    pub(crate) to_guacamole: Vec<u8>,
    pub(crate) user_name: Option<String>,
}

impl Script {
    /// A handshake of this Guacamole with a guacd that asks for these names.
    pub(crate) fn new(names: &[&str], guacamole: &[&[u8]]) -> Self {
        Self {
            guacamole: guacamole.concat(),
            args: wire("args", names),
            ready: wire("ready", &[ID]),
            widen: Vec::new(),
        }
    }

    /// Plays it with each side's bytes in every cut; all must go the same way.
    pub(crate) fn play(&self) -> Played {
        let whole = self.play_cut(&[&self.guacamole], &[&self.args], &[&self.ready]);
        let ways = [
            in_every_cut(&self.guacamole, |cut| {
                self.play_cut(cut, &[&self.args], &[&self.ready])
            }),
            in_every_cut(&self.args, |cut| {
                self.play_cut(&[&self.guacamole], cut, &[&self.ready])
            }),
            in_every_cut(&self.ready, |cut| {
                self.play_cut(&[&self.guacamole], &[&self.args], cut)
            }),
        ];
        assert!(ways.iter().all(|way| *way == whole));
        whole
    }

    /// The error it ends in.
    pub(crate) fn fails(&self) -> HandshakeError {
        self.play().error.expect("must be refused")
    }

    pub(crate) fn play_cut(&self, guacamole: &[&[u8]], args: &[&[u8]], ready: &[&[u8]]) -> Played {
        let mut machine = Handshake::new();
        let mut events = Vec::new();
        let error = self
            .drive(&mut machine, &mut events, [guacamole, args, ready])
            .err();
        if let Some(error) = &error {
            assert_eq!(machine.step(), Err(error.clone()), "a failure is final");
            assert_eq!(machine.feed(Side::Guacd, b"x"), Err(error.clone()));
        }
        let user_name = machine.user_name().map(str::to_owned);
        let Rest {
            to_guacd,
            to_guacamole,
        } = machine.into_rest();
        let ok = error.is_none();
        Played {
            events,
            error,
            // After a failure nothing is relayed, and how much is left depends on the cut.
            to_guacd: if ok { to_guacd } else { Vec::new() },
            to_guacamole: if ok { to_guacamole } else { Vec::new() },
            user_name,
        }
    }

    fn drive(
        &self,
        machine: &mut Handshake,
        events: &mut Vec<Event>,
        [guacamole, args, ready]: [&[&[u8]]; 3],
    ) -> Result<(), HandshakeError> {
        let mut guacamole = guacamole.iter();
        let (mut args, mut ready) = (args.iter(), ready.iter());
        let mut connected = false;
        loop {
            match machine.step()? {
                Step::Event(event) => {
                    if matches!(event, Event::Args(_)) && !self.widen.is_empty() {
                        machine.widen(&self.widen).expect("can be widened");
                    }
                    connected |= matches!(event, Event::Connect(_));
                    events.push(event);
                }
                Step::Read(sides) => {
                    let awaits_args = sides.first() == Some(&Side::Guacd) && !connected;
                    let next = if awaits_args {
                        args.next().map(|chunk| (Side::Guacd, chunk))
                    } else {
                        let first = guacamole.next().map(|chunk| (Side::Guacamole, chunk));
                        first.or_else(|| ready.next().map(|chunk| (Side::Guacd, chunk)))
                    };
                    let Some((side, chunk)) = next else {
                        return Ok(());
                    };
                    assert!(sides.is_empty() || sides.contains(&side) || !connected);
                    machine.feed(side, chunk)?;
                }
            }
        }
    }
}

/// What the framing saw: opcodes with the captured arguments, the error, and whether it stands at
/// a boundary.
#[derive(Debug, PartialEq)]
pub(crate) struct Followed {
    pub(crate) seen: Vec<(String, Vec<String>, usize)>,
    pub(crate) error: Option<FramingError>,
    pub(crate) at_boundary: bool,
}

pub(crate) fn follow_chunks(chunks: &[&[u8]]) -> Followed {
    let mut framing = Framing::new();
    let mut seen = Vec::new();
    let mut error = None;
    for chunk in chunks {
        let result = framing.scan(chunk, |instruction| {
            let args = (0..5).map_while(|at| instruction.arg(at).map(str::to_owned));
            let opcode = instruction.opcode().to_owned();
            seen.push((opcode, args.collect(), instruction.arg_count()));
        });
        if let Err(fault) = result {
            assert!(error.is_none(), "reported once");
            error = Some(fault);
        }
    }
    Followed {
        seen,
        error,
        at_boundary: framing.at_boundary(),
    }
}

pub(crate) fn follow(bytes: &[u8]) -> Followed {
    in_every_cut(bytes, follow_chunks)
}
