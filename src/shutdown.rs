//! What the process is asked by signals. To stop, in two steps: the first one
//! stops accepting and lets open tunnels run on, the second ends them. To look
//! at its configuration: SIGHUP. To start its successor: SIGUSR2.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// The two steps, cancelled in this order.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Accept nobody any more.
    pub stop: CancellationToken,
    /// End the tunnels that are open.
    pub end: CancellationToken,
}

/// SIGTERM and Ctrl-C, from now on ours to answer.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over from their default, which is sudden death.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Turns the first signal into `stop` and the second into `end`.
    pub async fn drive(mut self, shutdown: Shutdown) {
        let name = self.next().await;
        info!(
            signal = name,
            "Stopping: no new connections; once more ends the open tunnels"
        );
        shutdown.stop.cancel();
        let name = self.next().await;
        info!(signal = name, "Ending open tunnels");
        shutdown.end.cancel();
    }

    /// Returns at the next of them, with its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// SIGHUP, from now on ours to answer.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Takes the signal over from its default, which is sudden death.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Returns once there was one since the last call.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // The system sends no more.
            std::future::pending().await
        }
    }
}

/// SIGUSR2, from now on ours to answer.
#[derive(Debug)]
pub struct Upgrades(Signal);

impl Upgrades {
    /// Takes the signal over from its default, which is sudden death.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take() -> std::io::Result<Self> {
        signal(SignalKind::user_defined2()).map(Self)
    }

    /// Returns once there was one since the last call.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // The system sends no more.
            std::future::pending().await
        }
    }
}
