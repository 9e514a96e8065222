//! The commands of every host: asked for, delivered, answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{debug, info, warn};

use super::command::{Command, CommandId, Drain, Outcome};
use super::wish::{Wish, WishError};
use crate::clock::Clock;
use crate::fleet::CommandResult;
use crate::placement::{HostId, Timestamp};
use crate::store::{Documents, Edit, Kind, StoreError, Version};

/// Commands that may wait for one agent.
const WAITING: usize = 100;
/// Commands of one host that are remembered when they are over.
const PAST: usize = 100;
/// How long.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// Longest answer of an agent that is kept, in characters.
const TOLD: usize = 1000;

/// The commands of every host; clones are one.
#[derive(Clone)]
pub struct Commands {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) store: Arc<dyn Documents>,
    clock: Clock,
    known: Mutex<Known>,
    /// Other replicas hand out commands and hear of them as well.
    pub(super) shared: AtomicBool,
    /// Held while a command is looked for, written, and put in its place, and
    /// while what came of one is taken over: neither writes over the other.
    pub(super) writing: tokio::sync::Mutex<()>,
}

pub(super) type Known = BTreeMap<CommandId, Command>;

/// A command that is waiting now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The command.
    pub command: Command,
    /// It was not asked for before.
    pub is_new: bool,
}

/// Why there is no such command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It was asked for wrongly.
    #[error(transparent)]
    Wish(#[from] WishError),
    /// Its agent is not heard, or somebody asks without end.
    #[error("{WAITING} commands wait for the agent of {host} already")]
    TooMany {
        /// Whose agent.
        host: HostId,
    },
    /// It cannot be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Commands {
    /// Takes over the commands in the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(store: Arc<dyn Documents>, clock: Clock) -> Result<Self, StoreError> {
        let mut known = Known::new();
        for document in store.documents(Kind::Command).await? {
            match serde_json::from_str::<Command>(&document.text) {
                Ok(command) => drop(known.insert(command.id.clone(), command)),
                Err(error) => warn!(
                    command = document.id,
                    %error,
                    "A stored command cannot be read and is not carried out"
                ),
            }
        }
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                clock,
                known: Mutex::new(known),
                shared: AtomicBool::new(false),
                writing: tokio::sync::Mutex::default(),
            }),
        })
    }

    /// Has a host's agent told to do something. What waits already is not asked
    /// for twice. To be awaited to its end: one that is dropped in the middle may
    /// be on disk, and told after a restart.
    ///
    /// # Errors
    /// It cannot be asked for, or not be written down; nothing is asked then.
    pub async fn ask(&self, host: &HostId, wish: Wish, by: String) -> Result<Asked, CommandError> {
        self.ask_for(host, wish, by, None).await
    }

    /// The same for an order to restart a host when it is drained, of which
    /// only one comes.
    pub(super) async fn ask_for(
        &self,
        host: &HostId,
        wish: Wish,
        by: String,
        drain: Option<Drain>,
    ) -> Result<Asked, CommandError> {
        let inner = &self.inner;
        let expires = wish.check()?;
        let _writing = inner.writing.lock().await;
        if drain.is_some() {
            // Another replica may have heard the host a moment ago.
            self.catch_up().await?;
        }
        let before = drain.and_then(|drain| self.drained_by(host, drain.order));
        if let Some(command) = before {
            let is_new = false;
            return Ok(Asked { command, is_new });
        }
        let now = inner.clock.now();
        let command = Command {
            id: CommandId::mint(),
            host: host.clone(),
            kind: wish.kind,
            target: wish.target,
            message: wish.message,
            asked_at: now,
            asked_by: by,
            expires_at: now + expires,
            delivered_at: None,
            outcome: None,
            drain,
        };
        let same = {
            let known = inner.lock();
            let pending = known
                .values()
                .filter(|known| known.host == *host && known.is_pending(now));
            let pending: Vec<_> = pending.collect();
            let same = pending.iter().find(|known| known.is_like(&command));
            // One that an administrator asked for does for the order as well,
            // once that is written down.
            let same = same.map(|same| Command {
                drain: drain.or(same.drain),
                ..(*same).clone()
            });
            if same.is_none() && pending.len() >= WAITING {
                return Err(CommandError::TooMany { host: host.clone() });
            }
            same
        };
        let is_new = same.is_none();
        let command = same.unwrap_or(command);
        let over = inner.over(host, now);
        let mut edits: Vec<_> = over.iter().map(|id| edit(id, None, None)).collect();
        if is_new {
            let text = inner.written(&command)?;
            edits.push(edit(&command.id, Some(Version::ABSENT), Some(text)));
        } else if inner.is_shared() {
            inner.bring_up_to(&command).await?;
        } else {
            edits.push(edit(&command.id, None, Some(inner.written(&command)?)));
        }
        if !edits.is_empty() {
            inner.store.edit(edits, true).await?;
        }
        let mut known = inner.lock();
        for id in over {
            known.remove(&id);
        }
        let command = Command {
            // It may have been delivered while it was written.
            delivered_at: known.get(&command.id).and_then(|now| now.delivered_at),
            ..command
        };
        known.insert(command.id.clone(), command.clone());
        Ok(Asked { command, is_new })
    }

    /// The restart that was asked for by this order on the host's mode.
    pub(super) fn drained_by(&self, host: &HostId, order: Timestamp) -> Option<Command> {
        let known = self.inner.lock();
        let mut of_host = known.values().filter(|command| command.host == *host);
        let is_by = |command: &&Command| command.drain.is_some_and(|drain| drain.order == order);
        of_host.find(is_by).cloned()
    }

    /// What a host's agent is to be told now, the oldest first.
    pub fn deliver(&self, host: &HostId) -> Vec<Command> {
        let now = self.inner.clock.now();
        let mut known = self.inner.lock();
        let pending = known
            .values_mut()
            .filter(|command| command.host == *host && command.is_pending(now));
        let mut first = Vec::new();
        let told = pending.map(|command| {
            if command.delivered_at.is_none() {
                command.delivered_at = Some(now);
                first.push(command.clone());
            }
            command.clone()
        });
        let told = told.collect();
        drop(known);
        self.tell_delivered(first);
        told
    }

    /// Takes over what a host's agent says of commands; returns those of which
    /// nothing was known before.
    pub async fn answered(&self, host: &HostId, results: &[CommandResult]) -> Vec<Command> {
        if results.is_empty() {
            return Vec::new();
        }
        let inner = &self.inner;
        let _writing = inner.writing.lock().await;
        self.look_up(results).await;
        let now = inner.clock.now();
        let mut news = Vec::new();
        {
            let mut known = inner.lock();
            for result in results {
                let id = CommandId::from(result.id.as_str());
                let command = known.get_mut(&id).filter(|command| {
                    // An agent has nothing to say of another host's.
                    command.host == *host && command.outcome.is_none()
                });
                let Some(command) = command else {
                    debug!(%host, command = %id, "A result of no command that waits");
                    continue;
                };
                command.outcome = Some(Outcome {
                    ok: result.ok,
                    message: result.message.chars().take(TOLD).collect(),
                    at: now,
                });
                news.push(command.clone());
            }
        }
        if let Err(error) = inner.write_outcomes(&news).await {
            // After a restart it is delivered again, and not carried out again.
            warn!(%host, %error, "What came of commands was not stored");
        }
        for command in &news {
            let outcome = command.outcome.as_ref();
            info!(
                command = %command.id,
                kind = command.kind.word(),
                %host,
                ok = outcome.map(|outcome| outcome.ok),
                said = outcome.map(|outcome| outcome.message.as_str()),
                asked_by = command.asked_by,
                "Command answered"
            );
        }
        news
    }

    /// The host's commands, the newest first.
    pub fn of_host(&self, host: &HostId) -> Vec<Command> {
        let known = self.inner.lock();
        let of_host = known.values().rev();
        of_host
            .filter(|command| command.host == *host)
            .cloned()
            .collect()
    }
}

impl Inner {
    async fn write_outcomes(&self, news: &[Command]) -> Result<(), StoreError> {
        if self.is_shared() {
            for command in news {
                self.bring_up_to(command).await?;
            }
            return Ok(());
        }
        let edits = news.iter().map(|command| {
            let text = self.written(command)?;
            Ok(edit(&command.id, None, Some(text)))
        });
        let edits: Vec<_> = edits.collect::<Result<_, StoreError>>()?;
        if edits.is_empty() {
            return Ok(());
        }
        self.store.edit(edits, true).await.map(|_| ())
    }

    /// When it was delivered is for other replicas: after a restart it is
    /// delivered anew.
    pub(super) fn written(&self, command: &Command) -> Result<String, StoreError> {
        let delivered_at = command.delivered_at.filter(|_| self.is_shared());
        let command = Command {
            delivered_at,
            ..command.clone()
        };
        serde_json::to_string(&command).map_err(|error| StoreError::Failed {
            reason: error.to_string(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands that need not be remembered for longer: old ones of every host,
    /// and of this one those beyond the last so many. A host's last restart by
    /// an order on its mode is kept: the order may stand for long.
    fn over(&self, host: &HostId, now: Timestamp) -> Vec<CommandId> {
        let known = self.lock();
        let past = known.values().rev().filter(|c| !c.is_pending(now));
        let (mut of_host, mut restarted) = (0, BTreeSet::new());
        let over = past.filter(|command| {
            if command.drain.is_some() && restarted.insert(command.host.clone()) {
                return false;
            }
            of_host += usize::from(command.host == *host);
            let surplus = command.host == *host && of_host > PAST;
            surplus || now.since(command.ended_at()) > KEPT
        });
        over.map(|command| command.id.clone()).collect()
    }
}

pub(super) fn edit(id: &CommandId, expected: Option<Version>, text: Option<String>) -> Edit {
    Edit {
        kind: Kind::Command,
        id: id.as_str().to_owned(),
        expected,
        text,
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}
