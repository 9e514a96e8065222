//! The listener: every connection of Guacamole becomes a task.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::{Gateway, liveness};
use crate::config::Listen;
use crate::entrance::{self, Pass};
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
    /// Only who wants a seat in a tunnel that is open here comes in by it.
    pub joins_only: bool,
}

/// How those who come in are received. Apart from the listener, which must not
/// live for as long as a tunnel does.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) settings: Listen,
    pub(super) tls: Option<Acceptor>,
    pub(super) joins_only: bool,
}

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
        joins_only,
    } = door;
    let reception = Arc::new(Reception {
        settings,
        tls,
        joins_only,
    });
    // Tunnels outlive the listener; who tells them to end must not keep the gateway.
    let (told, end) = (Arc::clone(&gateway.tunnels), gateway.end.clone());
    tokio::spawn(async move {
        end.cancelled().await;
        told.end_all();
    });
    let places = Arc::clone(gateway.limits.connections());
    let receive = |socket: TcpStream, _| {
        let stall = gateway.config.get().limits.stall;
        let prepared = socket.set_nodelay(true);
        if let Err(error) = prepared.and_then(|()| liveness::mind(&socket, stall)) {
            // It is gone already.
            debug!(%error, "A connection was lost before it was served");
            return None;
        }
        let (gateway, reception) = (Arc::clone(&gateway), Arc::clone(&reception));
        let tasks = tunnels.clone();
        Some(move |pass: Pass| async move {
            // Boxed: whoever runs it may keep it twice.
            let served = Box::pin(gateway.serve(socket, &reception, pass)).await;
            if let Some(relay) = served {
                tasks.spawn(relay.run(tasks.clone()));
            }
        })
    };
    let accepting = entrance::accept("Guacamole", &listener, &places, &tunnels, receive);
    stop.run_until_cancelled(accepting).await;
}
