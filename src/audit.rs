//! The audit trail: one JSON line for everything that was decided and for every
//! change an administrator made, for a log collector to keep.
//!
//! Told by whoever decides, who never waits: a thread of its own does the
//! writing, and a trail that is blocked or broken loses lines, which are
//! counted and warned of once. What a line says is its teller's business.

mod line;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::appended::Appended;
use crate::config::AuditTarget;

pub use line::{Event, Line};

/// Lines that may wait for the writer.
const QUEUE: usize = 1024;
/// Lines written at a time.
const BATCH: usize = 64;
/// For the last lines, when we stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Something that leaves a line in the trail.
pub trait Entry: Send + Sync {
    /// The line: one JSON object without a line break.
    fn line(&self) -> String;
}

/// The way into the trail. The writer ends when the last of these is dropped.
#[derive(Clone)]
pub struct Audit {
    entries: mpsc::Sender<Arc<dyn Entry>>,
    losses: Arc<Losses>,
}

/// The thread that writes.
#[derive(Debug)]
pub struct Writer {
    ended: oneshot::Receiver<()>,
}

/// Lines that were lost, and whether that was said.
#[derive(Debug, Default)]
struct Losses {
    count: AtomicU64,
    said: AtomicBool,
}

impl Audit {
    /// Opens the trail and starts its writer; `None` where none is wanted.
    ///
    /// # Errors
    /// The file cannot be opened for writing.
    pub fn open(target: &AuditTarget) -> io::Result<Option<(Self, Writer)>> {
        let sink = match target {
            AuditTarget::Off => return Ok(None),
            AuditTarget::Stdout => Sink::Stdout,
            AuditTarget::File(path) => Sink::File(Appended::open(path)?),
        };
        let (entries, queue) = mpsc::channel(QUEUE);
        let losses = Arc::<Losses>::default();
        let (end, ended) = oneshot::channel();
        let of_writer = Arc::clone(&losses);
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                write(sink, queue, &of_writer);
                // Nobody may be waiting for the end.
                let _ = end.send(());
            })?;
        Ok(Some((Self { entries, losses }, Writer { ended })))
    }

    /// Leaves a line, if there is room for it.
    pub fn tell(&self, entry: Arc<dyn Entry>) {
        if self.entries.try_send(entry).is_err() {
            self.losses.note(1, "its writer is blocked");
        }
    }

    /// Lines lost so far.
    pub fn lost(&self) -> u64 {
        self.losses.count.load(Ordering::Relaxed)
    }
}

impl Writer {
    /// Waits for the last lines; not for ever, since a pipe may be blocked.
    pub async fn finish(self) {
        if timeout(LAST_WORDS, self.ended).await.is_err() {
            warn!("The last lines of the audit trail could not be written");
        }
    }
}

impl Losses {
    fn note(&self, count: u64, why: &str) {
        self.count.fetch_add(count, Ordering::Relaxed);
        if !self.said.swap(true, Ordering::Relaxed) {
            warn!(why, "The audit trail loses lines; placements go on");
        }
    }

    fn over(&self) {
        if self.said.swap(false, Ordering::Relaxed) {
            let lost = self.count.load(Ordering::Relaxed);
            info!(lost, "The audit trail is written again");
        }
    }
}

enum Sink {
    Stdout,
    File(Appended),
}

fn write(mut sink: Sink, mut queue: mpsc::Receiver<Arc<dyn Entry>>, losses: &Losses) {
    let mut entries = Vec::with_capacity(BATCH);
    loop {
        let count = queue.blocking_recv_many(&mut entries, BATCH);
        if count == 0 {
            return;
        }
        let mut lines = String::new();
        for entry in entries.drain(..) {
            lines.push_str(&entry.line());
            lines.push('\n');
        }
        match sink.write(lines.as_bytes()) {
            // Once there is room again, not at every other line.
            Ok(()) if queue.len() <= QUEUE / 2 => losses.over(),
            Ok(()) => {}
            Err(error) => {
                losses.note(u64::try_from(count).unwrap_or(u64::MAX), &error.to_string());
            }
        }
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::File(file) => file.write_all(bytes),
        }
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    struct Fixed(&'static str);

    impl Entry for Fixed {
        fn line(&self) -> String {
            self.0.to_owned()
        }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn lines_are_appended_and_a_rotated_file_is_left_to_its_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, "old\n").unwrap();
        let open = || {
            Audit::open(&AuditTarget::File(path.clone()))
                .unwrap()
                .unwrap()
        };
        let (audit, writer) = open();
        audit.tell(Arc::new(Fixed("one")));
        drop(audit);
        writer.finish().await;
        assert_eq!(lines(&path), ["old", "one"]);

        let (audit, writer) = open();
        let moved = folder.path().join("audit.jsonl.1");
        std::fs::rename(&path, &moved).unwrap();
        audit.tell(Arc::new(Fixed("two")));
        drop(audit);
        writer.finish().await;
        assert_eq!(lines(&moved), ["old", "one"]);
        assert_eq!(lines(&path), ["two"]);
    }

    #[tokio::test]
    async fn a_full_disk_loses_lines_and_counts_them() {
        let target = AuditTarget::File(PathBuf::from("/dev/full"));
        let (audit, writer) = Audit::open(&target).unwrap().unwrap();
        audit.tell(Arc::new(Fixed("one")));
        let losses = Arc::clone(&audit.losses);
        drop(audit);
        writer.finish().await;
        assert_eq!(losses.count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn no_trail_is_no_writer_and_a_bad_path_is_an_error() {
        assert!(Audit::open(&AuditTarget::Off).unwrap().is_none());
        let nowhere = PathBuf::from("/nonexistent/audit.jsonl");
        assert!(Audit::open(&AuditTarget::File(nowhere)).is_err());
    }
}
