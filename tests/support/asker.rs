//! A program that asks the API over TCP, byte by byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::{Broker, DEADLINE};

/// Somebody with a key, at an address.
#[derive(Clone)]
pub(crate) struct Asker {
    to: SocketAddr,
    from: Ipv4Addr,
    key: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    /// The head, names in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asker {
    pub(crate) fn of(broker: &Broker) -> Self {
        let line = broker.wait("API ready", |_| true);
        Self::to(line["address"].as_str().unwrap().parse().unwrap())
    }

    pub(crate) fn to(address: SocketAddr) -> Self {
        Self {
            to: address,
            from: Ipv4Addr::LOCALHOST,
            key: None,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.to
    }

    pub(crate) fn with(&self, key: &str) -> Self {
        let key = Some(key.to_owned());
        Self {
            key,
            ..self.clone()
        }
    }

    /// From another address of this machine.
    pub(crate) fn at(&self, number: u8) -> Self {
        let from = Ipv4Addr::new(127, 0, 7, number);
        Self {
            from,
            ..self.clone()
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from((self.from, 0)).into())
            .unwrap();
        socket.connect(&self.to.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// The bytes of a request.
    pub(crate) fn request(&self, method: &str, path: &str, kind: &str, body: &str) -> Vec<u8> {
        let key = self.key.iter();
        let key = key.map(|key| format!("Authorization: Bearer {key}\r\n"));
        let key: String = key.collect();
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: elsewhere.example\r\n{key}\
             Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Told {
        self.send(&self.request(method, path, "application/json", body))
    }

    pub(crate) fn fill(&self, path: &str, form: &str) -> Told {
        let kind = "application/x-www-form-urlencoded";
        self.send(&self.request("POST", path, kind, form))
    }

    /// A heartbeat in the name of this host.
    pub(crate) fn report(&self, host: &str, body: &str) -> Told {
        let path = "/api/v1/agents/heartbeat";
        let request = self.request("POST", path, "application/json", body);
        let request = String::from_utf8(request).unwrap();
        let named = format!("\r\nX-Agent-ID: {host}\r\n");
        self.send(request.replacen("\r\n", &named, 1).as_bytes())
    }

    fn send(&self, request: &[u8]) -> Told {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        Told::read(&mut stream).expect("an answer")
    }
}

impl Told {
    /// The next answer; `None` where the connection ends before one.
    pub(crate) fn read(stream: &mut impl Read) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                // A request refused unread ends with a reset.
                _ => return None,
            }
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let mut told = Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: String::new(),
        };
        let length = told.header("content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        told.body = String::from_utf8(body).unwrap();
        Some(told)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}
