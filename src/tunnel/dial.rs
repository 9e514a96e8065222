//! Reaching guacd: every address its name has, within one deadline.

use std::io;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::stop::Stop;

/// Where guacd is.
#[derive(Debug)]
pub(super) struct Guacd {
    address: String,
    within: Duration,
}

impl Guacd {
    pub(super) fn new(address: &str, within: Duration) -> Self {
        Self {
            address: address.to_owned(),
            within,
        }
    }

    /// Connects, to the first address that answers.
    pub(super) async fn dial(&self) -> Result<TcpStream, Stop> {
        let unreachable = |error| Stop::GuacdUnreachable {
            address: self.address.clone(),
            error,
        };
        match timeout(self.within, self.first_that_answers()).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(unreachable(error)),
            Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
        }
    }

    /// An address that swallows connections must not eat the time of the ones
    /// after it: each gets its even share of what is left.
    async fn first_that_answers(&self) -> io::Result<TcpStream> {
        let addresses: Vec<_> = lookup_host(&self.address).await?.collect();
        let share = self.within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
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
}
