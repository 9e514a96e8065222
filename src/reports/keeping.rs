//! What hosts said last, on disk: written by one task, so that no heartbeat
//! waits for it, and read at the start.
//!
//! Who is there is on disk soon, since returning users go by it; load alone is
//! written once a minute, and lost with the power it costs nothing. In a store
//! that replicas share each report is written once, since the others place by
//! it too, many together and [`SHARED`] late at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::intake::{Intake, Kept};
use crate::clock::Clock;
use crate::placement::{HostId, Timestamp};
use crate::store::{Document, Documents, Edit, Edited, Kind, StoreError, Version};

/// Between two writings of a host where nobody came or went.
const PAUSE: Duration = Duration::from_secs(60);
/// How long a report waits for others before it is written for other replicas.
const SHARED: Duration = Duration::from_millis(200);
/// How often a host is tried again that other replicas write as well.
const TRIES: u32 = 4;
/// Before a writing that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Hosts written at a time.
const TOGETHER: usize = 100;
/// How long a host that is not configured is remembered.
const FORGOTTEN: Duration = Duration::from_secs(30 * 86_400);

/// When each host is to be written; at most one entry a host.
#[derive(Debug, Default)]
pub(super) struct Due {
    at: BTreeMap<HostId, Writing>,
    written: BTreeMap<HostId, Timestamp>,
    /// Other replicas read it.
    shared: bool,
}

/// When a host is written, and how.
#[derive(Debug, Clone, Copy)]
struct Writing {
    at: Timestamp,
    /// Somebody came or went: it must be on disk.
    sync: bool,
}

/// Writes down what hosts said; must run beside the intake.
#[derive(Debug)]
pub struct Keeping {
    intake: Intake,
    store: Box<Handle>,
    clock: Clock,
    failing: bool,
}

/// The store, for a type that can be shown.
struct Handle(Arc<dyn Documents>);

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Documents")
    }
}

impl Due {
    pub(super) fn of(shared: bool) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }

    /// Other replicas read what is written, from now on.
    pub(super) fn share(&mut self) {
        self.shared = true;
    }

    /// Whether other replicas read what is written.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Another replica wrote something newer.
    pub(super) fn drop(&mut self, host: &HostId) {
        self.at.remove(host);
    }

    /// A host is to be written; `same`: the same people are there as before.
    /// Returns whether it is due earlier than it was.
    pub(super) fn note(&mut self, host: &HostId, same: bool, now: Timestamp) -> bool {
        let at = match self.written.get(host) {
            _ if self.shared => now + SHARED,
            Some(written) if same => now.max(*written + PAUSE),
            _ => now,
        };
        let wanted = Writing { at, sync: !same };
        let Some(known) = self.at.get_mut(host) else {
            self.at.insert(host.clone(), wanted);
            return true;
        };
        known.sync |= wanted.sync;
        let earlier = wanted.at < known.at;
        known.at = known.at.min(wanted.at);
        earlier
    }

    /// It could not be written.
    fn again(&mut self, host: HostId, writing: Writing) {
        let known = self.at.entry(host).or_insert(writing);
        known.sync |= writing.sync;
    }

    fn next(&self) -> Option<Timestamp> {
        self.at.values().map(|writing| writing.at).min()
    }

    /// Takes out those that are due by `now`; all where it is `None`.
    fn take(&mut self, by: Option<Timestamp>) -> Vec<(HostId, Writing)> {
        let due = self.at.iter();
        // For others all that waits goes along.
        let by = by.filter(|_| !self.shared);
        let due = due.filter(|(_, writing)| by.is_none_or(|by| writing.at <= by));
        let due = due.map(|(host, writing)| (host.clone(), *writing));
        let due: Vec<_> = due.take(TOGETHER).collect();
        for (host, _) in &due {
            self.at.remove(host);
        }
        due
    }
}

impl Keeping {
    pub(super) fn of(intake: Intake, store: Arc<dyn Documents>, clock: Clock) -> Self {
        Self {
            intake,
            store: Box::new(Handle(store)),
            clock,
            failing: false,
        }
    }

    /// Runs until it is told to stop, and then writes what is left.
    pub async fn run(mut self, stop: CancellationToken) {
        let intake = self.intake.clone();
        loop {
            let next = intake.inner.lock().due.next();
            let wait = async {
                match next {
                    Some(at) => sleep(at.since(self.clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = intake.inner.news.notified() => {}
                () = wait => {
                    let due = intake.inner.lock().due.take(Some(self.clock.now()));
                    self.write(due).await;
                }
            }
        }
        loop {
            let due = intake.inner.lock().due.take(None);
            if due.is_empty() || !self.write(due).await {
                return;
            }
        }
    }

    /// Whether they were written.
    async fn write(&mut self, due: Vec<(HostId, Writing)>) -> bool {
        let edits: Vec<_> = {
            let hosts = self.intake.inner.lock();
            let kept = due
                .iter()
                .filter_map(|(host, _)| Some((host, hosts.kept(host)?)));
            let texts = kept.filter_map(|(host, kept)| {
                // A number that is none was made unknown before it got here.
                let text = serde_json::to_string(kept).ok()?;
                Some(Edit {
                    expected: hosts.expected(host),
                    ..edit(host.as_str(), Some(text))
                })
            });
            texts.collect()
        };
        let sync = due.iter().any(|(_, writing)| writing.sync);
        let written = match self.store.0.edit(edits, sync).await {
            Ok(Edited::Conflict) => self.write_apart(due.iter().map(|(host, _)| host)).await,
            written => written.map(|_| ()),
        };
        let now = self.clock.now();
        {
            let mut hosts = self.intake.inner.lock();
            for (host, writing) in due {
                match &written {
                    Ok(()) => drop(hosts.due.written.insert(host, now)),
                    Err(_) => hosts.due.again(
                        host,
                        Writing {
                            at: now + RETRY,
                            ..writing
                        },
                    ),
                }
            }
        }
        match &written {
            Err(error) if !self.failing => {
                warn!(%error, "Reports cannot be stored, trying again");
            }
            Ok(()) if self.failing => info!("Reports are stored again"),
            _ => {}
        }
        self.failing = written.is_err();
        written.is_ok()
    }

    /// Of some of these hosts other replicas wrote something meanwhile: each is
    /// compared with that, and the newer report stays.
    async fn write_apart<'a>(
        &self,
        hosts: impl Iterator<Item = &'a HostId>,
    ) -> Result<(), StoreError> {
        for host in hosts {
            for _ in 0..TRIES {
                let stored = self.store.0.document(Kind::Report, host.as_str()).await?;
                let ours = self.intake.inner.lock().beside(host, stored.as_ref());
                let Some((expected, text)) = ours else {
                    break;
                };
                let edit = Edit {
                    expected: Some(expected),
                    ..edit(host.as_str(), Some(text))
                };
                if self.store.0.edit(vec![edit], true).await? == Edited::Done {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn edit(host: &str, text: Option<String>) -> Edit {
    Edit {
        kind: Kind::Report,
        id: host.to_owned(),
        expected: None,
        text,
    }
}

/// Everything that was kept. What cannot be read, or is of a host that nobody
/// knows for long, is removed.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn read(
    store: &dyn Documents,
    is_configured: impl Fn(&HostId) -> bool,
    now: Timestamp,
) -> Result<BTreeMap<HostId, (Version, Kept)>, StoreError> {
    let began = Instant::now();
    let mut kept = BTreeMap::new();
    let mut over = Vec::new();
    for Document { id, version, text } in store.documents(Kind::Report).await? {
        let host = HostId::from(id.as_str());
        match serde_json::from_str::<Kept>(&text) {
            Ok(read) if is_configured(&host) || !is_forgotten(&read, now) => {
                kept.insert(host, (version, read));
            }
            Ok(_) => over.push(edit(&id, None)),
            Err(error) => {
                warn!(%host, %error, "A stored report cannot be read and is forgotten");
                over.push(edit(&id, None));
            }
        }
    }
    if !over.is_empty() {
        store.edit(over, false).await?;
    }
    if !kept.is_empty() {
        info!(hosts = kept.len(), took = ?began.elapsed(), "Reports loaded");
    }
    Ok(kept)
}

fn is_forgotten(kept: &Kept, now: Timestamp) -> bool {
    let last = kept.last.as_ref();
    last.is_none_or(|last| now.since(last.received) > FORGOTTEN)
}
