//! Notices that something happened to the files.
//!
//! Whole directories are watched and what happened to what is not asked: a
//! mounted ConfigMap changes by the swap of a link beside the file, an editor
//! writes a new file and renames it, and a watch on the file itself sees
//! neither. Whoever is told looks at the contents.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

/// A watch over directories; clones are one watch.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    touched: Arc<Notify>,
    watching: Arc<Mutex<Watching>>,
}

#[derive(Debug, Default)]
struct Watching {
    watcher: Option<RecommendedWatcher>,
    directories: BTreeSet<PathBuf>,
    /// Set while watching fails, so that it is said once.
    failing: bool,
}

impl Watch {
    /// Watches these directories and no others. All are watched anew: a path
    /// may lead to another directory than it did. What happens meanwhile is not
    /// noticed, so look at the files afterwards. Blocks.
    pub(super) fn follow(&self, directories: BTreeSet<PathBuf>) {
        // What a panic leaves behind is made anew here.
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        match watching.follow(directories, &self.touched) {
            Ok(()) => watching.failing = false,
            Err(error) if !watching.failing => {
                watching.failing = true;
                warn!(%error, "Configuration files cannot be watched, looking now and then");
            }
            Err(_) => {}
        }
    }

    /// Returns once something happened and nothing more for `quiet`; a
    /// directory where something happens all the time waits `at_most`.
    pub(super) async fn settled(&self, quiet: Duration, at_most: Duration) {
        self.touched.notified().await;
        let latest = Instant::now() + at_most;
        let more = async { while timeout(quiet, self.touched.notified()).await.is_ok() {} };
        // Late or quiet, it is time to look.
        let _ = timeout_at(latest, more).await;
    }
}

impl Watching {
    fn follow(
        &mut self,
        directories: BTreeSet<PathBuf>,
        touched: &Arc<Notify>,
    ) -> Result<(), notify::Error> {
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => {
                let touched = Arc::clone(touched);
                none.insert(notify::recommended_watcher(move |event| {
                    if is_news(&event) {
                        touched.notify_one();
                    }
                })?)
            }
        };
        for directory in std::mem::take(&mut self.directories) {
            // Fails where the directory is gone, and its watch with it.
            let _ = watcher.unwatch(&directory);
        }
        let mut failed = None;
        for directory in directories {
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.directories.insert(directory);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Everything is but the opening and reading of files, which is also what we
/// do: we would keep ourselves awake.
fn is_news(event: &notify::Result<Event>) -> bool {
    match event {
        Ok(event) => match event.kind {
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        },
        // Something was lost on the way.
        Err(_) => true,
    }
}
