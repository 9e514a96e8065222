//! The broker's API as an agent meets it: keeps what came, answers as told.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::eventually;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut headers = self.headers.iter();
        let found = headers.find(|(header, _)| header == name);
        found.map_or("", |(_, value)| value)
    }

    /// The sessions of a report: user and state.
    pub(crate) fn sessions(&self) -> Vec<(String, String)> {
        let sessions = self.body["sessions"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        sessions
            .map(|session| (text(&session["user"]), text(&session["state"])))
            .collect()
    }
}

#[derive(Default)]
struct Desk {
    asked: Vec<Asked>,
    answers: VecDeque<(u16, Value)>,
}

/// A scripted API on a port that the system chose.
pub(crate) struct ScriptedApi {
    address: SocketAddr,
    desk: Arc<Mutex<Desk>>,
}

impl ScriptedApi {
    pub(crate) fn up() -> Self {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// One that comes up where nobody was.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self::on(eventually("the port is free", || {
            TcpListener::bind(address).ok()
        }))
    }

    fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let desk = Arc::new(Mutex::new(Desk::default()));
        let behind = Arc::clone(&desk);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let desk = Arc::clone(&behind);
                // A caller that hangs up in between asked nothing.
                thread::spawn(move || attend(stream, &desk));
            }
        });
        Self { address, desk }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next answer, after those already set; without one there are no commands.
    pub(crate) fn answer(&self, status: u16, body: Value) {
        self.desk.lock().unwrap().answers.push_back((status, body));
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.desk.lock().unwrap().asked.clone()
    }

    /// The first request, of those behind the first so many, that fits.
    pub(crate) fn wait_after(
        &self,
        count: usize,
        what: &str,
        fits: impl Fn(&Asked) -> bool,
    ) -> Asked {
        eventually(what, || {
            let asked = self.asked();
            asked.into_iter().skip(count).find(&fits)
        })
    }

    pub(crate) fn wait(&self, what: &str, fits: impl Fn(&Asked) -> bool) -> Asked {
        self.wait_after(0, what, fits)
    }
}

fn attend(stream: TcpStream, desk: &Mutex<Desk>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        }
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).ok()?;
    let line = line.trim_end().to_owned();
    let (status, answer) = {
        let mut desk = desk.lock().unwrap();
        desk.asked.push(Asked {
            line,
            headers,
            body,
        });
        let next = desk.answers.pop_front();
        next.unwrap_or((
            200,
            json!({"server_time": "2026-11-30T08:00:00Z", "commands": []}),
        ))
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    (&stream)
        .write_all(format!("{head}{answer}").as_bytes())
        .ok()
}
