//! What must outlive the agent: since when sessions are what they are, which
//! commands were carried out, and results the broker has not acknowledged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::write_private;
use super::moment;
use super::sessions::{ProcessKey, Seen};
use super::wire::{CommandKind, CommandResult};
use crate::clock::rfc3339;
use crate::placement::Timestamp;

/// Commands remembered; far more than a broker can have under way at once.
const REMEMBERED: usize = 1000;

/// The agent's memory, and the file it is kept in.
#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    kept: Kept,
    /// What is in the file.
    written: Option<Vec<u8>>,
    /// Held as long as we run.
    _lock: File,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    boot_id: String,
    sessions: BTreeMap<String, Since>,
    /// Oldest first.
    commands: Vec<String>,
    /// Those begun whose end nobody has told.
    #[serde(default)]
    under_way: Vec<UnderWay>,
    results: Vec<CommandResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UnderWay {
    id: String,
    kind: String,
}

/// Since when a session is what it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Since {
    pub(super) connected: Option<Timestamp>,
    pub(super) disconnected: Option<Timestamp>,
}

/// Why there is no memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Another agent has it.
    #[error("another agent runs with the state file {}: give each its own with state_file", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be kept there.
    #[error("the state file {}: {error}; set state_file in agent.toml", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl Memory {
    /// Takes up what was left. What cannot be read as a memory is forgotten;
    /// what is of another start of the system is, too, save for commands and
    /// results: a restart is a command.
    ///
    /// # Errors
    /// Another agent has it, or the file cannot be kept there.
    pub(super) fn open(path: &Path, boot_id: &str) -> Result<Self, MemoryError> {
        let failed = |error| MemoryError::File {
            path: path.to_owned(),
            error,
        };
        let lock = lock(path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(MemoryError::InUse { path: path.into() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut kept = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice::<Kept>(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(failed(error)),
        };
        let restarted = kept.boot_id != boot_id;
        if restarted {
            kept.sessions.clear();
            boot_id.clone_into(&mut kept.boot_id);
        }
        for command in std::mem::take(&mut kept.under_way) {
            kept.results.push(broken_off(command, restarted));
        }
        let mut memory = Self {
            path: path.to_owned(),
            kept,
            written: None,
            _lock: lock,
        };
        memory.save().map_err(failed)?;
        Ok(memory)
    }

    /// Notes what was seen. `began` is when a session's connection began, where
    /// that is known.
    pub(super) fn observe(
        &mut self,
        seen: &[Seen],
        now: Timestamp,
        began: impl Fn(&Seen) -> Option<Timestamp>,
    ) {
        let mut sessions = BTreeMap::new();
        for session in seen {
            let before = self.since(session);
            let connected = if session.connected {
                let known = before.connected.filter(|_| before.disconnected.is_none());
                began(session).or(known).or(Some(now))
            } else {
                before.connected
            };
            let since = Since {
                connected,
                disconnected: (!session.connected).then(|| before.disconnected.unwrap_or(now)),
            };
            sessions.insert(name(session.leader), since);
        }
        self.kept.sessions = sessions;
    }

    /// Since when a session is what it is.
    pub(super) fn since(&self, session: &Seen) -> Since {
        let since = self.kept.sessions.get(&name(session.leader));
        since.copied().unwrap_or_default()
    }

    /// This command was begun before.
    pub(super) fn knows(&self, command: &str) -> bool {
        self.kept.commands.iter().any(|known| known == command)
    }

    /// Remembers that a command is begun; in the file, so that it is not begun
    /// twice whatever happens.
    ///
    /// # Errors
    /// It cannot be written down; it must not be begun then.
    pub(super) fn begin(&mut self, command: &str, kind: &str) -> io::Result<()> {
        self.kept.under_way.push(UnderWay {
            id: command.to_owned(),
            kind: kind.to_owned(),
        });
        self.kept.commands.push(command.to_owned());
        let surplus = self.kept.commands.len().saturating_sub(REMEMBERED);
        self.kept.commands.drain(..surplus);
        let saved = self.save();
        if saved.is_err() {
            self.kept.commands.pop();
            self.kept.under_way.pop();
        }
        saved
    }

    /// Keeps a result until it is acknowledged.
    pub(super) fn finish(&mut self, result: CommandResult) {
        self.kept.under_way.retain(|begun| begun.id != result.id);
        self.kept.results.push(result);
        let surplus = self.kept.results.len().saturating_sub(REMEMBERED);
        self.kept.results.drain(..surplus);
    }

    /// Results the broker has not acknowledged.
    pub(super) fn results(&self) -> &[CommandResult] {
        &self.kept.results
    }

    /// The broker has the first so many results.
    pub(super) fn acknowledge(&mut self, count: usize) {
        self.kept
            .results
            .drain(..count.min(self.kept.results.len()));
    }

    /// Writes down what changed since the last time.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&self.kept)?;
        if self.written.as_ref() != Some(&bytes) {
            write_private(&self.path, &bytes)?;
            self.written = Some(bytes);
        }
        Ok(())
    }
}

/// What came of a command that the agent's own end interrupted: a restart of
/// the host that came to pass, or nobody knows.
fn broken_off(command: UnderWay, restarted: bool) -> CommandResult {
    let restart = serde_json::from_value(command.kind.clone().into()).ok();
    let ok = restarted && restart == Some(CommandKind::RestartServer);
    let message = if ok {
        "the host restarted"
    } else {
        "the agent ended in the middle of it: whether it was done is not known"
    };
    CommandResult {
        id: command.id,
        kind: command.kind,
        ok,
        message: message.to_owned(),
        finished_at: rfc3339(moment::now()),
    }
}

/// A file beside it: the memory's own is replaced at every writing.
fn lock(path: &Path) -> io::Result<File> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.with_file_name(name))
}

fn name(leader: ProcessKey) -> String {
    format!("{}-{}", leader.pid, leader.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn session(connected: bool) -> Seen {
        Seen {
            leader: ProcessKey {
                pid: 12,
                started: 99,
            },
            display: 10,
            uid: 1,
            manager: None,
            connected,
            carrier: None,
        }
    }

    fn result(id: &str) -> CommandResult {
        CommandResult {
            id: id.into(),
            kind: "logoff".into(),
            ok: true,
            message: "1 session".into(),
            finished_at: "2026-11-30T00:00:00.000Z".into(),
        }
    }

    #[test]
    fn times_are_those_of_the_change_and_outlive_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/agent.json");
        let mut memory = Memory::open(&path, "boot-1").unwrap();
        let see = |memory: &mut Memory, connected, now| {
            memory.observe(&[session(connected)], at(now), |_| None);
            let since = memory.since(&session(connected));
            (since.connected, since.disconnected)
        };
        assert_eq!(see(&mut memory, true, 10), (Some(at(10)), None));
        assert_eq!(see(&mut memory, true, 20), (Some(at(10)), None));
        assert_eq!(see(&mut memory, false, 30), (Some(at(10)), Some(at(30))));
        memory.save().unwrap();
        drop(memory);
        let mut memory = Memory::open(&path, "boot-1").unwrap();
        assert_eq!(see(&mut memory, false, 40), (Some(at(10)), Some(at(30))));
        assert_eq!(see(&mut memory, true, 50), (Some(at(50)), None));
        memory.observe(&[session(true)], at(60), |_| Some(at(45)));
        assert_eq!(
            memory.since(&session(true)).connected,
            Some(at(45)),
            "the connection's own start"
        );
        memory.observe(&[], at(70), |_| None);
        assert_eq!(memory.since(&session(true)), Since::default());
    }

    #[test]
    fn commands_and_results_outlive_a_restart_of_the_host_and_sessions_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.json");
        let mut memory = Memory::open(&path, "boot-1").unwrap();
        memory.observe(&[session(false)], at(1), |_| None);
        memory.begin("c1", "logoff").unwrap();
        memory.finish(result("c1"));
        memory.save().unwrap();
        drop(memory);
        let mut memory = Memory::open(&path, "boot-2").unwrap();
        assert!(memory.knows("c1") && !memory.knows("c2"));
        assert_eq!(memory.results().len(), 1);
        assert_eq!(memory.since(&session(false)), Since::default());
        memory.acknowledge(1);
        assert!(memory.results().is_empty());
        for number in 0..=REMEMBERED {
            memory.kept.commands.push(number.to_string());
        }
        memory.begin("last", "logoff").unwrap();
        assert_eq!(memory.kept.commands.len(), REMEMBERED);
        assert!(memory.knows("last") && !memory.knows("c1"));
    }

    #[test]
    fn a_command_that_was_interrupted_has_a_result_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.json");
        let mut told = Vec::new();
        for (boot, next) in [("boot-1", "boot-1"), ("boot-1", "boot-2")] {
            let mut memory = Memory::open(&path, boot).unwrap();
            memory.begin("r", "restart_server").unwrap();
            memory.begin("l", "logoff").unwrap();
            drop(memory);
            let mut memory = Memory::open(&path, next).unwrap();
            told.extend(memory.results().iter().map(|r| (r.id.clone(), r.ok)));
            memory.acknowledge(2);
            memory.save().unwrap();
        }
        let expected = [("r", false), ("l", false), ("r", true), ("l", false)];
        assert_eq!(told, expected.map(|(id, ok)| (id.to_owned(), ok)));
        let memory = Memory::open(&path, "boot-2").unwrap();
        assert!(memory.results().is_empty(), "told once");
    }

    #[test]
    fn two_agents_do_not_share_a_memory_and_rubbish_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.json");
        let first = Memory::open(&path, "b").unwrap();
        let second = Memory::open(&path, "b").unwrap_err();
        assert!(matches!(second, MemoryError::InUse { .. }), "{second}");
        drop(first);
        std::fs::write(&path, "{ rubbish").unwrap();
        assert!(Memory::open(&path, "b").unwrap().results().is_empty());
    }
}
