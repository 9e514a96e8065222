//! The one door by which a new configuration comes in while the process runs.
//!
//! Whatever the reason to look (something happened to the files, the time for
//! it has come, SIGHUP, an administrator), one task does it, one look after the
//! other: the contents are compared with what was read last, and where they
//! differ everything is read and checked anew. A configuration with a fault
//! changes nothing at all. A good one is handed over whole, as one generation.
//!
//! ```text
//! files, poll, SIGHUP, request -> look -> same contents?      -> nothing
//!                                      -> fault, cut to nothing -> said once, kept in the state
//!                                      -> good -> change -> apply -> generation + 1
//! ```
//!
//! What "apply" means is not known here: the wiring of the process says it.
//! Tunnels are not touched by any of this.

mod beside;
mod fingerprint;
mod state;
mod verdict;
mod watch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch as latest};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::{Config, load};
use fingerprint::{Fingerprint, directories};
use watch::Watch;

pub use beside::{Beside, Noticed};
pub use state::{Attempt, Cause, Looked, ReloadState, Reloaded};

/// Requests that may wait for their turn; more wait to be let in.
const WAITING: usize = 16;

/// Looks at files that change under our eyes before we give up.
const TRIES: u32 = 20;

/// Where a configuration comes from, and what was there.
#[derive(Debug, Clone)]
pub struct Origin {
    path: PathBuf,
    seen: Fingerprint,
}

impl Origin {
    /// Looks at the files. To be called before they are loaded: what changes in
    /// between is then noticed later. Blocks.
    pub fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            seen: Fingerprint::of(path),
        }
    }
}

/// Takes a configuration over as a whole; says which generation it is.
pub type Apply = Box<dyn FnMut(&Arc<Config>) -> u64 + Send>;

/// The way to ask for a reload and to see how things stand; clones are one.
#[derive(Debug, Clone)]
pub struct Reload {
    ask: mpsc::Sender<Ask>,
    state: latest::Receiver<ReloadState>,
}

#[derive(Debug)]
struct Ask {
    cause: Cause,
    answer: oneshot::Sender<Looked>,
}

impl Reload {
    /// Looks at the files now; returns what came of it. A configuration that
    /// was applied is in force by then.
    pub async fn now(&self, cause: Cause) -> Looked {
        let (answer, answered) = oneshot::channel();
        let looked = match self.ask.send(Ask { cause, answer }).await {
            Ok(()) => answered.await.ok(),
            Err(_) => None,
        };
        looked.unwrap_or(Looked {
            reloaded: Reloaded::Ending,
            beside: Noticed::default(),
        })
    }

    /// How things stand.
    pub fn state(&self) -> ReloadState {
        self.state.borrow().clone()
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Without any event before the files are looked at.
    quiet: Duration,
    /// For that, where events never cease.
    at_most: Duration,
    /// Between two looks without a reason.
    poll: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(300),
            at_most: Duration::from_secs(2),
            poll: Duration::from_secs(30),
        }
    }
}

/// The task behind the door.
pub struct Reloader {
    origin: Origin,
    /// What was last found unusable, so that it is said once.
    refused: Option<Fingerprint>,
    in_force: Arc<Config>,
    apply: Apply,
    beside: Option<Arc<dyn Beside>>,
    watch: Watch,
    pace: Pace,
    asked: mpsc::Receiver<Ask>,
    state: latest::Sender<ReloadState>,
}

impl Reloader {
    /// A reloader that goes on from what was loaded at the start, and the way
    /// to ask it.
    pub fn new(
        origin: Origin,
        in_force: Arc<Config>,
        generation: u64,
        apply: Apply,
    ) -> (Self, Reload) {
        let (ask, asked) = mpsc::channel(WAITING);
        let (state, seen) = latest::channel(ReloadState::started(generation));
        let reloader = Self {
            origin,
            refused: None,
            in_force,
            apply,
            beside: None,
            watch: Watch::default(),
            pace: Pace::default(),
            asked,
            state,
        };
        (reloader, Reload { ask, state: seen })
    }

    /// Also has these files looked at, and checked before anything is applied.
    #[must_use]
    pub fn minding(mut self, beside: Arc<dyn Beside>) -> Self {
        self.beside = Some(beside);
        self
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let mut poll = interval_at(Instant::now() + self.pace.poll, self.pace.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Begins to watch, and finds what changed since the load.
        self.look(Cause::Start).await;
        look_at(self.beside.clone()).await;
        loop {
            let Pace { quiet, at_most, .. } = self.pace;
            let (cause, answer) = tokio::select! {
                Some(Ask { cause, answer }) = self.asked.recv() => (cause, Some(answer)),
                () = self.watch.settled(quiet, at_most) => (Cause::Files, None),
                _ = poll.tick() => (Cause::Poll, None),
            };
            let reloaded = self.look(cause).await;
            let beside = look_at(self.beside.clone()).await;
            if let Some(answer) = answer {
                // Who asked may have left.
                let _ = answer.send(Looked { reloaded, beside });
            }
        }
    }

    async fn look(&mut self, cause: Cause) -> Reloaded {
        for _ in 0..TRIES {
            let Ok(seen) = self.fingerprint().await else {
                break;
            };
            self.state.send_modify(|state| state.looked = state::now());
            if seen == self.origin.seen && secrets_stand(Arc::clone(&self.in_force)).await {
                return self.as_applied(cause);
            }
            if self.refused.as_ref() == Some(&seen) {
                return self.still_refused(cause);
            }
            if matches!(cause, Cause::Start | Cause::Poll) {
                // Nobody knows since when they are like that: perhaps an
                // editor is in the middle of its work.
                sleep(self.pace.quiet).await;
            }
            // What was loaded is what was looked at only where it is the same
            // before and after.
            let (path, beside) = (self.origin.path.clone(), self.beside.clone());
            let read = spawn_blocking(move || {
                let loaded = load(&path, std::env::vars_os());
                let unfit = match (&loaded, beside) {
                    (Ok(loaded), Some(beside)) => beside.check(&loaded.config).err(),
                    _ => None,
                };
                (loaded, unfit, Fingerprint::of(&path))
            });
            match read.await {
                Ok((loaded, unfit, after)) if after == seen => {
                    return self.judge(cause, seen, loaded, unfit);
                }
                Ok(_) => sleep(self.pace.quiet).await,
                Err(_) => {
                    let finding =
                        "the configuration cannot be read: an error of our own".to_owned();
                    return self.refuse(cause, Some(seen), vec![finding]);
                }
            }
        }
        let finding = "the files changed each time they were read".to_owned();
        self.refuse(cause, None, vec![finding])
    }

    /// Watches what there is to watch, then looks: nothing falls in between.
    async fn fingerprint(&mut self) -> Result<Fingerprint, tokio::task::JoinError> {
        let (watch, path) = (self.watch.clone(), self.origin.path.clone());
        let in_force = Arc::clone(&self.in_force);
        let looked = spawn_blocking(move || {
            let secrets: Vec<_> = in_force.api.secrets.files().collect();
            watch.follow(directories(&path, &secrets));
            Fingerprint::of(&path)
        });
        looked.await
    }

    fn generation(&self) -> u64 {
        self.state.borrow().generation
    }
}

/// Whether the files with the keys in force hold them still. Their prints are
/// not kept: what is in force says more.
async fn secrets_stand(in_force: Arc<Config>) -> bool {
    let stand = spawn_blocking(move || in_force.api.secrets.stand()).await;
    stand.unwrap_or(false)
}

async fn look_at(beside: Option<Arc<dyn Beside>>) -> Noticed {
    let Some(beside) = beside else {
        return Noticed::default();
    };
    let looked = spawn_blocking(move || beside.look()).await;
    // What a panic in there was about is in its own line in the log.
    looked.unwrap_or_else(|_| Noticed {
        not_exchanged: vec!["the files cannot be read: an error of our own".to_owned()],
        ..Noticed::default()
    })
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.origin.path;
        f.debug_struct("Reloader")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
