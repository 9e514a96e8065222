//! The one place where the parts are wired: configuration in, running broker
//! out. Sockets are bound while it is built, so that who built it can ask for
//! the ports before anything runs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::broker::{Broker, Keeper};
use crate::clock::Clock;
use crate::config::{Config, Listen};
use crate::fleet::{Fleet, Prober};
use crate::shutdown::Shutdown;
use crate::store::{Embedded, StoreError};
use crate::tunnel::{self, Gateway};

/// How long tunnels that were told to end may take over it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A broker that is ready to run.
#[derive(Debug)]
pub struct App {
    gateway: Arc<Gateway>,
    listeners: Vec<(TcpListener, Listen)>,
    prober: Prober,
    keeper: Keeper,
    shutdown: Shutdown,
    drain: Duration,
}

/// Why a broker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}; {}", mend(error))]
    Listen {
        /// The address as configured.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has it: a guacd, perhaps, that should move to the address in [guacd]"
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege",
        _ => "choose another in [[listen]]",
    }
}

impl App {
    /// Binds the listeners, opens the store and takes over the leases in it.
    ///
    /// # Errors
    /// What keeps it from starting; nothing runs then.
    pub async fn build(config: &Config, shutdown: Shutdown) -> Result<Self, StartError> {
        let mut listeners = Vec::with_capacity(config.listen.len());
        for listen in &config.listen {
            let address = listen.address;
            let bound = TcpListener::bind(address).await;
            let listener = bound.map_err(|error| StartError::Listen { address, error })?;
            listeners.push((listener, listen.clone()));
        }
        let clock = Clock::start();
        let fleet = Fleet::new(Arc::clone(&config.directory));
        let store = Arc::new(Embedded::open(&config.store.path)?);
        let (broker, keeper) = Broker::open(Arc::clone(&fleet), store, clock).await?;
        let gateway = Gateway::new(
            broker,
            config.guacd.clone(),
            config.timeouts.placement,
            &shutdown,
        );
        let prober = Prober {
            fleet,
            settings: config.probe.clone(),
            clock,
        };
        Ok(Self {
            gateway: Arc::new(gateway),
            listeners,
            prober,
            keeper,
            shutdown,
            drain: config.timeouts.drain,
        })
    }

    /// Where it listens, with the ports the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.listeners.iter();
        bound
            .filter_map(|(listener, _)| listener.local_addr().ok())
            .collect()
    }

    /// Runs until it is told to stop and its tunnels have ended.
    pub async fn run(self) {
        let background = TaskTracker::new();
        let stop_probing = CancellationToken::new();
        self.prober.start(&background, &stop_probing);
        let keeper = tokio::spawn(self.keeper.run());
        let (accepting, tunnels) = (TaskTracker::new(), TaskTracker::new());
        for (listener, settings) in self.listeners {
            if let Ok(address) = listener.local_addr() {
                info!(%address, "Listening");
            }
            let (gateway, stop) = (Arc::clone(&self.gateway), self.shutdown.stop.clone());
            let bound = (listener, settings);
            accepting.spawn(tunnel::accept(gateway, bound, tunnels.clone(), stop));
        }
        accepting.close();
        accepting.wait().await;
        tunnels.close();
        drain(&tunnels, &self.shutdown.end, self.drain).await;
        // With the last tunnel gone nobody can tell the keeper anything more:
        // it writes what it has and ends.
        drop(self.gateway);
        if timeout(LAST_WORDS, keeper).await.is_err() {
            warn!("The last leases could not be written; they run out by themselves");
        }
        stop_probing.cancel();
        background.close();
        background.wait().await;
        info!("Stopped");
    }
}

/// Waits for the tunnels to end by themselves, then makes them.
async fn drain(tunnels: &TaskTracker, end: &CancellationToken, patience: Duration) {
    if !tunnels.is_empty() {
        info!(tunnels = tunnels.len(), patience = ?patience, "Waiting for open tunnels");
    }
    tokio::select! {
        () = tunnels.wait() => return,
        () = end.cancelled() => {}
        () = tokio::time::sleep(patience) => end.cancel(),
    }
    if timeout(LAST_WORDS, tunnels.wait()).await.is_err() {
        warn!(
            tunnels = tunnels.len(),
            "Some tunnels did not end in time and are cut"
        );
    }
}
