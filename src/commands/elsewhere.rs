//! Commands that are asked for, handed out and answered at other replicas.

use std::sync::atomic::Ordering;

use tracing::{debug, warn};

use super::command::{Command, CommandId};
use super::queue::{Commands, Inner, Known, edit};
use crate::fleet::CommandResult;
use crate::store::{Document, Edited, Kind, StoreError};

/// How often it is tried again where another replica writes the same command.
const TRIES: usize = 8;
/// Results of commands that nothing is known of that are looked up at a time.
const LOOKED_UP: usize = 100;

impl Commands {
    /// Other replicas share the store: to be said before anything is asked.
    pub fn share(&self) {
        self.inner.shared.store(true, Ordering::Relaxed);
    }

    /// Takes over what was written of commands, by whomever; `None`: removed.
    pub fn follow(&self, told: Vec<(String, Option<Document>)>) {
        let mut known = self.inner.lock();
        for (id, document) in told {
            match document {
                Some(document) => merge(&mut known, &document),
                None => drop(known.remove(&CommandId::from(id.as_str()))),
            }
        }
    }

    /// What another replica was asked a moment ago.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        if self.inner.is_shared() {
            let documents = self.inner.store.documents(Kind::Command).await?;
            let mut known = self.inner.lock();
            documents
                .iter()
                .for_each(|document| merge(&mut known, document));
        }
        Ok(())
    }

    /// A result may be of a command that another replica handed out and that we
    /// have not been told of yet.
    pub(super) async fn look_up(&self, results: &[CommandResult]) {
        if !self.inner.is_shared() {
            return;
        }
        let ids = results.iter().map(|result| result.id.as_str());
        let unknown: Vec<_> = {
            let known = self.inner.lock();
            let unknown = ids.filter(|id| !known.contains_key(&CommandId::from(*id)));
            unknown.take(LOOKED_UP).collect()
        };
        for id in unknown {
            match self.inner.store.document(Kind::Command, id).await {
                Ok(Some(document)) => merge(&mut self.inner.lock(), &document),
                Ok(None) => {}
                Err(error) => debug!(command = id, %error, "A command cannot be looked up"),
            }
        }
    }

    /// Other replicas shall know that these were handed out. Should they not
    /// hear of it they hand them out again, and no agent carries them out again.
    pub(super) fn tell_delivered(&self, commands: Vec<Command>) {
        if commands.is_empty() || !self.inner.is_shared() {
            return;
        }
        let inner = self.inner.clone();
        tokio::spawn(async move {
            for command in &commands {
                if let Err(error) = inner.bring_up_to(command).await {
                    debug!(command = %command.id, %error, "That a command was delivered is not stored");
                }
            }
        });
    }
}

impl Inner {
    pub(super) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Adds what is known here of a command to what is stored of it.
    pub(super) async fn bring_up_to(&self, command: &Command) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let stored = self.store.document(Kind::Command, command.id.as_str());
            let Some(stored) = stored.await? else {
                // Forgotten meanwhile.
                return Ok(());
            };
            let mut merged = command.clone();
            if let Some(theirs) = read(&stored) {
                merged.add(&theirs);
                if merged == theirs {
                    return Ok(());
                }
            }
            let text = self.written(&merged)?;
            let edit = edit(&command.id, Some(stored.version), Some(text));
            if self.store.edit(vec![edit], true).await? == Edited::Done {
                return Ok(());
            }
        }
        Err(StoreError::Failed {
            reason: format!("other replicas wrote command {} each time", command.id),
        })
    }
}

impl Command {
    /// Takes over what another replica knows of it: the first answer counts, and
    /// the first delivery.
    fn add(&mut self, other: &Self) {
        let first = |one: &super::Outcome, other: &super::Outcome| other.at < one.at;
        match (&self.outcome, &other.outcome) {
            (Some(ours), Some(theirs)) if !first(ours, theirs) => {}
            (_, None) => {}
            (_, theirs) => self.outcome.clone_from(theirs),
        }
        self.delivered_at = match (self.delivered_at, other.delivered_at) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.drain = self.drain.or(other.drain);
    }
}

fn merge(known: &mut Known, document: &Document) {
    let Some(theirs) = read(document) else {
        warn!(
            command = document.id,
            "A stored command cannot be read and is not carried out"
        );
        return;
    };
    match known.get_mut(&theirs.id) {
        Some(ours) => ours.add(&theirs),
        None => drop(known.insert(theirs.id.clone(), theirs)),
    }
}

fn read(document: &Document) -> Option<Command> {
    serde_json::from_str(&document.text).ok()
}
