//! An input read as what both sides say and what the tunnel does about it.

use guac_protocol::Side;

use super::super::input::Input;
use super::super::stream;

/// One thing that happens.
pub(super) enum Act {
    Feed(Side, Vec<u8>),
    /// guacd's stream is over.
    End,
    Again,
    Step,
    /// Steps until nothing more is known.
    Settle,
}

/// More acts than it takes to come anywhere.
const ACTS_MAX: usize = 300;

/// How often a chunk is repeated where it is to be long.
const REPEATED: [usize; 4] = [1, 40, 700, 9_000];
/// No chunk is longer; the tunnel reads a fraction of it at a time.
const CHUNK_MAX: usize = 160_000;

const ID: &str = "$01234567-89ab-cdef-0123-456789abcdef";

/// What guacd says, and what nobody should.
const OF_GUACD: &[&[&str]] = &[
    &["ready", ID],
    &["mouse", "1", "2", "0", "7"],
    &["sync", "7"],
    &["sync", "8", "1"],
    &["nop"],
    &["error", "no", "519"],
    &["args", "VERSION_1_5_0", "hostname", "port"],
    &["required", "username", "password"],
    &["img", "1", "14", "-1", "image/png", "0", "0"],
    &["size", "0", "1024", "768"],
    &["disconnect"],
    &["error"],
    &["error", "no", "65536"],
    &["sync"],
    &["mouse", "1", "2"],
    &["ready", "$"],
    &["args", "name", "name"],
    &[
        "blob",
        "1",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ],
];

/// The same of Guacamole.
const OF_GUACAMOLE: &[&[&str]] = &[
    &["nop"],
    &["key", "97", "1"],
    &["mouse", "1", "2", "0"],
    &["sync", "7"],
    &["size", "1024", "768"],
    &["clipboard", "0", "text/plain"],
    &[
        "blob",
        "0",
        "w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8",
    ],
    &["disconnect"],
    &["key", "é", "😀"],
    &["connect", "VERSION_1_5_0", "host"],
    &["select", "rdp"],
    &["error", "gone", "519"],
];

pub(super) struct Script<'a> {
    input: Input<'a>,
    acts: usize,
    /// The end of what a side said, which comes with what it says next.
    withheld: [Vec<u8>; 2],
}

impl<'a> Script<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            input: Input::new(input),
            acts: 0,
            withheld: [Vec::new(), Vec::new()],
        }
    }

    /// Instructions out of a list or made up, the last of them cut off anywhere.
    fn spoken(&mut self, side: Side, list: &[&[&str]]) -> Act {
        let mut said = Vec::new();
        for _ in 0..=self.input.byte() % 8 {
            let choice = usize::from(self.input.byte() % 32);
            match list.get(choice) {
                Some(elements) => said.extend(stream::written(elements)),
                None => {
                    let first: &[&str] = list[choice % list.len()];
                    let made_up = self.input.text();
                    said.extend(stream::written(&[&first[..1], &[&made_up]].concat()));
                }
            }
        }
        let times = self.input.one_of(&REPEATED);
        let times = times.min(CHUNK_MAX / said.len()).max(1);
        self.cut(side, said.repeat(times))
    }

    fn raw(&mut self, side: Side) -> Act {
        let length = self.input.number();
        let bytes = self.input.bytes(length).to_vec();
        self.cut(side, bytes)
    }

    fn cut(&mut self, side: Side, said: Vec<u8>) -> Act {
        let withheld = &mut self.withheld[usize::from(side == Side::Guacd)];
        let mut chunk = std::mem::take(withheld);
        chunk.extend(said);
        let end = usize::from(self.input.byte()).min(chunk.len());
        *withheld = chunk.split_off(chunk.len() - end);
        Act::Feed(side, chunk)
    }
}

impl Iterator for Script<'_> {
    type Item = Act;

    fn next(&mut self) -> Option<Act> {
        self.acts += 1;
        if self.input.is_over() || self.acts > ACTS_MAX {
            return None;
        }
        Some(match self.input.byte() % 12 {
            0..=2 => self.spoken(Side::Guacd, OF_GUACD),
            3 => self.spoken(Side::Guacamole, OF_GUACAMOLE),
            4 => self.raw(Side::Guacd),
            5 => self.raw(Side::Guacamole),
            6 => Act::End,
            7 => {
                self.withheld[1].clear();
                Act::Again
            }
            8 => Act::Step,
            _ => Act::Settle,
        })
    }
}

const GUACD: u8 = 0;
const GUACAMOLE: u8 = 3;
const END: u8 = 6;
const AGAIN: u8 = 7;
const SETTLE: u8 = 9;

/// These lines of a side's list, so often, and how much is cut off them.
fn said(who: u8, lines: &[u8], times: u8, cut: u8) -> Vec<u8> {
    let count = u8::try_from(lines.len() - 1).unwrap();
    let settled = if who == GUACD { &[SETTLE][..] } else { &[] };
    [&[who, count], lines, &[times, cut], settled].concat()
}

/// Both sides' bytes as they are, in chunks, with all that is known after each.
pub(super) fn written(said: &[(Side, &[u8])]) -> Vec<u8> {
    let mut script = Vec::new();
    for (side, bytes) in said {
        for chunk in bytes.chunks(4_000) {
            script.push(if *side == Side::Guacd { 4 } else { 5 });
            script.extend(u16::try_from(chunk.len()).unwrap().to_le_bytes());
            script.extend(chunk);
            script.extend([0, SETTLE]);
        }
    }
    script
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let typing = || said(GUACAMOLE, &[1, 0, 2, 1, 8], 0, 0);
    let ready = || said(GUACD, &[0], 0, 0);
    let desktop = || said(GUACD, &[9, 1, 4, 2, 8, 3], 0, 0);
    let again = || [vec![AGAIN], said(GUACD, &[6, 0], 0, 0)].concat();
    vec![
        [typing(), ready(), desktop(), typing()].concat(),
        // Cut within an instruction, and within the one that follows.
        [
            said(GUACAMOLE, &[1, 2], 0, 9),
            said(GUACD, &[0, 1, 2, 3], 0, 5),
            desktop(),
        ]
        .concat(),
        // Two that fail and one that stands.
        [
            ready(),
            said(GUACD, &[9, 5], 0, 0),
            typing(),
            again(),
            vec![END],
            again(),
            desktop(),
        ]
        .concat(),
        [
            ready(),
            said(GUACD, &[10], 0, 0),
            again(),
            said(GUACD, &[7], 0, 0),
        ]
        .concat(),
        // Failures before `ready`, of either side.
        [
            said(GUACD, &[5], 0, 0),
            again(),
            said(GUACD, &[15], 0, 0),
            again(),
            ready(),
        ]
        .concat(),
        [
            vec![AGAIN],
            said(GUACD, &[16], 0, 0),
            vec![AGAIN],
            said(GUACD, &[4], 0, 0),
        ]
        .concat(),
        [ready(), said(GUACAMOLE, &[1, 0, 9], 0, 0)].concat(),
        [ready(), said(GUACAMOLE, &[1, 7, 1, 10], 0, 0), desktop()].concat(),
        // An error in the read that makes it a desktop by its size, 131,072 bytes.
        [
            ready(),
            said(GUACD, &[4], 3, 0),
            said(GUACD, &[4], 3, 0),
            said(GUACD, &[4; 5], 2, 0),
            said(GUACD, &[4; 8], 1, 0),
            said(GUACD, &[8, 8, 8, 8, 8, 5], 0, 0),
        ]
        .concat(),
        // Much of everything.
        [
            ready(),
            said(GUACD, &[8, 17, 1, 2], 2, 0),
            said(GUACD, &[8, 17, 1, 2, 5], 3, 0),
        ]
        .concat(),
        [
            ready(),
            said(GUACD, &[17], 2, 40),
            said(GUACD, &[17], 2, 3),
            desktop(),
        ]
        .concat(),
        [
            said(GUACAMOLE, &[0], 3, 1),
            said(GUACAMOLE, &[6, 0, 1], 2, 0),
            said(GUACAMOLE, &[6], 3, 0),
        ]
        .concat(),
        [
            vec![AGAIN],
            said(GUACD, &[6], 3, 0),
            said(GUACD, &[0], 0, 0),
        ]
        .concat(),
        [
            said(GUACD, &[0, 12], 0, 0),
            again(),
            said(GUACD, &[14, 13], 0, 0),
        ]
        .concat(),
    ]
}
