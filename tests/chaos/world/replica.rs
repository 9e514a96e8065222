//! The process of a replica: started again whenever it has ended, as a service manager would.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::files::{Files, role};
use crate::chaos::history::{History, Moment, Replica, What};
use crate::support::BINARY;
use crate::support::postgres::PASSWORD;

/// Between the end of a process that could not start and the next start.
const AGAIN: Duration = Duration::from_millis(500);

/// What was written so lately may not be what a line of the log speaks of.
const SETTLED: Duration = Duration::from_secs(2);

/// Bytes of a log that are kept; half an hour at two lines a click is a fraction of it.
const LOG_BYTES: u64 = 256 << 20;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) replica: Replica,
    pub(super) files: Files,
    history: Arc<History>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pid: Option<Pid>,
    /// Where Guacamole reaches it.
    address: Option<SocketAddr>,
    /// It was killed, and for how long it is to stay away.
    killed: Option<Duration>,
    stopping: bool,
    /// Lines of the log by their message.
    said: BTreeMap<String, u64>,
    panics: Vec<String>,
    /// The last lines of a process that did not come up.
    last_words: String,
}

impl Process {
    pub(super) fn start(files: Files, replica: Replica, history: &Arc<History>) -> Arc<Self> {
        let process = Arc::new(Self {
            replica,
            files,
            history: Arc::clone(history),
            state: Mutex::default(),
        });
        let kept = Arc::clone(&process);
        thread::spawn(move || kept.keep());
        process
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.state.lock().unwrap().address
    }

    pub(super) fn last_words(&self) -> String {
        self.state.lock().unwrap().last_words.clone()
    }

    /// No last words; it is started again after a while.
    pub(super) fn kill(&self, down: Duration) {
        let mut state = self.state.lock().unwrap();
        let Some(pid) = state.pid else {
            return;
        };
        state.killed = Some(down);
        state.address = None;
        let replica = self.replica;
        self.history.note(What::Killed { replica });
        let _ = kill(pid, Signal::SIGKILL);
    }

    pub(super) fn stand_still(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(super) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.state.lock().unwrap().pid {
            // One that has just ended hears nothing.
            let _ = kill(pid, signal);
        }
    }

    /// How often each message was logged, and every panic.
    pub(super) fn said(&self) -> (BTreeMap<String, u64>, Vec<String>) {
        let state = self.state.lock().unwrap();
        (state.said.clone(), state.panics.clone())
    }

    /// Ends it for good.
    pub(super) fn end(&self) {
        let mut state = self.state.lock().unwrap();
        state.stopping = true;
        if let Some(pid) = state.pid {
            let _ = kill(pid, Signal::SIGCONT);
            let _ = kill(pid, Signal::SIGKILL);
        }
    }

    fn keep(&self) {
        let mut log = Log::new(self.files.path().join("log.jsonl"));
        loop {
            let began = Moment::now();
            let Some(mut child) = self.spawn() else {
                return;
            };
            let stderr = child.stderr.take().unwrap();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                self.hear(&line, began);
                log.keep(&line);
            }
            let how = child.wait().unwrap();
            let mut state = self.state.lock().unwrap();
            state.pid = None;
            let was_up = state.address.take().is_some();
            if state.stopping {
                return;
            }
            let pause = state.killed.take();
            drop(state);
            if pause.is_none() && was_up {
                let (replica, how) = (self.replica, how.to_string());
                self.history.note(What::Died { replica, how });
            }
            thread::sleep(pause.unwrap_or(AGAIN));
        }
    }

    fn spawn(&self) -> Option<Child> {
        let mut state = self.state.lock().unwrap();
        if state.stopping {
            return None;
        }
        let child = Command::new(BINARY)
            .args(["serve", "--config"])
            .arg(self.files.main())
            .env("SESSIONGUARD_DATABASE_PASSWORD", PASSWORD)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        state.pid = Some(Pid::from_raw(child.id().try_into().unwrap()));
        state.last_words.clear();
        Some(child)
    }

    fn hear(&self, line: &str, began: Moment) {
        let replica = self.replica;
        let told: Value = serde_json::from_str(line).unwrap_or_default();
        let message = told["message"].as_str().unwrap_or("(no line of the log)");
        let mut state = self.state.lock().unwrap();
        *state.said.entry(message.to_owned()).or_default() += 1;
        if line.contains("panicked at") {
            state.panics.push(format!("replica {replica}: {line}"));
        }
        match message {
            "Listening" => {
                state.address = told["address"].as_str().unwrap().parse().ok();
                self.history.note(What::Up { replica });
                if self.files.last_written() < began {
                    self.history.note(What::Applied { replica });
                }
            }
            "Configuration applied" if self.files.last_written().plus(SETTLED) < Moment::now() => {
                self.history.note(What::Applied { replica });
            }
            _ if state.address.is_none() && state.last_words.len() < 4000 => {
                state.last_words.push_str(line);
                state.last_words.push('\n');
            }
            _ => {}
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The log in a file, for whoever looks into a violation.
struct Log {
    file: File,
    room: u64,
}

impl Log {
    fn new(path: std::path::PathBuf) -> Self {
        Self {
            file: File::create(path).unwrap(),
            room: LOG_BYTES,
        }
    }

    fn keep(&mut self, line: &str) {
        let length = u64::try_from(line.len()).unwrap();
        if let Some(left) = self.room.checked_sub(length) {
            self.room = left;
            writeln!(self.file, "{line}").unwrap();
        }
    }
}

/// The roles that replicas come as.
pub(super) fn roles() -> impl Iterator<Item = String> {
    (0..crate::chaos::plan::REPLICAS).map(role)
}
