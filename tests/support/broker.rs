//! The real binary, started with a configuration of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::{DEADLINE, eventually};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_sessionguard");

/// A folder with a configuration and a store.
pub(crate) struct Site {
    folder: TempDir,
    /// Parts of the configuration that differ from test to test.
    parts: Vec<String>,
    pub(crate) guacd: SocketAddr,
    pub(crate) listen: String,
    pub(crate) level: &'static str,
    /// How many files and sockets the broker may have open.
    pub(crate) descriptors: Option<u32>,
    /// What a shell does in a mount namespace of the broker's own before it starts there; root's.
    pub(crate) mounting: Option<String>,
    variables: Vec<(&'static str, String)>,
}

/// A line of the log.
pub(crate) type Line = Value;

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<Line>>,
    grown: Condvar,
}

/// A running broker.
pub(crate) struct Broker {
    child: Child,
    log: Arc<Log>,
    address: SocketAddr,
    store: PathBuf,
    /// Its tasks are made to panic.
    panics: bool,
}

impl Site {
    pub(crate) fn new(guacd: SocketAddr) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            parts: Vec::new(),
            guacd,
            listen: "address = \"127.0.0.1:0\"".to_owned(),
            level: "info",
            descriptors: None,
            mounting: None,
            variables: Vec::new(),
        }
    }

    /// More TOML; settings given again replace earlier ones.
    #[must_use]
    pub(crate) fn with(mut self, toml: impl Into<String>) -> Self {
        self.parts.push(toml.into());
        self
    }

    /// Replaces the first part that was given.
    pub(crate) fn change_first(&mut self, toml: String) {
        self.parts[0] = toml;
    }

    /// A variable of the broker's environment.
    #[must_use]
    pub(crate) fn knowing(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// A setting of the listener.
    #[must_use]
    pub(crate) fn listening(mut self, line: &str) -> Self {
        self.listen = format!("{}\n{line}", self.listen);
        self
    }

    /// Where all its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store.redb")
    }

    /// Writes the configuration anew.
    pub(crate) fn write(&self) -> PathBuf {
        let main = self.folder.path().join("sessionguard.toml");
        let text = format!(
            "[log]\nformat = \"json\"\nlevel = \"{}\"\n[store]\npath = {:?}\n\
             [guacd]\naddress = \"{}\"\n[probe]\ninterval = \"1s\"\ntimeout = \"1s\"\n\
             [health]\nlisten = \"127.0.0.1:0\"\n[api]\nlisten = \"127.0.0.1:0\"\n\
             [[listen]]\n{}\n",
            self.level,
            self.store(),
            self.guacd,
            self.listen
        );
        std::fs::write(&main, text).unwrap();
        let more = self.folder.path().join("conf.d");
        std::fs::create_dir_all(&more).unwrap();
        for (index, part) in self.parts.iter().enumerate() {
            std::fs::write(more.join(format!("{index:02}.toml")), part).unwrap();
        }
        main
    }

    /// Starts a broker that must come up.
    pub(crate) fn start(&self) -> Broker {
        Broker::start(self.serving(), self.store())
    }

    /// The command that starts a broker, with its configuration written anew.
    pub(crate) fn serving(&self) -> Command {
        let config = self.write();
        let mut command = match (self.descriptors, &self.mounting) {
            (None, None) => command(&["serve"], &config),
            (descriptors, mounting) => {
                // Who is at a limit of `limit_files` shall hear of it, not end.
                let limit = descriptors.map(|count| format!("trap '' XFSZ; ulimit -n {count};"));
                let script = format!(
                    "set -e; {} {} exec \"$0\" serve --config \"$1\"",
                    mounting.as_deref().unwrap_or_default(),
                    limit.unwrap_or_default()
                );
                let mut shell = match mounting {
                    None => Command::new("sh"),
                    Some(_) => Command::new("unshare"),
                };
                shell.args(mounting.iter().flat_map(|_| ["--mount", "sh"]));
                shell.arg("-c").arg(script).arg(BINARY).arg(config);
                shell
            }
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts a broker that takes over from the one that runs there, once it has.
    pub(crate) fn take_over(&self) -> Broker {
        let mut broker = self.succeed();
        broker.wait("Took over", |_| true);
        broker.listens();
        broker
    }

    /// The same, not waited for.
    pub(crate) fn succeed(&self) -> Broker {
        let mut command = command(&["serve", "--take-over"], &self.write());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Broker::begin(command, self.store())
    }

    /// Runs the binary until it ends by itself.
    pub(crate) fn run(arguments: &[&str], config: &Path) -> Output {
        let mut child = command(arguments, config)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let until = Instant::now() + DEADLINE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                child.kill().unwrap();
                panic!("{arguments:?} does not end");
            }
            thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait_with_output().unwrap()
    }
}

fn command(arguments: &[&str], config: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg("--config").arg(config);
    command
}

impl Broker {
    pub(crate) fn start(command: Command, store: PathBuf) -> Self {
        let mut broker = Self::begin(command, store);
        broker.listens();
        broker
    }

    /// Waits until it listens.
    pub(crate) fn listens(&mut self) {
        let line = self.wait("Listening", |_| true);
        self.address = text(&line, "address").parse().unwrap();
    }

    /// A process that need not come up.
    fn begin(mut command: Command, store: PathBuf) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let (stderr, filled) = (child.stderr.take().unwrap(), Arc::clone(&log));
        thread::spawn(move || filled.fill(stderr));
        Self {
            child,
            log,
            address: ([127, 0, 0, 1], 0).into(),
            store,
            panics: false,
        }
    }

    /// From now on its tasks may panic; without this a panic fails the test.
    pub(crate) fn may_panic(&mut self) {
        self.panics = true;
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The first line with this message that fits, once it is there.
    pub(crate) fn wait(&self, message: &str, fits: impl Fn(&Line) -> bool) -> Line {
        let until = Instant::now() + DEADLINE;
        let mut lines = self.log.lines.lock().unwrap();
        loop {
            let found = lines.iter().find(|l| l["message"] == message && fits(l));
            if let Some(line) = found {
                return line.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "no line {message:?} that fits in {:#?}",
                *lines
            );
            lines = self.log.grown.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// The lines with this message, as far as they are there.
    pub(crate) fn lines(&self, message: &str) -> Vec<Line> {
        let lines = self.log.lines.lock().unwrap();
        lines
            .iter()
            .filter(|l| l["message"] == message)
            .cloned()
            .collect()
    }

    /// So many lines with this message, once they are there.
    pub(crate) fn wait_for_lines(&self, message: &str, count: usize) -> Vec<Line> {
        eventually(&format!("{count} times {message:?}"), || {
            Some(self.lines(message)).filter(|lines| lines.len() >= count)
        })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many files and sockets it has open. It lets nobody but root look: others
    /// have to believe it.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.id());
        match std::fs::read_dir(folder) {
            Ok(open) => open.count(),
            Err(_) => usize::try_from(self.figure("descriptors_open")).unwrap(),
        }
    }

    /// A figure of its metrics, one without labels.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let (_, page) = self.health("/metrics");
        let start = format!("sessionguard_{name} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&start));
        let whole = line.expect(name).split('.').next();
        whole.unwrap().parse().unwrap()
    }

    /// Everything said so far.
    pub(crate) fn said(&self) -> Vec<Line> {
        self.log.lines.lock().unwrap().clone()
    }

    /// What it told of connections: its messages without those of its start and
    /// of its hosts, which come when they come.
    pub(crate) fn told(&self) -> Vec<String> {
        const ELSE: [&str; 5] = [
            "API ready",
            "Health and metrics ready",
            "Host answers RDP",
            "Listening",
            "Room for tunnels",
        ];
        let said = self.said();
        let messages = said.iter().filter_map(|line| line["message"].as_str());
        let told = messages.filter(|message| !ELSE.contains(message));
        told.map(str::to_owned).collect()
    }

    /// The line of this user's placement.
    pub(crate) fn placed(&self, user: &str) -> Line {
        self.wait("Placed", |line| line["user"] == user)
    }

    /// The line of the end of the tunnel that another line speaks of.
    pub(crate) fn ended(&self, of: &Line) -> Line {
        let tunnel = &of["tunnel"];
        self.wait("Tunnel ended", |line| &line["tunnel"] == tunnel)
    }

    /// Where it is asked for health and metrics.
    pub(crate) fn health_address(&self) -> SocketAddr {
        let line = self.wait("Health and metrics ready", |_| true);
        text(&line, "address").parse().unwrap()
    }

    /// What it answers there: status and body.
    pub(crate) fn health(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.health_address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// No file may be written beyond so many bytes from now on. Only where the site limits
    /// descriptors, else it would end.
    pub(crate) fn limit_files(&self, bytes: &str) {
        let pid = format!("--pid={}", self.child.id());
        let limit = format!("--fsize={bytes}:unlimited");
        let status = Command::new("prlimit").args([pid, limit]).status();
        assert!(status.expect("util-linux's prlimit").success());
    }

    /// No more files and sockets may be open from now on.
    pub(crate) fn limit_descriptors(&self, count: &str) {
        let pid = format!("--pid={}", self.child.id());
        let limit = format!("--nofile={count}:");
        let status = Command::new("prlimit").args([pid, limit]).status();
        assert!(status.expect("util-linux's prlimit").success());
    }

    /// Sends a signal: `TERM`, `INT`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end of the process.
    pub(crate) fn exit(mut self) -> ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            let said = self.said();
            assert!(Instant::now() < until, "the broker does not end: {said:#?}");
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// No last words.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until a text is in the store's file, which is where a power cut would find it.
    pub(crate) fn wait_until_stored(&self, needle: &str) {
        eventually(&format!("{needle} stored"), || {
            let mut bytes = std::fs::read(&self.store).unwrap();
            // What was written last is in the journal beside it.
            let mut journal = self.store.clone().into_os_string();
            journal.push("-journal");
            bytes.extend(std::fs::read(journal).unwrap());
            let mut windows = bytes.windows(needle.len());
            windows
                .any(|window| window == needle.as_bytes())
                .then_some(())
        });
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Fails where the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let lines = self.log.lines.lock().unwrap_or_else(|e| e.into_inner());
        let panicked = lines
            .iter()
            .find(|line| line.to_string().contains(" panicked"))
            .filter(|_| !self.panics);
        if let (Some(line), false) = (panicked, thread::panicking()) {
            panic!("the broker: {line}");
        }
    }
}

impl Log {
    fn fill(&self, stderr: impl Read) {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
            self.lines.lock().unwrap().push(line);
            self.grown.notify_all();
        }
    }
}

/// A field that is text.
fn text<'a>(line: &'a Line, field: &str) -> &'a str {
    line[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} in {line}"))
}
