//! The runtime of relays that have much to move: every processor helps. Started
//! with the first of them, and apart from the thread on which tunnels begin and end,
//! which nobody's picture keeps waiting.

use std::io;
use std::sync::OnceLock;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::dispatcher::{get_default, set_default};
use tracing::{Dispatch, warn};

/// The runtime of loud relays, once there was one.
#[derive(Debug)]
pub struct Loud {
    runtime: OnceLock<Option<Handle>>,
    end: CancellationToken,
    _ends: DropGuard,
}

impl Default for Loud {
    fn default() -> Self {
        let end = CancellationToken::new();
        Self {
            runtime: OnceLock::new(),
            _ends: end.clone().drop_guard(),
            end,
        }
    }
}

impl Loud {
    /// The runtime; `None` where the system has no threads for it.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        let started = self.runtime.get_or_init(|| match self.start() {
            Ok(handle) => Some(handle),
            Err(error) => {
                warn!(%error, "No threads can be started for relays that move much");
                None
            }
        });
        started.as_ref()
    }

    /// Returns once it has done something, where it was started. Where it is stuck:
    /// never.
    pub async fn answers(&self) {
        if let Some(Some(handle)) = self.runtime.get() {
            // It cannot fail, and ends early only with the runtime.
            let _ = handle.spawn(async {}).await;
        }
    }

    /// Ends its threads, and whatever they still carry.
    pub fn end(&self) {
        self.end.cancel();
    }

    fn start(&self) -> io::Result<Handle> {
        let heard = get_default(Dispatch::clone);
        let runtime = Builder::new_multi_thread()
            .thread_name("loud-relays")
            // For as long as the thread lives.
            .on_thread_start(move || std::mem::forget(set_default(&heard)))
            .enable_all()
            .build()?;
        keep("loud", runtime, self.end.clone())
    }
}

/// Keeps a runtime on a thread of its own, until the end. Whoever hears what is said
/// here, hears what is said there.
pub(super) fn keep(name: &str, runtime: Runtime, end: CancellationToken) -> io::Result<Handle> {
    let handle = runtime.handle().clone();
    let heard = get_default(Dispatch::clone);
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let _heard = set_default(&heard);
        runtime.block_on(end.cancelled());
        runtime.shutdown_background();
    })?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn it_is_started_once_answers_and_does_not_where_it_is_stuck() {
        let loud = Loud::default();
        loud.answers().await;
        assert!(loud.runtime.get().is_none(), "nobody needed it");
        let there = loud.runtime().unwrap().clone();
        assert_eq!(loud.runtime().unwrap().id(), there.id());
        let name = there.spawn(async { thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.unwrap().as_deref(), Some("loud-relays"));
        loud.answers().await;
        // None of them comes further before all do, each on a thread of its own.
        let workers = there.metrics().num_workers();
        let all = Arc::new(Barrier::new(workers + 1));
        let stuck: Vec<_> = (0..workers)
            .map(|_| {
                let (free, stuck) = std::sync::mpsc::channel::<()>();
                let all = Arc::clone(&all);
                there.spawn(async move {
                    all.wait();
                    stuck.recv()
                });
                free
            })
            .collect();
        all.wait();
        let answers = timeout(Duration::from_millis(50), loud.answers());
        assert!(answers.await.is_err());
        drop(stuck);
        loud.answers().await;
    }

    #[tokio::test]
    async fn its_end_takes_along_what_it_carries() {
        let loud = Loud::default();
        let carried = loud.runtime().unwrap().spawn(std::future::pending::<()>());
        loud.end();
        assert!(carried.await.unwrap_err().is_cancelled());
    }
}
