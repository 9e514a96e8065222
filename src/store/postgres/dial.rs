//! A connection to the database: TCP, TLS, login, and whether it takes writes.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, NoTls, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Connection};
use tokio_util::task::AbortOnDropHandle;

use super::error::{Cause, Whereabouts};
use crate::config::PostgresSettings;
use crate::store::{Losses, StoreError};
use crate::tls::{ConnectError, Connector, Stream};

/// A database that went silent is noticed in this time though nobody asks it.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(15))
    .with_interval(Duration::from_secs(5));

/// A connection, and the task that moves it along.
type Connected = (Client, JoinHandle<()>);

/// Who makes connections.
pub(super) struct Dialer {
    settings: PostgresSettings,
    login: Config,
    tls: Option<Connector>,
    /// Connections that were lost so far.
    losses: Losses,
}

impl Dialer {
    pub(super) fn new(settings: PostgresSettings, tls: Option<Connector>) -> Self {
        let mut login = Config::new();
        login
            .user(&settings.user)
            .dbname(&settings.database)
            .application_name("sessionguard")
            .ssl_mode(match tls {
                Some(_) => SslMode::Require,
                None => SslMode::Disable,
            });
        if let Some(password) = &settings.password {
            login.password(password.expose());
        }
        Self {
            settings,
            login,
            tls,
            losses: Losses::default(),
        }
    }

    pub(super) fn settings(&self) -> &PostgresSettings {
        &self.settings
    }

    /// Connections that were lost: whoever answers on the next one may know
    /// less.
    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    pub(super) fn whereabouts(&self) -> Whereabouts {
        Whereabouts {
            address: self.settings.address.to_string(),
            database: self.settings.database.clone(),
        }
    }

    /// A connection to the first of the name's addresses that takes writes:
    /// after a failover the old primary may still answer.
    pub(super) async fn dial(&self) -> Result<Connected, StoreError> {
        let until = Instant::now() + self.settings.connect_timeout;
        let dialled = self.try_all(until).await;
        dialled.map_err(|cause| cause.at(self.whereabouts()))
    }

    async fn try_all(&self, until: Instant) -> Result<Connected, Cause> {
        let address = &self.settings.address;
        let name = (address.host.as_str(), address.port);
        let found = timeout_at(until, lookup_host(name)).await;
        let found = found.map_err(|_| Cause::Slow)?;
        let addresses: Vec<_> = found.map_err(Cause::Lookup)?.collect();
        let mut why = None;
        for (nth, address) in addresses.iter().enumerate() {
            // One that does not answer leaves the others their share of the time.
            let left = u32::try_from(addresses.len() - nth).unwrap_or(u32::MAX);
            let share = until.saturating_duration_since(Instant::now()) / left;
            let tried = timeout_at(Instant::now() + share, self.try_one(*address)).await;
            match tried.unwrap_or(Err(Cause::Slow)) {
                Ok(connected) => return Ok(connected),
                Err(cause) => why = Some(cause),
            }
        }
        Err(why.unwrap_or(Cause::NoAddress))
    }

    async fn try_one(&self, address: SocketAddr) -> Result<Connected, Cause> {
        let socket = TcpStream::connect(address).await.map_err(Cause::Connect)?;
        let tuned = socket.set_nodelay(true);
        let tuned = tuned.and_then(|()| SockRef::from(&socket).set_tcp_keepalive(&KEEPALIVE));
        tuned.map_err(Cause::Connect)?;
        let (client, task) = match &self.tls {
            Some(connector) => {
                let handshake = Handshake(connector.clone());
                let (client, connection) = self.login.connect_raw(socket, handshake).await?;
                moved_along(client, connection, &self.losses)
            }
            None => {
                let (client, connection) = self.login.connect_raw(socket, NoTls).await?;
                moved_along(client, connection, &self.losses)
            }
        };
        // One that is given up here is closed without a farewell.
        let task = AbortOnDropHandle::new(task);
        let reads = "SELECT current_setting('transaction_read_only') = 'on'";
        let row = client.query_typed_one(reads, &[]).await?;
        match row.try_get(0)? {
            true => Err(Cause::ReadOnly),
            false => Ok((client, task.detach())),
        }
    }
}

/// The connection is moved along by a task of its own.
pub(super) fn moved_along<S, T>(
    client: Client,
    connection: Connection<S, T>,
    losses: &Losses,
) -> Connected
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let losses = losses.clone();
    let task = tokio::spawn(async move {
        // One that we close ends well. Whoever asks next is told what it said.
        if connection.await.is_err() {
            losses.note();
        }
    });
    (client, task)
}

/// Without the password.
impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (settings, tls) = (&self.settings, &self.tls);
        f.debug_struct("Dialer")
            .field("settings", settings)
            .field("tls", tls)
            .finish_non_exhaustive()
    }
}

/// TLS on a connection on which the database agreed to it.
struct Handshake(Connector);

/// A connection within TLS.
struct Secured(Stream);

impl TlsConnect<TcpStream> for Handshake {
    type Stream = Secured;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Secured, ConnectError>> + Send>>;

    fn connect(self, socket: TcpStream) -> Self::Future {
        Box::pin(async move { self.0.connect(socket).await.map(Secured) })
    }
}

impl TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
