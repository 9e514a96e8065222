//! Reaching guacd: every address its name has, within one deadline.

use std::io;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::stop::Stop;
use crate::config::Guacd;

/// Connects to the first of guacd's addresses that answers.
pub(super) async fn guacd(guacd: &Guacd) -> Result<TcpStream, Stop> {
    let unreachable = |error| Stop::GuacdUnreachable {
        address: guacd.address.to_string(),
        error,
    };
    match timeout(guacd.connect_timeout, first_that_answers(guacd)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(unreachable(error)),
        Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
    }
}

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
