//! The task that writes decisions to the archive, some at a time, and sees that
//! the archive stays within its bounds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::record::Record;
use crate::clock::Clock;
use crate::store::{Archive, Bounds, StoreError};

/// Decisions written at a time.
const BATCH: usize = 256;
/// Between two writings, so that they come in batches.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it looks for what is due, and tries again what failed.
const TICK: Duration = Duration::from_secs(1);
/// How long a decision may be in danger of a power cut.
const SYNC: Duration = Duration::from_secs(5);
/// How often old decisions are looked for.
const PRUNE: Duration = Duration::from_secs(60);

/// Writes decisions to the archive.
pub struct Recorder {
    archive: Arc<dyn Archive>,
    queue: mpsc::Receiver<Arc<Record>>,
    clock: Clock,
    /// What must be written next.
    batch: Vec<Arc<Record>>,
    /// Something was written and may not be on disk yet.
    unsynced: bool,
    synced: Instant,
    pruned: Instant,
    /// Set while the archive fails, so that it is said once.
    failing: bool,
}

impl Recorder {
    pub(super) fn new(
        archive: Arc<dyn Archive>,
        queue: mpsc::Receiver<Arc<Record>>,
        clock: Clock,
    ) -> Self {
        let now = Instant::now();
        Self {
            archive,
            queue,
            clock,
            batch: Vec::with_capacity(BATCH),
            unsynced: false,
            synced: now,
            pruned: now,
            failing: false,
        }
    }

    /// Runs until it is told to stop, and then writes what is left.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let waiting = self.batch.is_empty();
            tokio::select! {
                () = stop.cancelled() => break,
                count = self.queue.recv_many(&mut self.batch, BATCH), if waiting => {
                    if count == 0 {
                        break;
                    }
                }
                _ = tick.tick() => {}
            }
            let full = self.batch.len() >= BATCH;
            self.work().await;
            if !full {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = sleep(PAUSE) => {}
                }
            }
        }
        self.queue.close();
        loop {
            self.write(true).await;
            if self.failing || self.queue.recv_many(&mut self.batch, BATCH).await == 0 {
                return;
            }
        }
    }

    async fn work(&mut self) {
        let due = self.synced.elapsed() >= SYNC;
        if !self.batch.is_empty() || (due && self.unsynced) {
            self.write(due).await;
        }
        if self.pruned.elapsed() >= PRUNE && !self.failing {
            let bounds = Bounds::at(self.clock.now());
            match self.archive.prune(bounds).await {
                // There may be more: again at the next turn.
                Ok(1..) => self.unsynced = true,
                Ok(0) => self.pruned = Instant::now(),
                Err(error) => self.note(Err(error)),
            }
        }
    }

    /// Writes what is due; keeps it where the archive fails.
    async fn write(&mut self, sync: bool) {
        let kept = self.batch.iter().filter_map(|record| record.kept());
        let written = self.archive.keep(kept.collect(), sync).await;
        if written.is_ok() {
            self.unsynced = !sync;
            self.batch.clear();
            if sync {
                self.synced = Instant::now();
            }
        }
        self.note(written);
    }

    fn note(&mut self, done: Result<(), StoreError>) {
        match &done {
            Err(error) if !self.failing => {
                warn!(%error, "Decisions cannot be stored, trying again");
            }
            Ok(()) if self.failing => info!("Decisions are stored again"),
            _ => {}
        }
        self.failing = done.is_err();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
