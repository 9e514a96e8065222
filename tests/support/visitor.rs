//! A scripted Guacamole: one click on a connection.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use guac_protocol::Instruction;
use socket2::{Domain, Socket, Type};

use super::{Broker, Wire, tls};

/// What is clicked on, and what the connection's parameters are.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    select: String,
    answers: BTreeMap<String, String>,
    /// `None`: an older Guacamole, which sends no `name`.
    login: Option<String>,
    /// Whether the protocol version is answered.
    version: bool,
}

/// One connection of Guacamole's.
pub(crate) struct Visitor {
    pub(crate) wire: Wire,
    /// The elements behind `args`, as shown.
    pub(crate) shown: Vec<String>,
}

/// How a tunnel was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The id in our `ready`.
    pub(crate) id: String,
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Visit {
    /// An RDP connection that names the resource `office`.
    pub(crate) fn office(user: &str) -> Self {
        Self::rdp(user).answer("hostname", "sessionguard:resource=office")
    }

    /// An RDP connection of a user, to nowhere yet.
    pub(crate) fn rdp(user: &str) -> Self {
        let mut visit = Self::protocol("rdp");
        visit.login = Some(user.to_owned());
        visit
            .answer("username", user)
            .answer("password", "secret of the test")
    }

    pub(crate) fn protocol(name: &str) -> Self {
        Self {
            select: name.to_owned(),
            answers: BTreeMap::new(),
            login: Some("login".to_owned()),
            version: true,
        }
    }

    /// A join of a connection, with blank parameters.
    pub(crate) fn join(id: &str) -> Self {
        Self::protocol(id)
    }

    pub(crate) fn answer(mut self, name: &str, value: &str) -> Self {
        self.answers.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn login(mut self, login: Option<&str>) -> Self {
        self.login = login.map(str::to_owned);
        self
    }

    /// As pyguacamole, which knows of no versions.
    pub(crate) fn without_version(mut self) -> Self {
        self.version = false;
        self
    }

    /// `size` to `name`, in Guacamole's order.
    pub(crate) fn settings(&self) -> Vec<Instruction> {
        let mut settings = vec![
            Instruction::new("size", ["1024", "768", "96"]),
            Instruction::new("audio", ["audio/L8", "audio/L16"]),
            Instruction::new("video", <[&str; 0]>::default()),
            Instruction::new("image", ["image/jpeg", "image/png", "image/webp"]),
            Instruction::new("timezone", ["Europe/Berlin"]),
        ];
        settings.extend(
            self.login
                .iter()
                .map(|login| Instruction::new("name", [login])),
        );
        settings
    }

    /// What is answered to a name.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.answers.get(name).map_or("", String::as_str)
    }

    /// `connect`, answering what was shown.
    pub(crate) fn connect(&self, shown: &[String]) -> Instruction {
        let values = shown.iter().map(|name| {
            let is_version = name.starts_with("VERSION_") && self.version;
            if is_version { name } else { self.value(name) }
        });
        Instruction::new("connect", values.collect::<Vec<_>>())
    }

    /// Goes as far as `connect`.
    pub(crate) fn at(&self, broker: &Broker) -> Visitor {
        let mut visitor = Visitor::dial(broker.address());
        visitor.click(self);
        visitor
    }

    /// Goes through the handshake; how it is refused.
    pub(crate) fn refused_at(&self, broker: &Broker) -> Refusal {
        self.at(broker).refusal()
    }
}

impl Visitor {
    pub(crate) fn dial(address: SocketAddr) -> Self {
        Self {
            wire: Wire::new(TcpStream::connect(address).unwrap()),
            shown: Vec::new(),
        }
    }

    /// Takes in a few KiB and no more, until it reads.
    pub(crate) fn narrow(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        // The sender's buffer goes by that, too.
        socket.set_tcp_mss(536).unwrap();
        socket.connect(&address.into()).unwrap();
        Self {
            wire: Wire::new(socket.into()),
            shown: Vec::new(),
        }
    }

    /// Dials by TLS.
    pub(crate) fn secured(
        address: SocketAddr,
        client: &Arc<rustls::ClientConfig>,
        name: &str,
    ) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self {
            wire: Wire::over(stream, |under| tls::dial(under, client, name)),
            shown: Vec::new(),
        }
    }

    /// From `select` to `connect`.
    pub(crate) fn click(&mut self, visit: &Visit) {
        self.select(&visit.select);
        self.read_args();
        for setting in visit.settings() {
            self.wire.say(&setting).unwrap();
        }
        let connect = visit.connect(&self.shown);
        self.wire.say(&connect).unwrap();
    }

    pub(crate) fn select(&mut self, what: &str) {
        self.wire.say(&Instruction::new("select", [what])).unwrap();
    }

    pub(crate) fn read_args(&mut self) {
        self.shown = self.hear("args").into_args();
    }

    /// Reads `ready`; the id in it.
    pub(crate) fn ready(&mut self) -> String {
        self.hear("ready").into_args().remove(0)
    }

    /// Reads `ready`, `error`, `disconnect` and the end.
    pub(crate) fn refusal(mut self) -> Refusal {
        let id = self.ready();
        assert!(id.starts_with('$') && id.len() == 37, "an id: {id}");
        let (code, text) = self.farewell();
        Refusal { id, code, text }
    }

    /// Reads `error`, `disconnect` and the end; the code and the text.
    pub(crate) fn farewell(&mut self) -> (u16, String) {
        let mut error = self.hear_past_nops("error").into_args();
        assert_eq!(error.len(), 2);
        let code = error.remove(1).parse().unwrap();
        self.hear("disconnect");
        self.end();
        (code, error.remove(0))
    }

    /// The stream ends here, in good order.
    pub(crate) fn end(&mut self) {
        let rest = self.wire.rest().expect("an end without a reset");
        assert_eq!(String::from_utf8_lossy(&rest), "", "nothing more");
    }

    /// A page that is kept awake may hear so much more.
    pub(crate) fn hear_past_nops(&mut self, opcode: &str) -> Instruction {
        loop {
            let heard = self.wire.instruction().unwrap();
            let heard = heard.unwrap_or_else(|| panic!("the end in place of {opcode}"));
            if heard.opcode() != "nop" {
                assert_eq!(heard.opcode(), opcode, "{:?}", heard.args());
                return heard;
            }
        }
    }

    pub(crate) fn hear(&mut self, opcode: &str) -> Instruction {
        let heard = self.wire.instruction();
        let heard = heard.unwrap_or_else(|error| panic!("{error} in place of {opcode}"));
        let heard = heard.unwrap_or_else(|| panic!("the end in place of {opcode}"));
        assert_eq!(heard.opcode(), opcode, "{:?}", heard.args());
        heard
    }
}
