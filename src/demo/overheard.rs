//! What passes the tap, as far as it may be shown: the instructions of a
//! handshake, parameters by name, and the values that say where a user is sent.
//!
//! Logins, users, passwords and all other values are never part of what is
//! shown. Reads copies: what it cannot follow still passes.

use std::fmt;

use guac_protocol::{Decoder, Instruction, Limits, ParameterNames, Parameters};
use tokio::sync::mpsc;

/// Parameters whose values may be shown: they say where a user is sent, and
/// none of them is secret.
const OPEN: [&str; 5] = [
    "hostname",
    "port",
    "remote-app",
    "remote-app-dir",
    "load-balance-info",
];

/// Settings whose values may be shown; `name` is the user's.
const PLAIN: [&str; 5] = ["size", "audio", "video", "image", "timezone"];

/// Something that passed, on the connection of this number.
pub(super) struct Overheard {
    pub(super) connection: u64,
    pub(super) what: What,
}

pub(super) enum What {
    /// An instruction that guacd was told, as it may be shown.
    Told(Told),
    /// guacd made the connection.
    Arrived(Arrival),
    /// The tap could not do or see something; the words for it.
    Trouble(String),
    /// Both ends have closed; bytes each way.
    Ended { to_guacd: u64, from_guacd: u64 },
}

/// One instruction of a handshake.
pub(super) struct Told {
    pub(super) opcode: String,
    /// What of it may be shown.
    pub(super) lines: Vec<String>,
}

/// What arrived with one `connect`. Not printable as a whole: it holds
/// passwords.
pub(super) struct Arrival {
    /// The protocol, or the id that was joined.
    pub(super) selected: String,
    /// The Guacamole login.
    pub(super) login: String,
    /// The id guacd gave this connection.
    pub(super) id: String,
    /// The instructions it came by, in order.
    pub(super) told: Vec<String>,
    /// Name and value, in guacd's order.
    pub(super) parameters: Vec<(String, String)>,
}

/// Follows one handshake.
pub(super) struct Listener {
    connection: u64,
    tell: mpsc::UnboundedSender<Overheard>,
    /// `None` once there is nothing more to hear.
    to_guacd: Option<Decoder>,
    from_guacd: Option<Decoder>,
    names: Option<ParameterNames>,
    arrival: Arrival,
}

impl Listener {
    pub(super) fn new(connection: u64, tell: mpsc::UnboundedSender<Overheard>) -> Self {
        Self {
            connection,
            tell,
            to_guacd: Some(Decoder::new(Limits::HANDSHAKE)),
            from_guacd: Some(Decoder::new(Limits::HANDSHAKE)),
            names: None,
            arrival: Arrival {
                selected: String::new(),
                login: String::new(),
                id: String::new(),
                told: Vec::new(),
                parameters: Vec::new(),
            },
        }
    }

    /// Hears bytes on their way to guacd, up to `connect`.
    pub(super) fn hear_request(&mut self, mut bytes: &[u8]) {
        while let Some(decoder) = &mut self.to_guacd {
            match next(decoder, &mut bytes) {
                Ok(Some(instruction)) => self.request(instruction),
                Ok(None) => return,
                Err(error) => {
                    self.to_guacd = None;
                    self.say(What::Trouble(format!("cannot be followed: {error}")));
                }
            }
        }
    }

    /// Hears bytes on their way from guacd, up to `ready`.
    pub(super) fn hear_answer(&mut self, mut bytes: &[u8]) {
        while let Some(decoder) = &mut self.from_guacd {
            match next(decoder, &mut bytes) {
                Ok(Some(instruction)) => self.answer(instruction),
                Ok(None) => return,
                Err(error) => {
                    self.from_guacd = None;
                    self.say(What::Trouble(format!("guacd cannot be followed: {error}")));
                }
            }
        }
    }

    pub(super) fn say(&self, what: What) {
        // Nobody listens any more once the demo is over.
        let _ = self.tell.send(Overheard {
            connection: self.connection,
            what,
        });
    }

    fn request(&mut self, instruction: Instruction) {
        let opcode = instruction.opcode().to_owned();
        self.arrival.told.push(opcode.clone());
        let lines = match opcode.as_str() {
            "select" => {
                self.arrival.selected = instruction.args().concat();
                vec![self.arrival.selected.clone()]
            }
            "name" => {
                self.arrival.login = instruction.args().concat();
                vec!["(the login, not shown)".to_owned()]
            }
            "connect" => {
                self.to_guacd = None;
                self.connect(instruction)
            }
            setting if PLAIN.contains(&setting) => vec![instruction.args().join(" ")],
            _ => vec![format!("({} values)", instruction.args().len())],
        };
        self.say(What::Told(Told { opcode, lines }));
    }

    fn connect(&mut self, instruction: Instruction) -> Vec<String> {
        let Some(names) = &self.names else {
            return vec!["(before guacd named its parameters)".to_owned()];
        };
        match Parameters::from_connect(names, instruction) {
            Ok(parameters) => {
                let value = |name| parameters.get(name).unwrap_or_default().to_owned();
                let named = names.iter().map(|name| (name.to_owned(), value(name)));
                self.arrival.parameters = named.collect();
                shown(&self.arrival.parameters)
            }
            Err(error) => vec![format!("({error})")],
        }
    }

    fn answer(&mut self, instruction: Instruction) {
        match instruction.opcode() {
            "args" => self.names = ParameterNames::from_args(instruction).ok(),
            "ready" => {
                self.from_guacd = None;
                let arrival = Arrival {
                    id: instruction.args().concat(),
                    selected: std::mem::take(&mut self.arrival.selected),
                    login: std::mem::take(&mut self.arrival.login),
                    told: std::mem::take(&mut self.arrival.told),
                    parameters: std::mem::take(&mut self.arrival.parameters),
                };
                self.say(What::Arrived(arrival));
            }
            _ => {}
        }
    }
}

/// The next whole instruction; what it took is cut off `bytes`.
fn next(
    decoder: &mut Decoder,
    bytes: &mut &[u8],
) -> Result<Option<Instruction>, guac_protocol::DecodeError> {
    let decoded = decoder.decode(bytes)?;
    *bytes = bytes.get(decoded.consumed..).unwrap_or_default();
    Ok(decoded.instruction)
}

/// Values that may be shown, and the names of the others that have one.
fn shown(parameters: &[(String, String)]) -> Vec<String> {
    let filled = parameters.iter().filter(|(_, value)| !value.is_empty());
    let is_open = |name: &str| OPEN.contains(&name);
    let open = filled.clone().filter(|(name, _)| is_open(name));
    let mut lines: Vec<_> = open
        .map(|(name, value)| format!("{name} = {}", Printable(value)))
        .collect();
    let others = Names::of(
        filled
            .map(|(name, _)| name.as_str())
            .filter(|n| !is_open(n)),
    );
    let empty = parameters.iter().filter(|(_, v)| v.is_empty()).count();
    lines.push(format!("values not shown: {others}; {empty} empty"));
    lines
}

/// Names in a row.
pub(super) struct Names(String);

impl Names {
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        Self(names.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { &self.0 })
    }
}

/// Text somebody typed, without what a terminal would obey.
pub(super) struct Printable<'a>(pub(super) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .try_for_each(|c| fmt::Write::write_char(f, c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGS: &[u8] =
        b"4.args,13.VERSION_1_5_0,8.hostname,4.port,8.username,8.password,10.remote-app;";
    const REQUEST: &[u8] = b"6.select,3.rdp;4.size,4.1024,3.768,2.96;4.name,5.login;\
        7.connect,13.VERSION_1_5_0,9.127.0.0.9,4.3389,4.anna,7.hunter2,0.;3.nop;";

    /// What is heard when the bytes come in pieces of this size.
    fn heard(piece: usize) -> (Vec<String>, Option<Arrival>) {
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut listener = Listener::new(1, tell);
        // guacd names its parameters after `select`.
        let (select, rest) = REQUEST.split_at(15);
        select.chunks(piece).for_each(|b| listener.hear_request(b));
        ARGS.chunks(piece).for_each(|b| listener.hear_answer(b));
        rest.chunks(piece).for_each(|b| listener.hear_request(b));
        b"5.ready,3.$id;4.sync,1.1;"
            .chunks(piece)
            .for_each(|b| listener.hear_answer(b));
        drop(listener);
        let (mut lines, mut arrival) = (Vec::new(), None);
        while let Ok(overheard) = told.try_recv() {
            match overheard.what {
                What::Told(told) => {
                    lines.push(format!("{} {}", told.opcode, told.lines.join(", ")))
                }
                What::Arrived(arrived) => arrival = Some(arrived),
                What::Trouble(text) => lines.push(text),
                What::Ended { .. } => {}
            }
        }
        (lines, arrival)
    }

    #[test]
    fn a_handshake_is_shown_without_login_user_and_password_however_it_is_cut() {
        for piece in [1, 7, 4096] {
            let (lines, arrival) = heard(piece);
            assert_eq!(
                lines,
                [
                    "select rdp",
                    "size 1024 768 96",
                    "name (the login, not shown)",
                    "connect hostname = 127.0.0.9, port = 3389, \
                     values not shown: username, password; 1 empty",
                ]
            );
            let arrival = arrival.unwrap();
            assert_eq!(
                (arrival.id.as_str(), arrival.login.as_str()),
                ("$id", "login")
            );
            assert_eq!(arrival.told, ["select", "size", "name", "connect"]);
            assert_eq!(arrival.parameters.len(), 5);
        }
    }

    #[test]
    fn what_is_no_handshake_is_said_once() {
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut listener = Listener::new(1, tell);
        listener.hear_request(b"GET / HTTP/1.1");
        listener.hear_request(b"\r\n");
        let first = told.try_recv().unwrap().what;
        assert!(matches!(first, What::Trouble(_)));
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn a_terminal_obeys_no_value() {
        assert_eq!(Printable("a\u{1b}[2Jb\n").to_string(), "a?[2Jb?");
    }
}
