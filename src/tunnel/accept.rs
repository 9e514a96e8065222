//! The listener's loop: every connection is accepted and becomes a task.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error};

use super::Gateway;
use crate::config::Listen;
use crate::tls::Acceptor;

/// A listener, and how those who come in by it are received.
#[derive(Debug)]
pub struct Door {
    /// The listening socket.
    pub listener: TcpListener,
    /// Its settings.
    pub settings: Listen,
    /// Turns connections into TLS; `None` where they are plain.
    pub tls: Option<Acceptor>,
}

/// How those who come in are received. Apart from the listener, which must not
/// live for as long as a tunnel does.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) settings: Listen,
    pub(super) tls: Option<Acceptor>,
}

/// First and longest pause after a failed accept: out of descriptors, a tight
/// loop would take the processor from the tunnels that could free some.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Accepts until `stop` is cancelled; the listener closes then. Tunnels run on
/// in `tunnels`.
pub async fn accept(
    gateway: Arc<Gateway>,
    door: Door,
    tunnels: TaskTracker,
    stop: CancellationToken,
) {
    let Door {
        listener,
        settings,
        tls,
    } = door;
    let reception = Arc::new(Reception { settings, tls });
    let (first, longest) = PAUSES;
    let mut pause = first;
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((socket, _)) => {
                pause = first;
                if let Err(error) = socket.set_nodelay(true) {
                    // It is gone already.
                    debug!(%error, "A connection was lost before it was served");
                    continue;
                }
                let (gateway, reception) = (Arc::clone(&gateway), Arc::clone(&reception));
                tunnels.spawn(async move { gateway.serve(socket, &reception).await });
            }
            Err(error) => {
                error!(%error, "Accepting a connection failed, pausing");
                sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        }
    }
}
