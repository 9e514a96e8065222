//! Reaching guacd: every address its name has, and TLS, within one deadline.

use std::io;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use super::liveness;
use super::stop::Stop;
use crate::config::Guacd;
use crate::tls::{Certificates, Stream};

/// Connects to the first of guacd's addresses that answers, and shakes hands
/// where it speaks TLS.
pub(super) async fn guacd(
    guacd: &Guacd,
    certificates: &Certificates,
    stall: Duration,
) -> Result<Stream, Stop> {
    let address = || guacd.address.to_string();
    let unreachable = |error| Stop::GuacdUnreachable {
        address: address(),
        error,
    };
    let by = Instant::now() + guacd.connect_timeout;
    let answers = async {
        let socket = first_that_answers(guacd).await?;
        liveness::mind(&socket, stall)?;
        Ok(socket)
    };
    let socket = match timeout_at(by, answers).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return Err(unreachable(error)),
        Err(_) => return Err(unreachable(io::ErrorKind::TimedOut.into())),
    };
    let Some(tls) = &guacd.tls else {
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

/// An address that swallows connections must not eat the time of the ones
/// after it: each gets its even share.
async fn first_that_answers(guacd: &Guacd) -> io::Result<TcpStream> {
    let name = (guacd.address.host.as_str(), guacd.address.port);
    let addresses: Vec<_> = lookup_host(name).await?.collect();
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let share = guacd.connect_timeout / count.max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
