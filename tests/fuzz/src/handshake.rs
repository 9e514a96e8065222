//! The two-sided handshake, under any bytes from either side in any order:
//! limits are kept, a failure is final, and what it hands on can be written so
//! that its reader reads just that.

use std::path::Path;

use guac_protocol::{
    Event, Handshake, HandshakeError, Instruction, Limits, ParameterNames, Parameters, Phase, Side,
    Step,
};

use super::input::Input;
use super::lenient::guacd_reads;
use super::stream::{elements, fits_guacamole, fits_guacd, read, read_one, recordings};

/// Most bytes of a handshake from one side, and of what is kept behind it.
const BUDGET: usize = 65_536;
/// What the broker adds.
const EXTRA: &str = "sessionguard-resource";

/// Of a chunk's first number: it is guacd's; it comes 64 times; how long it is.
const FROM_GUACD: usize = 0x8000;
const REPEATED: usize = 0x4000;
const LENGTH: usize = 0x3FFF;

/// Whether names are added, then chunks. Counts events.
pub fn run(input: &[u8]) -> usize {
    let mut input = Input::new(input);
    let mut play = Play {
        machine: Handshake::new(),
        extra: (input.byte() % 2 == 1).then_some(EXTRA),
        fed: [0; 2],
        expected: None,
        events: 0,
        is_ready: false,
    };
    while !input.is_over() {
        let head = input.number();
        let chunk = input.bytes(head & LENGTH);
        let chunk = match head & REPEATED {
            0 => chunk.to_vec(),
            _ => chunk.repeat(64),
        };
        let from = match head & FROM_GUACD {
            0 => Side::Guacamole,
            _ => Side::Guacd,
        };
        match play.turn(from, &chunk) {
            Ok(()) if play.machine.phase() == Phase::Done => break,
            Ok(()) => {}
            Err(error) => {
                play.fails_for_good(&error);
                return play.events;
            }
        }
    }
    play.leaves()
}

struct Play {
    machine: Handshake,
    extra: Option<&'static str>,
    /// Bytes taken from Guacamole and from guacd.
    fed: [usize; 2],
    /// The names Guacamole was shown.
    expected: Option<ParameterNames>,
    events: usize,
    /// guacd said `ready`.
    is_ready: bool,
}

impl Play {
    fn turn(&mut self, from: Side, chunk: &[u8]) -> Result<(), HandshakeError> {
        let before = self.fed;
        self.machine.feed(from, chunk)?;
        self.fed[usize::from(from == Side::Guacd)] += chunk.len();
        match self.machine.phase() {
            Phase::Select | Phase::Args | Phase::Settings => assert!(self.fed[0] <= BUDGET),
            Phase::Ready | Phase::Done => {}
        }
        assert!(from == Side::Guacamole || before[1] < BUDGET);
        // An instruction takes four bytes at least: more steps were an endless loop.
        for _ in 0..=self.fed[0] + self.fed[1] {
            match self.machine.step()? {
                Step::Read(sides) => {
                    let done = self.machine.phase() == Phase::Done;
                    assert_eq!(sides.is_empty(), done);
                    return Ok(());
                }
                Step::Event(event) => {
                    self.events += 1;
                    self.happens(event);
                }
            }
        }
        panic!("it never asks for more");
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Selected(select) => {
                assert_eq!(self.machine.phase(), Phase::Args);
                let again = read_back(&select.to_instruction(), Side::Guacd);
                assert!(again == select.to_instruction());
            }
            Event::Args(names) => self.shown(&names),
            Event::Forward(instruction) => {
                let never = ["select", "connect", "nop", "error", "disconnect"];
                assert!(!never.contains(&instruction.opcode()));
                read_back(&instruction, Side::Guacd);
                if instruction.opcode() == "size" {
                    let size = &instruction.args()[..3];
                    assert!(
                        size.iter()
                            .all(|text| text.parse::<i32>().is_ok_and(|n| n >= 0))
                    );
                }
            }
            Event::Connect(parameters) => self.answered(parameters),
            Event::Ready(id) => {
                self.is_ready = true;
                assert_eq!(self.machine.phase(), Phase::Done);
                read_back(&Instruction::ready(&id), Side::Guacamole);
            }
            Event::Ended { .. } => assert_eq!(self.machine.phase(), Phase::Done),
        }
    }

    /// guacd's names, which are passed on as they are or with one more at the end.
    fn shown(&mut self, names: &ParameterNames) {
        read_back(&names.to_instruction(), Side::Guacamole);
        let mut expected: Vec<_> = names.iter().map(str::to_owned).collect();
        if let Some(extra) = self.extra
            && self.machine.widen(&[extra]).is_ok()
        {
            assert!(!expected.contains(&extra.to_owned()));
            expected.push(extra.to_owned());
        }
        let shown = self.machine.names().unwrap().clone();
        read_back(&shown.to_instruction(), Side::Guacamole);
        assert_eq!(shown.version(), names.version());
        assert!(shown.iter().eq(&expected), "names keep their places");
        self.expected = Some(shown);
    }

    fn answered(&mut self, mut parameters: Parameters) {
        let names = self.expected.take().expect("`args` came first");
        assert!(parameters.names().eq(names.iter()), "a value for each name");
        assert_eq!(parameters.version().is_some(), names.version().is_some());
        let before = parameters.to_instruction();
        assert_eq!(before.args().len(), names.slots());
        self.passed_on(&before);
        let taken = parameters.narrow(EXTRA);
        assert_eq!(taken.is_some(), names.iter().any(|name| name == EXTRA));
        let after = parameters.to_instruction();
        let left = before.args().len() - usize::from(taken.is_some());
        assert_eq!(after.args().len(), left);
        self.passed_on(&after);
    }

    /// `connect` may be too long for guacd still: then it is not written.
    fn passed_on(&self, connect: &Instruction) {
        let fits = fits_guacd(&elements(connect));
        assert_eq!(connect.encode(Side::Guacd).is_ok(), fits);
        if fits {
            read_back(connect, Side::Guacd);
        }
    }

    fn fails_for_good(&mut self, error: &HandshakeError) {
        assert_eq!(self.machine.step().as_ref(), Err(error));
        for side in [Side::Guacamole, Side::Guacd] {
            assert_eq!(self.machine.feed(side, b"3.nop;").as_ref(), Err(error));
        }
    }

    /// Nothing that would start over is behind a handshake that came to its end.
    fn leaves(self) -> usize {
        let rest = self.machine.into_rest();
        assert!(rest.to_guacd.len() <= BUDGET);
        assert!(rest.to_guacamole.len() <= self.fed[1]);
        if self.is_ready {
            let kept = read(Limits::HANDSHAKE, &[&rest.to_guacd]);
            assert_eq!(kept.error, None);
            let never = ["select", "connect", "nop", "disconnect"];
            let opcodes = kept.instructions.iter().map(Instruction::opcode);
            opcodes.for_each(|opcode| assert!(!never.contains(&opcode)));
        }
        self.events
    }
}

/// Its reader reads exactly these elements, however leniently.
fn read_back(instruction: &Instruction, reader: Side) -> Instruction {
    let bytes = instruction.encode(reader).expect("fits its reader");
    let elements = elements(instruction);
    match reader {
        Side::Guacd => assert!(bytes.len() <= 32_768 && elements.len() <= 127),
        Side::Guacamole => assert!(fits_guacamole(&elements)),
    }
    let again = read_one(&bytes);
    assert!(again == *instruction);
    let meant = elements
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
    assert!(guacd_reads(&bytes) == Some((meant, bytes.len())));
    again
}

fn chunk(from: Side, bytes: &[u8]) -> Vec<u8> {
    let mut seed = Vec::new();
    for part in bytes.chunks(LENGTH) {
        let side = if from == Side::Guacd { FROM_GUACD } else { 0 };
        let head = u16::try_from(side | part.len()).unwrap();
        seed.extend(head.to_le_bytes());
        seed.extend(part);
    }
    seed
}

pub fn seeds(traces: &Path) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for [guacamole, guacd] in recordings(traces) {
        let (web, daemon) = (
            chunk(Side::Guacamole, &guacamole),
            chunk(Side::Guacd, &guacd),
        );
        seeds.push([&[0], &web[..], &daemon[..]].concat());
        seeds.push([&[0], &daemon[..], &web[..]].concat());
        // In turns, a hundred bytes each.
        let (mut web, mut daemon) = (guacamole.chunks(100), guacd.chunks(100));
        let mut turns = vec![0];
        loop {
            match (web.next(), daemon.next()) {
                (None, None) => break,
                (up, down) => {
                    turns.extend(chunk(Side::Guacamole, up.unwrap_or_default()));
                    turns.extend(chunk(Side::Guacd, down.unwrap_or_default()));
                }
            }
        }
        seeds.push(turns);
    }
    // With the broker's own name, answered too.
    let web = b"6.select,3.rdp;4.size,1.1,1.2,2.96;7.connect,13.VERSION_1_5_0,1.h,6.office;\
        5.mouse,1.1,1.2;3.nop;";
    let daemon = b"4.args,13.VERSION_1_5_0,8.hostname;\
        5.ready,37.$01234567-89ab-cdef-0123-456789abcdef;4.sync,1.1;";
    let (web, daemon) = (chunk(Side::Guacamole, web), chunk(Side::Guacd, daemon));
    seeds.push([&[1], &web[..], &daemon[..]].concat());
    // More than either side may send.
    for side in [0, FROM_GUACD] {
        let mut seed = [&[0], &chunk(Side::Guacamole, b"6.select,3.rdp;")[..]].concat();
        let head = u16::try_from(side | REPEATED | 1_104).unwrap();
        seed.extend(head.to_le_bytes());
        seed.extend(b"3.nop;".repeat(184));
        seeds.push(seed);
    }
    seeds
}
