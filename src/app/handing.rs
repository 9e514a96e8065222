//! What a process leaves running once another one took over from it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::api::answering;
use crate::clock::Clock;
use crate::config::Listen;
use crate::store::Movable;
use crate::succession::Beside;
use crate::tunnel::{self, Door, Gateway};

/// What it takes.
#[derive(Debug)]
pub(super) struct Handing {
    /// The admin socket.
    pub(super) path: PathBuf,
    /// The embedded store; `None` where it is a database.
    pub(super) store: Option<Movable>,
    pub(super) clock: Clock,
}

impl Handing {
    /// Listens for joins of our tunnels, which come to the other process and are
    /// sent on by it: on the loopback device, and for nothing but joins.
    pub(super) async fn joins(
        &self,
        settings: Option<Listen>,
        gateway: &Arc<Gateway>,
        tunnels: &TaskTracker,
        stop: &CancellationToken,
    ) -> Option<SocketAddr> {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound
            .inspect_err(|error| warn!(%error, "Tunnels of this process cannot be joined any more"))
            .ok()?;
        let door = Door {
            listener,
            settings: Listen {
                tls: None,
                advertise: None,
                ..settings.unwrap_or_default()
            },
            tls: None,
            joins_only: true,
        };
        let (gateway, tunnels) = (Arc::clone(gateway), tunnels.clone());
        tokio::spawn(tunnel::accept(gateway, door, tunnels, stop.clone()));
        Some(address)
    }

    /// Stays in touch with whoever has the admin socket.
    pub(super) fn beside(self, joins: Option<SocketAddr>, gateway: &Gateway) -> Beside {
        let tunnels = Arc::clone(gateway.tunnels());
        Beside {
            path: self.path,
            store: self.store,
            joins,
            own: Arc::new(answering(tunnels, gateway.issued(), self.clock)),
        }
    }
}
