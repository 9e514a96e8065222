//! A scripted agent: posts heartbeats as a host would.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{DEADLINE, Site};

/// An agent of one host.
pub(crate) struct ScriptedAgent {
    socket: PathBuf,
    pub(crate) host: String,
    pub(crate) boot: String,
    pub(crate) seq: u64,
    /// What differs from a healthy, idle host.
    pub(crate) differs: Value,
}

impl ScriptedAgent {
    pub(crate) fn of(site: &Site, host: &str) -> Self {
        Self {
            socket: site.store().with_extension("sock"),
            host: host.to_owned(),
            boot: format!("first start of {host}"),
            seq: 0,
            differs: json!({}),
        }
    }

    /// Its next heartbeat, not sent yet.
    pub(crate) fn next(&mut self, sessions: &[Value]) -> Value {
        self.seq += 1;
        let mut body = json!({
            "protocol_version": 4,
            "agent_id": self.host,
            "boot_id": self.boot,
            "seq": self.seq,
            "server": {
                "hostname": self.host.to_uppercase(), "os": "Windows", "uptime_seconds": 100,
                "memory_total": 1000, "memory_available": 900, "cpu_percent": 1.0,
            },
            "health": { "score": 100, "rdp_listener_ok": true, "checks": [] },
            "sessions": sessions,
            "time": now(),
        });
        for (name, value) in self.differs.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    /// Sends a body in its own name.
    pub(crate) fn send(&self, body: &str) -> (u16, Value) {
        self.send_as(&self.host, body)
    }

    /// Sends a body in that name.
    pub(crate) fn send_as(&self, name: &str, body: &str) -> (u16, Value) {
        let head = format!("X-Agent-ID: {name}\r\n");
        post(&self.socket, "/api/v1/agents/heartbeat", &head, body)
    }

    /// Reports these sessions, which must be taken for news; what it is told.
    pub(crate) fn reports(&mut self, sessions: &[Value]) -> Value {
        let body = self.next(sessions);
        let (status, told) = self.send(&body.to_string());
        assert_eq!(
            (status, &told["taken"]),
            (200, &Value::Bool(true)),
            "{told}"
        );
        told
    }
}

/// A new key of that role; of an agent's, for which host.
pub(crate) fn new_key(site: &Site, role: &str, host: Option<&str>) -> String {
    let socket = site.store().with_extension("sock");
    let wanted = json!({ "role": role, "host": host }).to_string();
    let (status, made) = post(&socket, "/api/v1/keys", "", &wanted);
    assert_eq!(status, 200, "{made}");
    made["key"].as_str().unwrap().to_owned()
}

/// What the admin socket answers: status and body.
fn post(socket: &Path, path: &str, head: &str, body: &str) -> (u16, Value) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // One that is too large is not read to its end.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Now, as agents write it.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// A session that was used until so many seconds ago.
pub(crate) fn session(user: &str, state: &str, seconds: i64) -> Value {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    json!({
        "id": user, "state": state, "user": user, "domain": "",
        "logon_at": at.to_string(), "connect_at": at.to_string(),
    })
}
