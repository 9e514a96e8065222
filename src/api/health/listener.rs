//! The port of its own, bound at the start and served by a thread of its own.

use std::io;
use std::net::{SocketAddr, TcpListener as Bound};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{Health, router};
use crate::api::serve;
use crate::entrance::{self, Beyond, Pass, Places};

/// Callers served at a time; for more the oldest are hung up on, since nobody
/// here has anything to show that would let it stay.
const CALLERS: usize = 32;
/// The longest a caller may stay: whoever keeps a place without using it must
/// not make the next probe fail.
const STAY: Duration = Duration::from_secs(5);

/// The listener, bound and not served yet.
#[derive(Debug)]
pub struct HealthListener(Bound);

/// A listener that is being served, until this is dropped.
#[derive(Debug)]
pub struct HealthServing {
    stop: CancellationToken,
    // INVARIANT: `Some` until dropped.
    thread: Option<JoinHandle<()>>,
}

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} for health and metrics: {error}; set listen in [health] to another address or to \"off\""
)]
pub struct HealthError {
    /// The address as configured.
    address: SocketAddr,
    /// What the system said.
    error: io::Error,
}

impl HealthListener {
    /// Binds the port.
    ///
    /// # Errors
    /// It is in use, or not ours to bind.
    pub fn bind(address: SocketAddr) -> Result<Self, HealthError> {
        let bound = entrance::listen(address);
        bound
            .map(Self)
            .map_err(|error| HealthError { address, error })
    }

    /// The same socket, to be handed to another process.
    ///
    /// # Errors
    /// What the system says.
    pub fn listener(&self) -> io::Result<Bound> {
        self.0.try_clone()
    }

    /// Serves callers on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn serve(self, health: Health) -> io::Result<HealthServing> {
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        if let Ok(address) = self.0.local_addr() {
            info!(%address, "Health and metrics ready");
        }
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("health".to_owned());
        let thread = thread.spawn(move || {
            let served = self.run(router(health));
            runtime.block_on(stopped.run_until_cancelled(served));
        })?;
        Ok(HealthServing {
            stop,
            thread: Some(thread),
        })
    }

    async fn run(self, router: Router) {
        let listener = match TcpListener::from_std(self.0) {
            Ok(listener) => listener,
            Err(error) => {
                warn!(%error, "Health and metrics cannot be served");
                return;
            }
        };
        let places = Places::new("health", CALLERS, Beyond::Wait);
        let receive = |stream, _| {
            let router = router.clone();
            Some(move |_: Pass| serve::anybody(stream, router, STAY))
        };
        let callers = TaskTracker::new();
        entrance::accept("health", &listener, &places, &callers, receive).await;
    }
}

/// Waits until the port is free again.
impl Drop for HealthServing {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // One that panicked has let go of the port as well.
            let _ = thread.join();
        }
    }
}
