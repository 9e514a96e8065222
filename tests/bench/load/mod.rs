//! What drives a relay: Guacamole and guacd of many tunnels in one process, alike
//! for whatever stands between them. Each tunnel begins with the whole handshake
//! and a desktop, and both its ends are at hand.

mod guacamole;
mod guacd;
mod heard;
pub(crate) mod payload;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use guacd::Guacd;

/// Whose certificate a relay shows.
pub(crate) const NAME: &str = "relay.test";

/// For one tunnel, on a machine under load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Both ends of a tunnel that stands.
pub(crate) struct Tunnel<S = TcpStream> {
    pub(crate) guacamole: S,
    pub(crate) guacd: TcpStream,
}

/// Opens tunnels; clones are of the same guacd.
#[derive(Clone)]
pub(crate) struct Cast {
    guacd: Arc<Guacd>,
    opened: Arc<AtomicUsize>,
    client: Arc<rustls::ClientConfig>,
}

impl Cast {
    /// Whose Guacamole trusts what `client` does.
    pub(crate) async fn new(client: Arc<rustls::ClientConfig>) -> Self {
        Self {
            guacd: Arc::new(Guacd::listen().await),
            opened: Arc::default(),
            client,
        }
    }

    /// Where its guacd listens.
    pub(crate) fn guacd(&self) -> SocketAddr {
        self.guacd.address()
    }

    /// A tunnel of somebody who was never here, through what listens there.
    pub(crate) async fn tunnel(&self, through: SocketAddr) -> Tunnel {
        self.open(&self.newcomer(), through, |stream| async { Ok(stream) })
            .await
    }

    /// A tunnel of this user, who has no other on the way.
    pub(crate) async fn tunnel_of(&self, user: &str, through: SocketAddr) -> Tunnel {
        self.open(user, through, |stream| async { Ok(stream) })
            .await
    }

    /// The same with TLS between Guacamole and what listens there.
    pub(crate) async fn secured(&self, through: SocketAddr) -> Tunnel<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let name = ServerName::try_from(NAME).unwrap();
        self.open(&self.newcomer(), through, |stream| async move {
            connector.connect(name, stream).await
        })
        .await
    }

    /// So many, no more than `at_once` of them on their way at a time.
    pub(crate) async fn tunnels(
        &self,
        through: SocketAddr,
        count: usize,
        at_once: usize,
    ) -> Vec<Tunnel> {
        let turns = Arc::new(Semaphore::new(at_once));
        let mut opening = JoinSet::new();
        for _ in 0..count {
            let turn = Arc::clone(&turns).acquire_owned().await.unwrap();
            let cast = self.clone();
            opening.spawn(async move {
                let tunnel = cast.tunnel(through).await;
                drop(turn);
                tunnel
            });
        }
        opening.join_all().await
    }

    fn newcomer(&self) -> String {
        format!("newcomer{}", self.opened.fetch_add(1, Ordering::Relaxed))
    }

    async fn open<S, F>(
        &self,
        user: &str,
        through: SocketAddr,
        receive: impl FnOnce(TcpStream) -> F,
    ) -> Tunnel<S>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        F: Future<Output = io::Result<S>>,
    {
        let opened = timeout(PATIENCE, async {
            let arrives = self.guacd.awaits(user);
            let stream = TcpStream::connect(through).await?;
            stream.set_nodelay(true)?;
            let mut guacamole = receive(stream).await?;
            guacamole::shake_hands(&mut guacamole, user).await?;
            let guacd = arrives.await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(Tunnel { guacamole, guacd })
        });
        let opened = opened.await;
        let opened = opened.unwrap_or_else(|_| panic!("{user} through {through}: not in time"));
        opened.unwrap_or_else(|error| panic!("{user} through {through}: {error}"))
    }
}

/// Reads so many bytes and throws them away.
pub(crate) async fn swallow(
    from: &mut (impl AsyncRead + Unpin),
    bytes: usize,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let most = left.min(buffer.len());
        match from.read(&mut buffer[..most]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left -= count,
        }
    }
    Ok(())
}
