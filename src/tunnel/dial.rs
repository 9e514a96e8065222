//! Reaching one guacd, or a replica, and TLS, within one deadline.

use std::io;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use super::liveness;
use super::pool::Member;
use super::stop::Stop;
use crate::replicas::Neighbour;
use crate::tls::{Certificates, Stream};

/// For reaching a replica, TLS included: it is near, and a join waits.
const REPLICA_WITHIN: Duration = Duration::from_secs(2);

/// Connects to a guacd and shakes hands where it speaks TLS.
pub(super) async fn guacd(
    member: &Member,
    within: Duration,
    certificates: &Certificates,
    stall: Duration,
) -> Result<Stream, Stop> {
    let address = || member.to_string();
    let unreachable = |error| Stop::GuacdUnreachable {
        address: address(),
        error,
    };
    let by = Instant::now() + within;
    let answers = async {
        let socket = TcpStream::connect(member.at).await?;
        prepare(&socket, stall)?;
        Ok(socket)
    };
    let socket = match timeout_at(by, answers).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return Err(unreachable(error)),
        Err(_) => return Err(unreachable(io::ErrorKind::TimedOut.into())),
    };
    let Some(tls) = &member.guacd.tls else {
        return Ok(socket.into());
    };
    let untrusted = |reason: String| Stop::GuacdUntrusted {
        address: address(),
        reason,
    };
    let connector = certificates.connector(tls);
    let connector = connector.map_err(|fault| untrusted(fault.to_string()))?;
    match timeout_at(by, connector.connect(socket)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(untrusted(error.to_string())),
        Err(_) => Err(untrusted(SLOW.to_owned())),
    }
}

/// A guacd without TLS may wait for the end of what it takes for an instruction.
const SLOW: &str = "the TLS handshake was not finished within connect_timeout; one that was \
                    started without -C and -K needs tls = false in [guacd]";

/// Connects to a replica's Guacamole port, by TLS where it says that it shows a
/// certificate there, and to that certificate alone.
pub(super) async fn replica(
    neighbour: &Neighbour,
    certificates: &Certificates,
    stall: Duration,
) -> Result<Stream, Stop> {
    let address = &neighbour.address;
    let unreachable = |reason: String| Stop::ReplicaUnreachable {
        address: address.to_string(),
        reason,
    };
    let reaching = async {
        let socket = match first_that_answers(&address.host, address.port).await {
            Ok(socket) => socket,
            // Nobody listens: the process has gone, and its tunnels with it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(Stop::UnknownJoin);
            }
            Err(error) => return Err(unreachable(error.to_string())),
        };
        prepare(&socket, stall).map_err(|error| unreachable(error.to_string()))?;
        let Some(pin) = neighbour.certificate else {
            return Ok(socket.into());
        };
        let connector = certificates.pinned(pin, &address.host);
        let connector = connector.map_err(|fault| unreachable(fault.to_string()))?;
        let connected = connector.connect(socket).await;
        connected.map_err(|error| unreachable(format!("no TLS: {error}")))
    };
    let reached = timeout(REPLICA_WITHIN, reaching).await;
    reached.unwrap_or_else(|_| Err(unreachable("it does not answer in time".to_owned())))
}

fn prepare(socket: &TcpStream, stall: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    liveness::mind(socket, stall)
}

/// An address that swallows connections must not eat the time of the ones
/// after it: each gets its even share.
async fn first_that_answers(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let share = REPLICA_WITHIN / count.max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
