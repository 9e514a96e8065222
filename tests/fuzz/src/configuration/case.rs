//! One case: the files of a configuration, the variables beside it, and where a
//! secret was put into them.

use std::ffi::OsString;
use std::path::Path;

use super::super::input::Input;
use super::{document, pieces};

/// A secret that is good enough to be one. Any eleven characters of it hold a
/// [`PIECE`], so that part of it is found as well.
pub(super) const SECRET: &str = "qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec";
pub(super) const PIECE: &str = "qZ7v";
const PIECES: usize = 4;

/// The main file is one of these.
pub(super) const MAIN: &[&str] = &["main.toml", "main.json"];
pub(super) const BESIDE: &[&str] = &["conf.d/a.toml", "conf.d/b.json", "conf.d/c.toml"];

/// Lines that hold a secret under a name that says so.
const LINES: &[&str] = &[
    "db_password = \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\"",
    "parameters = { timezone = \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\" }",
    "parameters.timezone = \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\"",
    "[hosts.parameters]\ntimezone = 'qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec'",
    "\"parameters\": { \"timezone\": \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\" },",
    "\"password\":\n  \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\",",
    "\"api_token\"\n  : \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\",",
    "broker_key_file = \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec\"",
    "[api]\nadmin_key_file = \"qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec",
    "apiToken: qZ7v81hfqZ7vb3mdqZ7vw5xtqZ7v0gec",
];

/// What a slip of the finger or of an editor leaves behind.
const SLIPS: &[&str] = &[
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ":",
    ",",
    "#",
    "\n",
    "\r\n",
    "\\",
    "\\uD800",
    "null",
    "-1",
    "1e999",
    "0x1F",
    "99999999999999999999",
    "\"10s\"",
    "1979-05-27",
    "\u{feff}",
    "\u{202e}",
    "\u{1b}[2J",
    "\t",
    "é",
    "[broker]\n",
    "[[hosts]]\n",
    "a.b = 1\n",
    "\0",
];

const VARIABLES: &[&str] = &[
    "SESSIONGUARD_BROKER__LEASE_SECONDS",
    "SESSIONGUARD_BROKER__SCORE__MEMORY",
    "SESSIONGUARD_BROKER__UNMATCHED",
    "SESSIONGUARD_LISTEN__ADDRESS",
    "SESSIONGUARD_IDENTITY__ORDER",
    "SESSIONGUARD_LOG__LEVEL",
    "SESSIONGUARD_GUACD__TLS",
    "SESSIONGUARD_HOSTS__PORT",
    "SESSIONGUARD_NOBODY",
    "SESSIONGUARD_API__LISTEN",
    "SESSIONGUARD_API__ADMIN_KEY_FILE",
];

pub(super) struct Case {
    /// The main one first.
    pub(super) files: Vec<(&'static str, Vec<u8>)>,
    /// Which sources of secrets there are beside the files.
    given: u8,
    pub(super) variable: Option<(&'static str, String)>,
    /// Whether all that looks like a secret was put there as one.
    pub(super) is_telling: bool,
}

impl Case {
    pub(super) fn read(input: &[u8]) -> Self {
        let mut input = Input::new(input);
        let (kind, given) = (input.byte(), input.byte());
        let planted = input.byte();
        let line = input.number();
        let variable = (given & 0x10 != 0).then(|| (input.one_of(VARIABLES), input.text()));
        let mut secrets = 0;
        let mut files = match kind % 4 {
            0 => vec![(MAIN[0], input.rest().to_vec())],
            1 => vec![(MAIN[1], input.rest().to_vec())],
            2 => {
                let (first, second) = (input.number(), input.number());
                vec![
                    (MAIN[0], input.bytes(first).to_vec()),
                    (BESIDE[0], input.bytes(second).to_vec()),
                    (BESIDE[1], input.rest().to_vec()),
                ]
            }
            _ => made_up(&mut input, &mut secrets),
        };
        if let Some(secret) = LINES.get(usize::from(planted)) {
            let at = line % files.len();
            plant(&mut files[at].1, line, secret);
            secrets += 1;
        }
        let found: usize = files.iter().map(|(_, text)| pieces(text)).sum();
        let said = variable.iter().map(|(_, text)| pieces(text.as_bytes()));
        Self {
            is_telling: found == secrets * PIECES && said.sum::<usize>() == 0,
            files,
            given,
            variable,
        }
    }

    pub(super) fn environment(&self, folder: &Path) -> Vec<(OsString, OsString)> {
        let all = [
            ("SESSIONGUARD_BROKER_API_KEY", OsString::from(SECRET)),
            ("SESSIONGUARD_ADMIN_API_KEY", format!("{SECRET}2").into()),
            ("CREDENTIALS_DIRECTORY", folder.join("credentials").into()),
            ("SESSIONGUARD_API__BROKER_KEY_FILE", SECRET.into()),
        ];
        let given = all
            .into_iter()
            .enumerate()
            .filter_map(|(nth, (name, value))| {
                (self.given >> nth & 1 == 1).then(|| (name.into(), value))
            });
        let variable = self.variable.iter();
        let variable = variable.map(|(name, value)| ((*name).into(), value.into()));
        given.chain(variable).collect()
    }
}

/// Files made of the keys there are, some of them damaged afterwards.
fn made_up(input: &mut Input<'_>, secrets: &mut usize) -> Vec<(&'static str, Vec<u8>)> {
    let head = input.byte();
    let mut names = vec![MAIN[usize::from(head & 1)]];
    names.extend(&BESIDE[..usize::from(head >> 1 & 3)]);
    let mut files = Vec::new();
    for name in names {
        let changes = input.byte().saturating_sub(200) / 8;
        // A damaged line could give a secret another name.
        let with_secrets = changes == 0;
        let mut made = document::Made::new(input, with_secrets);
        let text = if name.ends_with("json") {
            made.json()
        } else {
            made.toml()
        };
        *secrets += made.secrets;
        let damaged = (0..changes).fold(text, |text, _| damaged(text, input));
        files.push((name, damaged.into_bytes()));
    }
    files
}

fn damaged(mut text: String, input: &mut Input<'_>) -> String {
    let (at, length) = (input.number(), input.byte());
    let from = boundary(&text, at % (text.len() + 1));
    let to = boundary(&text, (from + usize::from(length)).min(text.len()));
    match input.byte() % 4 {
        0 | 1 => text.insert_str(from, input.one_of(SLIPS)),
        2 => text.replace_range(from..to, ""),
        _ => {
            let again = text[from..to].to_owned();
            text.insert_str(to, &again);
        }
    }
    text
}

fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Puts a line in front of another.
fn plant(text: &mut Vec<u8>, line: usize, secret: &str) {
    let starts: Vec<_> = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .collect();
    let at = match line % (starts.len() + 1) {
        0 => 0,
        nth => starts[nth - 1].0 + 1,
    };
    let behind = text.split_off(at);
    text.extend(secret.as_bytes());
    text.push(b'\n');
    text.extend(behind);
}

/// A file as it is, with the secret of this number, if there is one, in a line.
pub(super) fn raw(is_json: bool, secret: u8, text: &[u8]) -> Vec<u8> {
    let head = [u8::from(is_json), 0, secret % 18, secret, 0];
    [&head[..], text].concat()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    // Whatever these bytes come to: many keys of every table.
    for seed in 0..24_u8 {
        let bytes = (1..400_u32).map(|nth| {
            let mixed = (nth + u32::from(seed) * 1_000).wrapping_mul(0x9E37_79B9);
            mixed.to_be_bytes()[1]
        });
        let bytes: Vec<u8> = bytes.collect();
        let given = if seed.is_multiple_of(4) { seed % 32 } else { 0 };
        let planted = if seed.is_multiple_of(3) {
            seed % 9
        } else {
            255
        };
        let head = [3, given, planted, seed, 0];
        seeds.push([&head[..], &bytes].concat());
    }
    let layered = b"[broker]\nlease_seconds = 60\n[[hosts]]\nid = \"h\"\naddress = \"h\"\nfarm_ids = [\"f\"]\n";
    let between = b"[broker]\ndefault_farm = \"f\"\n[guacd]\naddress = \"g:1\"\n";
    let last = b"{ \"farms\": [{ \"id\": \"f\" }], \"resources\": [{ \"id\": \"r\", \"kind\": \"desktop\" }] }";
    let sizes = [layered.len(), between.len()].map(|size| u16::try_from(size).unwrap());
    let mut seed = vec![2, 0, 255, 0, 0];
    seed.extend(sizes.map(u16::to_le_bytes).concat());
    seed.extend([&layered[..], between, last].concat());
    seeds.push(seed);
    seeds
}
