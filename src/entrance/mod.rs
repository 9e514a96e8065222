//! The way in: one loop in which every listener accepts, for Guacamole, for the
//! API, for health and for the command line alike.
//!
//! What is accepted needs one of so many [`Places`]; a failed accept is met by a
//! growing pause and said once. What a connection is for is its listener's
//! business.

mod handed;
mod peek;
mod places;
mod spell;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener as Bound};
use std::sync::Arc;

use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::task::TaskTracker;

pub use handed::{HandedError, decline, offer, take_over, unclaimed};
pub use peek::first_byte;
pub use places::{Beyond, Pass, Place, Places};
use spell::Spell;

/// Connections the system keeps until they are accepted; it may keep fewer.
const BACKLOG: i32 = 4096;

/// Where connections come in.
pub trait Listener: Sync {
    /// A connection.
    type Socket: Send + 'static;
    /// Who is at its other end.
    type Peer: Send;

    /// Waits for the next one. May be cancelled; none is lost then.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Socket, Self::Peer)>> + Send;
}

impl Listener for TcpListener {
    type Socket = TcpStream;
    type Peer = SocketAddr;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        TcpListener::accept(self).await
    }
}

impl Listener for UnixListener {
    type Socket = UnixStream;
    type Peer = ();

    async fn accept(&self) -> io::Result<(UnixStream, ())> {
        let (socket, _) = UnixListener::accept(self).await?;
        Ok((socket, ()))
    }
}

/// Binds an address of IP, or takes the socket that was handed to us for it;
/// nothing is accepted yet.
///
/// # Errors
/// What the system says: it may be in use.
pub fn listen(address: SocketAddr) -> io::Result<Bound> {
    let socket = match handed::claim(address) {
        Some(handed) => Socket::from(handed),
        None => {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            // What an earlier process left half closed must not keep us out.
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket
        }
    };
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts until it is dropped. `receive` is shown who comes before they get a
/// place, and may send them away; what it makes of them runs among `tasks`.
/// `door` names the listener in the log.
pub async fn accept<L, R, F>(
    door: &'static str,
    listener: &L,
    places: &Arc<Places>,
    tasks: &TaskTracker,
    mut receive: impl FnMut(L::Socket, L::Peer) -> Option<R>,
) where
    L: Listener,
    R: FnOnce(Pass) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut spell = Spell::new(door);
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                spell.failed(&error).await;
                continue;
            }
        };
        spell.succeeded();
        let Some(serve) = receive(socket, peer) else {
            continue;
        };
        if let Some(place) = places.take().await {
            let serving = serve(place.pass());
            tasks.spawn(place.hold(serving));
        }
    }
}
