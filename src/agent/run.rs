//! The agent at work: looks at the sessions again and again, reports in time
//! and at once on a change, and carries out what comes back.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use uuid::Uuid;

use super::commands::{Verdict, judge, means};
use super::doing::Doing;
use super::figures::{Gauge, Space, space};
use super::health::{Findings, health};
use super::host::Host;
use super::http::HttpError;
use super::key::{Key, KeyError};
use super::memory::{Memory, MemoryError};
use super::report::{Named, began, session};
use super::sessions::{Picture, ProcessKey};
use super::settings::Settings;
use super::wire::{Answer, Command, CommandResult, Heartbeat, PROTOCOL_VERSION};
use super::{backoff, moment};
use crate::clock::rfc3339;
use crate::x224;

const HEARTBEAT: &str = "/api/v1/agents/heartbeat";
/// For the RDP port, and for the profile store, to answer.
const ANSWERS: Duration = Duration::from_secs(2);
/// How often a connection's name is looked for in the log before it is taken
/// to have none.
const NAME_TRIES: u8 = 3;
/// Longer ids are no broker's.
const ID: usize = 200;

/// A reporter that is ready to run.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    key: Key,
    host: Host,
    memory: Memory,
    gauge: Gauge,
    /// What came of asking the RDP port the last time.
    listener: Result<(), String>,
    /// A profile store that has not answered yet.
    waiting: Option<JoinHandle<Option<Space>>>,
    client_names: HashMap<ProcessKey, (u8, Option<String>)>,
    sequence: u64,
    /// The sessions as the broker knows them.
    told: Option<Vec<Told>>,
    /// The broker that answered last.
    server: usize,
    failures: u32,
    /// The memory could be written down the last time.
    kept: bool,
    /// User ids without a name; each is told once.
    nameless: HashSet<u32>,
    running: JoinSet<CommandResult>,
}

/// What makes two pictures of a session differ.
type Told = (ProcessKey, bool, Option<ProcessKey>);

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The agent's memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// xrdp's settings cannot be read.
    #[error("{}: {error}; where xrdp keeps its settings elsewhere, say so in [xrdp]", path.display())]
    Xrdp {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The kernel's view of the system cannot be read.
    #[error("{}: {error}; is this the system's /proc?", path.display())]
    Proc {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It could not see which sessions are connected.
    #[error("the agent must run as root: nobody else may see which sessions are connected")]
    NotRoot,
}

impl Agent {
    /// Reads key, memory and xrdp's settings.
    ///
    /// # Errors
    /// What keeps it from starting.
    pub fn build(settings: Settings) -> Result<Self, StartError> {
        if !nix::unistd::geteuid().is_root() && settings.proc.as_os_str() == "/proc" {
            return Err(StartError::NotRoot);
        }
        let key = Key::load(&settings.key_file, settings.agent_id.as_deref())?;
        let ini = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|error| StartError::Xrdp {
                path: path.clone(),
                error,
            })
        };
        let (xrdp, sesman) = (ini(&settings.xrdp_ini)?, ini(&settings.sesman_ini)?);
        let host = Host::new(&settings.proc, &xrdp, &sesman);
        let host = host.map_err(|error| StartError::Proc {
            path: settings.proc.clone(),
            error,
        })?;
        Ok(Self {
            memory: Memory::open(&settings.state_file, &host.boot_id)?,
            gauge: Gauge::new(&settings.proc),
            key,
            host,
            settings,
            listener: Ok(()),
            waiting: None,
            client_names: HashMap::new(),
            sequence: 0,
            told: None,
            server: 0,
            failures: 0,
            kept: true,
            nameless: HashSet::new(),
            running: JoinSet::new(),
        })
    }

    /// Runs until it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        info!(
            agent_id = self.key.agent_id(),
            servers = %self.settings.servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            commands = ?self.settings.commands,
            "Agent started"
        );
        stop.run_until_cancelled(self.report_for_ever()).await;
        info!("Agent stopped");
    }

    async fn report_for_ever(&mut self) {
        let (mut due, mut not_before) = (Instant::now(), Instant::now());
        let mut at_once = false;
        loop {
            let now = Instant::now();
            let timely = now >= due;
            let changed = self
                .look()
                .is_some_and(|(_, sessions)| self.told.as_ref() != Some(&told(&sessions)));
            if now >= not_before && (timely || changed || at_once) {
                if changed && !timely {
                    sleep(self.settings.debounce).await;
                }
                let wait = self.report(timely).await;
                at_once = false;
                due = now + backoff::jitter(self.settings.interval, dice());
                not_before = wait.map_or(now, |wait| Instant::now() + wait);
                due = due.max(not_before);
            }
            let again = sleep_until(Instant::now() + self.settings.poll);
            tokio::select! {
                () = again => {}
                Some(Ok(result)) = self.running.join_next() => {
                    info!(id = result.id, kind = result.kind, ok = result.ok, message = result.message, "Command done");
                    self.memory.finish(result);
                    self.keep();
                    at_once = true;
                }
            }
        }
    }

    /// The host, and its sessions as far as their users have names.
    fn look(&mut self) -> Option<(Picture, Vec<Named>)> {
        let picture = self.host.look();
        let picture = picture
            .inspect_err(|error| warn!(%error, "Processes cannot be listed"))
            .ok()?;
        let seen = picture.sessions();
        let host = &self.host;
        self.memory
            .observe(&seen, moment::now(), |session| began(host, session));
        self.keep();
        let mut sessions = Vec::with_capacity(seen.len());
        for seen in seen {
            match self.host.name(seen.uid) {
                Some(name) => sessions.push(Named {
                    seen,
                    name,
                    client_name: None,
                }),
                None if self.nameless.insert(seen.uid) => warn!(
                    uid = seen.uid,
                    display = seen.display,
                    "A session's user has no name on this system"
                ),
                None => {}
            }
        }
        Some((picture, sessions))
    }

    fn find_client_names(&mut self, sessions: &mut [Named]) {
        let carrier = |named: &Named| named.seen.carrier.map(|carrier| carrier.process);
        let alive: Vec<_> = sessions.iter().filter_map(carrier).collect();
        self.client_names
            .retain(|process, _| alive.contains(process));
        for named in sessions {
            let Some(process) = carrier(named) else {
                continue;
            };
            let (tries, name) = self.client_names.entry(process).or_default();
            if name.is_none() && *tries < NAME_TRIES {
                *tries += 1;
                *name = self.host.client_name(&named.seen);
            }
            named.client_name.clone_from(name);
        }
    }

    /// Reports once. Gives how long to wait after a failure.
    async fn report(&mut self, timely: bool) -> Option<Duration> {
        if timely || self.listener.is_err() {
            self.listener = self.ask_listener().await;
        }
        let profiles = self.profiles().await;
        // Not before all that takes time: sessions are as of now.
        let (picture, mut sessions) = self.look()?;
        self.find_client_names(&mut sessions);
        let figures = self.gauge.read(space(&self.settings.disk));
        let health = health(&Findings {
            listener: &self.listener,
            managed: picture.is_managed(),
            profiles,
            figures: &figures,
        });
        // Grows with the time the system runs, over every restart of the agent.
        self.sequence = self.host.uptime().max(self.sequence + 1);
        let results = self.memory.results().len();
        let heartbeat = Heartbeat {
            protocol_version: PROTOCOL_VERSION,
            agent_id: self.key.agent_id(),
            boot_id: &self.host.boot_id,
            seq: self.sequence,
            server: figures,
            health,
            sessions: sessions
                .iter()
                .map(|named| session(&self.host, &self.memory, named))
                .collect(),
            command_results: self.memory.results(),
            time: rfc3339(moment::now()),
        };
        let question = serde_json::json!(heartbeat).to_string().into_bytes();
        match self.send(&question).await {
            Ok(answer) => {
                if self.told.is_none() || self.failures > 0 {
                    info!(server = %self.current(), sessions = sessions.len(), "Heartbeat accepted");
                }
                debug!(sessions = sessions.len(), seq = self.sequence, "Reported");
                self.failures = 0;
                self.told = Some(told(&sessions));
                self.memory.acknowledge(results);
                self.take(answer, &sessions);
                self.keep();
                None
            }
            Err(error) => Some(self.failed(&error)),
        }
    }

    fn failed(&mut self, error: &HttpError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        if error.is_unauthorised() {
            let wait = backoff::jitter(backoff::HOPELESS, dice());
            error!(
                %error, retry_in = ?wait, agent_id = self.key.agent_id(),
                "The broker does not accept this host's key: enrol the host again with `sessionguard agent enroll`"
            );
            return wait;
        }
        let wait = backoff::after(self.failures, dice());
        warn!(%error, retry_in = ?wait, failures = self.failures, "Heartbeat failed");
        wait
    }

    /// Tries the brokers, the one that answered last first.
    async fn send(&mut self, question: &[u8]) -> Result<Value, HttpError> {
        let servers = &self.settings.servers;
        let mut outcome = None;
        for at in 0..servers.len() {
            let at = (self.server + at) % servers.len();
            let Some(server) = servers.get(at) else {
                continue;
            };
            let sent = server
                .post(HEARTBEAT, Some(&self.key), question.to_vec())
                .await;
            let decided = sent.is_ok() || sent.as_ref().is_err_and(HttpError::is_refusal);
            // The first failure is told: it is that of the broker we know.
            if decided {
                self.server = at;
                return sent;
            }
            outcome = outcome.or(Some(sent));
        }
        outcome.unwrap_or_else(|| {
            Err(HttpError::Slow {
                server: "no server".to_owned(),
            })
        })
    }

    fn current(&self) -> String {
        self.settings
            .servers
            .get(self.server)
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    async fn ask_listener(&self) -> Result<(), String> {
        let address = self.host.rdp.ok_or("xrdp.ini names no TCP port")?;
        let ask = async {
            let mut stream = TcpStream::connect(address).await?;
            x224::ask(&mut stream).await
        };
        match timeout(ANSWERS, ask).await {
            Ok(asked) => asked.map_err(|error| format!("{address}: {error}")),
            Err(_) => Err(format!("{address} does not answer")),
        }
    }

    /// The profile store's room; none where it does not answer in time. A dead
    /// network file system keeps whoever asks waiting, so only one does.
    async fn profiles(&mut self) -> Option<Space> {
        let path = self.settings.profile_store.clone();
        let asked = self.waiting.take();
        let mut asked = asked.unwrap_or_else(|| tokio::task::spawn_blocking(move || space(&path)));
        match timeout(ANSWERS, &mut asked).await {
            Ok(answered) => answered.ok().flatten(),
            Err(_) => {
                self.waiting = Some(asked);
                None
            }
        }
    }

    /// Writes the memory down; says it once where that cannot be done.
    fn keep(&mut self) {
        let kept = self.memory.save();
        if let Err(error) = &kept
            && self.kept
        {
            warn!(%error, state_file = %self.settings.state_file.display(), "The state file cannot be written");
        }
        self.kept = kept.is_ok();
    }

    /// Takes the commands of an answer.
    fn take(&mut self, answer: Value, sessions: &[Named]) {
        let answer: Answer = match serde_json::from_value(answer) {
            Ok(answer) => answer,
            Err(error) => {
                warn!(%error, "The broker's answer makes no sense");
                return;
            }
        };
        let now = answer.server_time.as_deref().and_then(moment::parse);
        let now = now.unwrap_or_else(moment::now);
        for command in answer.commands {
            let command: Command = match serde_json::from_value(command) {
                Ok(command) => command,
                Err(error) => {
                    warn!(%error, "A command makes no sense");
                    continue;
                }
            };
            if command.id.is_empty() || command.id.len() > ID {
                warn!(length = command.id.len(), "A command has no usable id");
            } else if self.memory.knows(&command.id) {
                debug!(id = command.id, "This command was begun before");
            } else {
                let mut verdict = judge(&command, &self.settings.commands, now);
                if let Err(error) = self.memory.begin(&command.id, &command.kind) {
                    warn!(%error, id = command.id, "A command cannot be remembered");
                    verdict = Verdict::Refuse(
                        "it could not be written down, so it might be carried out twice",
                    );
                }
                self.obey(command, verdict, sessions);
            }
        }
    }

    fn obey(&mut self, command: Command, verdict: Verdict, sessions: &[Named]) {
        let finish = {
            let (id, kind) = (command.id.clone(), command.kind.clone());
            move |outcome: Result<String, String>| CommandResult {
                id,
                kind,
                ok: outcome.is_ok(),
                message: outcome.unwrap_or_else(|error| error),
                finished_at: rfc3339(moment::now()),
            }
        };
        let kind = match verdict {
            Verdict::CarryOut(kind) => kind,
            Verdict::Refuse(why) => {
                self.running
                    .spawn(async move { finish(Err(why.to_owned())) });
                return;
            }
        };
        info!(id = command.id, kind = command.kind, "Command begun");
        let meant = sessions
            .iter()
            .filter(|named| means(&command.target, &named.seen, &named.name));
        let meant: Vec<_> = meant.cloned().collect();
        let doing = Doing {
            kind,
            settings: Arc::new(self.settings.clone()),
            text: command.message.unwrap_or_default().into(),
        };
        self.running
            .spawn(async move { finish(doing.all(meant).await) });
    }
}

fn told(sessions: &[Named]) -> Vec<Told> {
    let seen = sessions.iter().map(|named| &named.seen);
    seen.map(|seen| {
        (
            seen.leader,
            seen.connected,
            seen.carrier.map(|carrier| carrier.process),
        )
    })
    .collect()
}

fn dice() -> u128 {
    Uuid::new_v4().as_u128()
}
