//! The commands of every host: asked for, delivered, answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{debug, info, warn};

use super::command::{Command, CommandId, Outcome};
use super::order::{Order, OrderError};
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
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Documents>,
    clock: Clock,
    known: Mutex<Known>,
    /// Held while a command is looked for, written, and put in its place.
    ordering: tokio::sync::Mutex<()>,
}

type Known = BTreeMap<CommandId, Command>;

/// A command that is waiting now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
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
    Order(#[from] OrderError),
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
                ordering: tokio::sync::Mutex::default(),
            }),
        })
    }

    /// Has a host's agent told to do something. What waits already is not asked
    /// for twice.
    ///
    /// # Errors
    /// It cannot be asked for, or not be written down; nothing is asked then.
    pub async fn order(
        &self,
        host: &HostId,
        order: Order,
        by: String,
    ) -> Result<Ordered, CommandError> {
        let inner = &self.inner;
        let expires = order.check()?;
        let _ordering = inner.ordering.lock().await;
        let now = inner.clock.now();
        let command = Command {
            id: CommandId::mint(),
            host: host.clone(),
            kind: order.kind,
            target: order.target,
            message: order.message,
            ordered_at: now,
            ordered_by: by,
            expires_at: now + expires,
            delivered_at: None,
            outcome: None,
        };
        {
            let known = inner.lock();
            let pending = known
                .values()
                .filter(|known| known.host == *host && known.is_pending(now));
            let pending: Vec<_> = pending.collect();
            if let Some(same) = pending.iter().find(|known| known.is_like(&command)) {
                return Ok(Ordered {
                    command: (*same).clone(),
                    is_new: false,
                });
            }
            if pending.len() >= WAITING {
                return Err(CommandError::TooMany { host: host.clone() });
            }
        }
        let over = inner.over(host, now);
        let mut edits: Vec<_> = over.iter().map(|id| edit(id, None, None)).collect();
        edits.push(edit(
            &command.id,
            Some(Version::ABSENT),
            Some(written(&command)?),
        ));
        inner.store.edit(edits, true).await?;
        let mut known = inner.lock();
        for id in over {
            known.remove(&id);
        }
        known.insert(command.id.clone(), command.clone());
        Ok(Ordered {
            command,
            is_new: true,
        })
    }

    /// What a host's agent is to be told now, the oldest first.
    pub fn deliver(&self, host: &HostId) -> Vec<Command> {
        let now = self.inner.clock.now();
        let mut known = self.inner.lock();
        let pending = known
            .values_mut()
            .filter(|command| command.host == *host && command.is_pending(now));
        let told = pending.map(|command| {
            command.delivered_at.get_or_insert(now);
            command.clone()
        });
        told.collect()
    }

    /// Takes over what a host's agent says of commands; returns those of which
    /// nothing was known before.
    pub async fn answered(&self, host: &HostId, results: &[CommandResult]) -> Vec<Command> {
        let inner = &self.inner;
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
        let edits = news.iter().filter_map(|command| {
            let text = written(command).ok()?;
            Some(edit(&command.id, None, Some(text)))
        });
        let edits: Vec<_> = edits.collect();
        if !edits.is_empty()
            && let Err(error) = inner.store.edit(edits, true).await
        {
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
                ordered_by = command.ordered_by,
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
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands that need not be remembered for longer: old ones of every host,
    /// and of this one those beyond the last so many.
    fn over(&self, host: &HostId, now: Timestamp) -> Vec<CommandId> {
        let known = self.lock();
        let past = known.values().rev().filter(|c| !c.is_pending(now));
        let mut of_host = 0;
        let over = past.filter(|command| {
            of_host += usize::from(command.host == *host);
            let surplus = command.host == *host && of_host > PAST;
            surplus || now.since(command.ended_at()) > KEPT
        });
        over.map(|command| command.id.clone()).collect()
    }
}

fn written(command: &Command) -> Result<String, StoreError> {
    serde_json::to_string(command).map_err(|error| StoreError::Failed {
        reason: error.to_string(),
    })
}

fn edit(id: &CommandId, expected: Option<Version>, text: Option<String>) -> Edit {
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
