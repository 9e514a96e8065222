//! Secrets that are found again, whatever form they leave in and however little of them.

use aws_lc_rs::digest::{SHA256, digest};

/// Letters that no form changes.
const PLAIN: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes of a secret that are looked for at least; fewer may come together by chance.
pub(super) const PIECE: usize = 8;

/// A secret text, the same in every run and like nothing else. What is quoted, escaped and cut by
/// somebody stands in its middle.
pub(super) fn password(of: &str) -> String {
    let letters = plain(of, 32);
    format!(
        "{}\"{}\\&{}%/{}ü <{}",
        &letters[..9],
        &letters[9..14],
        &letters[14..18],
        &letters[18..23],
        &letters[23..]
    )
}

/// One for a header.
pub(super) fn key(of: &str) -> String {
    plain(of, 40)
}

fn plain(of: &str, length: usize) -> String {
    let mut text = String::new();
    for round in 0_u8.. {
        let bytes = digest(&SHA256, format!("canary {round} {of}").as_bytes());
        let letters = bytes.as_ref().iter();
        text.extend(letters.map(|byte| char::from(PLAIN[usize::from(*byte) % PLAIN.len()])));
        if text.len() >= length {
            break;
        }
    }
    text.truncate(length);
    text
}

/// What is looked for: pieces of secrets in every form, and what each is a piece of.
pub(super) struct Search {
    /// In groups by their first two bytes.
    pieces: Vec<Vec<(Vec<u8>, usize)>>,
    names: Vec<String>,
}

impl Search {
    pub(super) fn new() -> Self {
        Self {
            pieces: vec![Vec::new(); 1 << 16],
            names: Vec::new(),
        }
    }

    /// Looks for this secret, too.
    pub(super) fn add(&mut self, name: &str, secret: &[u8]) {
        let text = std::str::from_utf8(secret).ok();
        let whole = [("", secret.to_vec())];
        let texts = text.map(|text| {
            let quoted = serde_json::to_string(text).unwrap();
            let escaped = text.escape_default().to_string();
            [
                (" in JSON", quoted.trim_matches('"').as_bytes().to_vec()),
                (" escaped", escaped.into_bytes()),
                (" as bytes", secret.escape_ascii().to_string().into_bytes()),
                (" in percents", percent(secret, false)),
                (" as a form", percent(secret, true)),
            ]
        });
        for (form, bytes) in whole.into_iter().chain(texts.into_iter().flatten()) {
            self.pieces_of(&format!("{name}{form}"), &bytes, PIECE);
        }
        for (form, bytes) in [
            (" in hexadecimal", hex(secret, false)),
            (" in upper-case hexadecimal", hex(secret, true)),
        ] {
            self.pieces_of(&format!("{name}{form}"), &bytes, 2 * PIECE);
        }
        for (form, zero_first) in [(" in UTF-16", false), (" in UTF-16, turned", true)] {
            let Some(text) = text else { continue };
            let units = text.encode_utf16();
            let bytes = units.flat_map(|unit| match zero_first {
                true => unit.to_be_bytes(),
                false => unit.to_le_bytes(),
            });
            self.pieces_of(
                &format!("{name}{form}"),
                &bytes.collect::<Vec<_>>(),
                2 * PIECE,
            );
        }
        // As it stands where so many bytes before it have been written.
        for before in 0..3 {
            let inner = base64(secret, before);
            self.pieces_of(&format!("{name} in base64"), &inner, PIECE * 4 / 3);
        }
    }

    /// Every piece of so many bytes.
    fn pieces_of(&mut self, name: &str, bytes: &[u8], length: usize) {
        assert!(
            bytes.len() >= length,
            "{name} is too short to be looked for"
        );
        self.names.push(name.to_owned());
        let name = self.names.len() - 1;
        for piece in bytes.windows(length) {
            let group = &mut self.pieces[first_two(piece)];
            if !group.iter().any(|(known, _)| known == piece) {
                group.push((piece.to_vec(), name));
            }
        }
    }

    /// What is found in some bytes, each once, and where first.
    pub(super) fn found(&self, bytes: &[u8]) -> Vec<(&str, usize)> {
        let mut found: Vec<(&str, usize)> = Vec::new();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= PIECE) {
            for (piece, name) in &self.pieces[first_two(rest)] {
                let name = self.names[*name].as_str();
                if rest.starts_with(piece) && !found.iter().any(|(known, _)| *known == name) {
                    found.push((name, at));
                }
            }
            at += 1;
        }
        found
    }

    /// What is found in some bytes, each with what stands around it.
    pub(super) fn shown(&self, place: &str, bytes: &[u8]) -> Vec<String> {
        let found = self.found(bytes).into_iter();
        let around = found.map(|(name, at)| {
            let around = &bytes[at.saturating_sub(120)..bytes.len().min(at + 60)];
            format!("{name} in {place}: {}", String::from_utf8_lossy(around))
        });
        around.collect()
    }
}

fn first_two(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}

/// As in a URL, or in a form.
pub(super) fn percent(bytes: &[u8], is_form: bool) -> Vec<u8> {
    let escaped = bytes.iter().map(|byte| match byte {
        b' ' if is_form => "+".to_owned(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect::<String>().into_bytes()
}

fn hex(bytes: &[u8], is_upper: bool) -> Vec<u8> {
    let digits = bytes.iter().map(|byte| match is_upper {
        true => format!("{byte:02X}"),
        false => format!("{byte:02x}"),
    });
    digits.collect::<String>().into_bytes()
}

/// Those characters that these bytes alone decide, behind so many others.
fn base64(bytes: &[u8], before: usize) -> Vec<u8> {
    let mut padded = vec![0; before];
    padded.extend(bytes);
    let bit = |at: usize| usize::from(padded[at / 8] >> (7 - at % 8) & 1);
    let sextets = padded.len() * 8 / 6;
    let first = (before * 8).div_ceil(6);
    let letter = |nth: usize| (0..6).fold(0, |value, at| value << 1 | bit(nth * 6 + at));
    (first..sextets).map(|nth| BASE64[letter(nth)]).collect()
}

#[test]
fn a_secret_is_found_in_every_form_and_in_part() {
    let secret = password("of the search itself");
    let mut search = Search::new();
    search.add("it", secret.as_bytes());
    assert_eq!(search.found(b"nothing that is one, over and over"), []);
    let bytes = secret.as_bytes();
    // By the tools that others use.
    let made = |program: &str, arguments: &[&str]| {
        use std::io::Write;
        let mut command = std::process::Command::new(program);
        let piped = std::process::Stdio::piped;
        let command = command.args(arguments).stdin(piped()).stdout(piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    let json = serde_json::json!([secret]).to_string().into_bytes();
    let form = form_urlencoded::byte_serialize(bytes).collect::<String>();
    for (form, text) in [
        ("it", bytes[..PIECE].to_vec()),
        ("it", bytes[bytes.len() - PIECE..].to_vec()),
        ("it in JSON", json),
        (
            "it escaped",
            secret.escape_default().to_string().into_bytes(),
        ),
        (
            "it as bytes",
            secret.as_bytes().escape_ascii().to_string().into_bytes(),
        ),
        ("it as a form", form.into_bytes()),
        (
            "it in hexadecimal",
            made("od", &["-An", "-v", "-w200", "-tx1"])
                .into_iter()
                .filter(|byte| *byte != b' ')
                .collect(),
        ),
        ("it in UTF-16", made("iconv", &["-t", "UTF-16LE"])),
        ("it in UTF-16, turned", made("iconv", &["-t", "UTF-16BE"])),
        ("it in base64", made("base64", &["-w0"])),
    ] {
        let shown = [&b"Something "[..], &text, b" behind it"].concat();
        let names: Vec<_> = search
            .found(&shown)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert!(names.contains(&form), "{form}: {names:?}");
    }
}
