//! One case: what guacd announces, what Guacamole answers, what is configured.

use std::collections::{BTreeMap, BTreeSet};

use sessionguard::placement::{RemoteApp, ResourceKind};

use super::super::input::Input;
use super::super::stream::{fits_guacamole, fits_guacd, written as wire};
use super::EXTRA;

/// A hostname that names the resource.
pub(super) const SELECTOR: &str = "sessionguard:resource=desk";

/// Names that mean something to the broker, or might be taken for one that does.
const NAMES: &[&str] = &[
    "hostname",
    "port",
    "username",
    "password",
    "domain",
    "remote-app",
    "remote-app-dir",
    "remote-app-args",
    "client-name",
    "initial-program",
    "load-balance-info",
    "console",
    "cert-fingerprints",
    "gateway-hostname",
    "gateway-port",
    "preconnection-id",
    "wol-mac-addr",
    "timezone",
    "locale",
    "width",
    EXTRA,
    "Hostname",
    "",
    "host name",
    "client-nam\u{e9}",
];

/// What a configuration lets host and resource set.
const SETTABLE: &[&str] = &[
    "client-name",
    "gateway-hostname",
    "gateway-port",
    "console",
    "timezone",
    "locale",
    "width",
    "initial-program",
    "load-balance-info",
    "cert-fingerprints",
    "wol-mac-addr",
];

const TEXTS: &[&str] = &[
    "",
    SELECTOR,
    "${SESSIONGUARD_HOST}",
    "${SESSIONGUARD_AGENT_ID}",
    "${SESSIONGUARD_RESOURCE_ID}",
    "${SESSIONGUARD_REMOTE_APP}",
    "${SESSIONGUARD_REMOTE_APP_DIR}",
    "${SESSIONGUARD_REMOTE_APP_ARGS}",
    "${SESSIONGUARD_",
    "${SESSIONGUARD_HOST",
    "${GUAC_USERNAME}",
    "${",
    "}",
    "desk",
    "sessionguard:",
    "desk.example.test",
    "3.foo,",
    ";",
    "7.connect;",
    "u\u{308}",
    "\u{1f600}",
    "CORP\\ann",
    "ann@corp.example",
    "VERSION_1_5_0",
    "a\0b",
];

pub(super) struct Case {
    pub(super) version: Option<String>,
    pub(super) names: Vec<String>,
    /// What is answered to a name; to others nothing.
    pub(super) answers: BTreeMap<String, String>,
    pub(super) login: Option<String>,
    pub(super) kind: ResourceKind,
    pub(super) of_host: BTreeMap<String, String>,
    pub(super) of_resource: BTreeMap<String, String>,
    pub(super) keep: BTreeSet<String>,
    /// Where Guacamole's words are cut.
    pub(super) cut: usize,
    /// Whether the hostname is the one that names the resource.
    is_named: bool,
}

impl Case {
    /// What is not needed comes first, in one byte each, and the names last: an
    /// empty input is a plain connection.
    pub(super) fn read(input: &[u8]) -> Self {
        let mut input = Input::new(input);
        let flags = input.byte();
        let kind = match flags & 3 {
            0 | 3 => ResourceKind::Desktop,
            1 => ResourceKind::AsConnected,
            _ => ResourceKind::RemoteApp(RemoteApp {
                alias: "||app".to_owned(),
                dir: text(&mut input),
                args: text(&mut input),
            }),
        };
        let version = (flags & 4 == 0).then(|| "VERSION_1_5_0".to_owned());
        let login = (flags & 8 != 0).then(|| text(&mut input));
        let is_named = flags & 16 == 0;
        let cut = input.number();
        let keep = names(&mut input, NAMES);
        let of_host = values(&mut input);
        let of_resource = values(&mut input);
        let missing = input.byte();
        let mut names: Vec<_> = (NAMES[..8].iter().enumerate())
            .filter(|(bit, _)| missing >> bit & 1 == 0)
            .map(|(_, name)| (*name).to_owned())
            .collect();
        let mut answers = BTreeMap::new();
        if flags & 32 != 0 {
            answers.insert(EXTRA.to_owned(), text(&mut input));
        }
        for name in &names {
            answers.insert(name.clone(), text(&mut input));
        }
        while !input.is_over() && names.len() < 140 {
            let name = match input.byte() {
                0 => input.text(),
                at => NAMES[usize::from(at) % NAMES.len()].to_owned(),
            };
            // One in the place of the version would be the version.
            if name.starts_with("VERSION_") {
                continue;
            }
            answers.insert(name.clone(), text(&mut input));
            // By the last bit of the flags, new names come first.
            let at = if flags & 128 == 0 { names.len() } else { 0 };
            names.insert(at, name);
        }
        if is_named {
            answers.insert("hostname".to_owned(), SELECTOR.to_owned());
        }
        Self {
            version,
            names,
            answers,
            login,
            kind,
            of_host,
            of_resource,
            keep,
            cut,
            is_named,
        }
    }

    pub(super) fn answer(&self, name: &str) -> &str {
        self.answers.get(name).map_or("", String::as_str)
    }

    /// What stands in guacd's `args`.
    pub(super) fn announced(&self) -> Vec<&str> {
        let names = self.version.iter().chain(&self.names);
        names.map(String::as_str).collect()
    }

    /// What Guacamole says to `args`, the settings included.
    pub(super) fn speech(&self, shown: &[String]) -> Vec<u8> {
        let is_version = |name: &str| Some(name) == self.version.as_deref();
        let values = shown.iter().map(String::as_str).map(|name| match name {
            "VERSION_1_5_0" => name,
            name if is_version(name) => name,
            name => self.answer(name),
        });
        let connect: Vec<_> = std::iter::once("connect").chain(values).collect();
        let mut speech = wire(&["size", "1024", "768", "96"]);
        speech.extend(self.login.iter().flat_map(|login| wire(&["name", login])));
        speech.extend(wire(&connect));
        speech
    }

    /// Nothing is wrong with this case on either side of the broker.
    pub(super) fn must_be_placed(&self, expected: &[String]) -> bool {
        let unique: BTreeSet<_> = self.names.iter().collect();
        let has = |name: &str| self.names.iter().any(|known| known == name);
        let needs: &[&str] = match self.kind {
            ResourceKind::RemoteApp(_) => &NAMES[4..8],
            _ => &[],
        };
        let needs = needs.iter().filter(|name| **name != "domain");
        let mut shown = self.announced();
        let args = [&["args"], &shown[..]].concat();
        let is_widened = !has(EXTRA) && {
            let wider = [&args[..], &[EXTRA]].concat();
            fits_guacamole(&wider)
        };
        if is_widened {
            shown.push(EXTRA);
        }
        let shown: Vec<_> = shown.into_iter().map(str::to_owned).collect();
        let speech = self.speech(&shown);
        let answers = shown.iter().map(|name| self.answer(name));
        let sound = |text: &str| !text.contains('\0') && text.chars().count() <= 8_192;
        let connect: Vec<_> = expected.iter().map(String::as_str).collect();
        let connect = [&["connect"], &connect[..]].concat();
        self.is_named
            && unique.len() == self.names.len()
            && has("hostname")
            && has("port")
            && needs.into_iter().all(|name| has(name))
            && fits_guacamole(&args)
            && speech.len() < 65_000
            && answers.chain(self.login.as_deref()).all(sound)
            && (!shown.iter().any(|name| name == EXTRA)
                || matches!(self.answer(EXTRA).trim(), "" | "desk"))
            && self
                .login
                .as_deref()
                .is_none_or(|login| fits_guacd(&["name", login]))
            && fits_guacd(&connect)
    }
}

fn text(input: &mut Input<'_>) -> String {
    let how = input.byte();
    match how {
        0..=191 => TEXTS[usize::from(how) % TEXTS.len()].to_owned(),
        192..=239 => input.text(),
        240..=251 => (0..how % 4 + 2).map(|_| input.one_of(TEXTS)).collect(),
        _ => input.text().repeat(64),
    }
}

fn names(input: &mut Input<'_>, among: &[&str]) -> BTreeSet<String> {
    let count = input.byte() % 4;
    let names = (0..count).map(|_| input.one_of(among).to_owned());
    names.collect()
}

/// A configuration has no NUL in it.
fn values(input: &mut Input<'_>) -> BTreeMap<String, String> {
    let names = names(input, SETTABLE);
    let values = names
        .into_iter()
        .map(|name| (name, text(input).replace('\0', "")));
    values.collect()
}

/// How many kinds of seed a recording gives.
pub(super) const VARIANTS: u8 = 4;

/// A case with these names and values, the version first, as [`Case::read`]
/// reads it: a desktop, as connected, a RemoteApp; and one that names nothing.
pub(super) fn written(variant: u8, pairs: &[(&String, &String)]) -> Vec<u8> {
    let plain = |text: &str| {
        let length = text.len().min(255);
        let text = &text.as_bytes()[..length];
        [&[200, u8::try_from(length).unwrap()], text].concat()
    };
    let mut seed = vec![if variant == 3 { 16 } else { variant }];
    if variant == 2 {
        seed.extend([plain("C:\\app"), plain("/q ${SESSIONGUARD_HOST}")].concat());
    }
    // Cut at byte 9; nothing is kept, the host sets one parameter, the resource none.
    seed.extend([9, 0, 0, 1, 5]);
    seed.extend(plain("Europe/Berlin"));
    seed.extend([0, 0]);
    let value = |name: &str| pairs.iter().find(|(known, _)| *known == name);
    for name in &NAMES[..8] {
        seed.extend(plain(value(name).map_or("", |(_, value)| value)));
    }
    for (name, value) in pairs.iter().skip(1) {
        if !NAMES[..8].contains(&name.as_str()) {
            seed.extend([0, u8::try_from(name.len()).unwrap()]);
            seed.extend(name.as_bytes());
            seed.extend(plain(value));
        }
    }
    seed
}
