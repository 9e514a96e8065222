//! Every decision, kept for whoever asks why: the latest in memory, all of them
//! in the archive for a month, one line each in the audit trail.
//!
//! Keeping never delays or fails a placement: what cannot be taken at once is
//! dropped, counted and warned of.

mod line;
mod record;
mod recorder;
mod sightings;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::DecisionId;
use crate::audit::Audit;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::placement::UserKey;
use crate::store::{Archive, StoreError};

pub use record::{Act, Asked, Record, Rewritten};
pub use recorder::Recorder;
pub use sightings::{Sighting, Sightings};

/// Decisions held in memory: whoever asks for an older one waits for the archive,
/// which has each within a second.
const RECENT: usize = 250;

/// Decisions that may wait to be stored.
const QUEUE: usize = 1024;

/// The way to keep decisions and to find them again.
pub struct Decisions {
    recent: Mutex<VecDeque<Arc<Record>>>,
    sightings: Sightings,
    storing: Option<Storing>,
    audit: Option<Audit>,
    metrics: Arc<Metrics>,
}

struct Storing {
    archive: Arc<dyn Archive>,
    queue: mpsc::Sender<Arc<Record>>,
    dropped: AtomicU64,
    /// A drop was said and there was no room again since.
    said: AtomicBool,
}

/// What was lost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Decisions that were not stored.
    pub decisions: u64,
    /// Lines missing in the audit trail.
    pub audit_lines: u64,
}

impl Decisions {
    /// Keeps decisions in memory alone.
    pub fn in_memory() -> Arc<Self> {
        Arc::new(Self {
            recent: Mutex::default(),
            sightings: Sightings::default(),
            storing: None,
            audit: None,
            metrics: Arc::default(),
        })
    }

    /// Keeps decisions in an archive as well, and tells the audit trail, where
    /// there is one; what is kept is counted in `metrics`. The recorder must run
    /// beside it.
    pub fn stored(
        archive: Arc<dyn Archive>,
        audit: Option<Audit>,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, Recorder) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let recorder = Recorder::new(Arc::clone(&archive), waiting, clock);
        let decisions = Self {
            recent: Mutex::default(),
            sightings: Sightings::default(),
            storing: Some(Storing {
                archive,
                queue,
                dropped: AtomicU64::new(0),
                said: AtomicBool::new(false),
            }),
            audit,
            metrics,
        };
        (Arc::new(decisions), recorder)
    }

    /// Keeps a decision. Never waits.
    pub fn keep(&self, record: Record) {
        let record = Arc::new(record);
        self.sightings.see(&record);
        if record.act != Act::DryRun {
            let acted = record.act == Act::Placement;
            self.metrics
                .decided(record.decision.as_ref(), acted, record.cause);
        }
        if let Some(audit) = &self.audit {
            audit.tell(record.clone());
        }
        if let Some(storing) = &self.storing {
            storing.take(Arc::clone(&record));
        }
        let mut recent = self.lock();
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(record);
    }

    /// One decision; `None` where it is not kept, or not any more.
    ///
    /// # Errors
    /// It is not among the latest and the archive cannot be asked.
    pub async fn find(&self, id: DecisionId) -> Result<Option<Arc<Record>>, StoreError> {
        let recent = self.lock().iter().rfind(|r| r.id == id).map(Arc::clone);
        match (recent, &self.storing) {
            (None, Some(storing)) => {
                let text = storing.archive.decision(id.bits()).await?;
                text.map(|text| Record::read(&text).map(Arc::new))
                    .transpose()
            }
            (found, _) => Ok(found),
        }
    }

    /// The newest decisions, newest first: of one user, where one is named.
    ///
    /// # Errors
    /// The archive cannot be asked.
    pub async fn newest(
        &self,
        user: Option<&UserKey>,
        most: usize,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let name = user.map(ToString::to_string);
        let fits = |r: &Record| name.as_ref().is_none_or(|name| r.names().contains(name));
        let mut found: Vec<_> = {
            let recent = self.lock();
            let fitting = recent.iter().rev().filter(|record| fits(record));
            fitting.take(most).map(Arc::clone).collect()
        };
        if let (true, Some(storing)) = (found.len() < most, &self.storing) {
            for text in storing.archive.decisions(name.as_deref(), most).await? {
                // One that another release wrote differently is not shown.
                found.extend(Record::read(&text).ok().map(Arc::new));
            }
            found.sort_by_key(|record| std::cmp::Reverse(record.id));
            // What is among the latest may be in the archive already.
            found.dedup_by_key(|record| record.id);
            found.truncate(most);
        }
        Ok(found)
    }

    /// Where they are counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// What connections named since the start.
    pub fn sightings(&self) -> &Sightings {
        &self.sightings
    }

    /// What was lost so far.
    pub fn losses(&self) -> Losses {
        let dropped = self.storing.as_ref().map(|s| &s.dropped);
        Losses {
            decisions: dropped.map_or(0, |count| count.load(Ordering::Relaxed)),
            audit_lines: self.audit.as_ref().map_or(0, Audit::lost),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Record>>> {
        // Nothing is half done behind a panic.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storing {
    fn take(&self, record: Arc<Record>) {
        if self.queue.try_send(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            if !self.said.swap(true, Ordering::Relaxed) {
                warn!(
                    "Decisions come faster than they are stored: some will not be explained later"
                );
            }
        } else if self.queue.capacity() > QUEUE / 2 && self.said.swap(false, Ordering::Relaxed) {
            let dropped = self.dropped.load(Ordering::Relaxed);
            info!(dropped, "Decisions are all stored again");
        }
    }
}

impl fmt::Debug for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decisions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
