//! Connecting to a host by its name, without taking every thread there is.
//!
//! The system looks a name up on a thread that waits as long as it takes: who
//! has given up on the answer frees no thread. A name server that hangs must
//! not leave the rest of the process, reloads above all, without threads for
//! what takes one.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Names looked up at a time: half the threads that the runtime has for waiting.
const AT_ONCE: usize = 256;

/// One for the process, as the threads are.
static LOOKUPS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Every address of the host in turn; the last one's error tells.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses(host, port).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    // Who waits here and gives up leaves nothing behind.
    let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let host = host.to_owned();
    let looked_up = spawn_blocking(move || {
        let _until_answered = permit;
        (host.as_str(), port)
            .to_socket_addrs()
            .map(Iterator::collect)
    });
    looked_up.await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_taken_as_they_are_and_names_looked_up() {
        for (host, expected) in [("127.0.0.9", "127.0.0.9:7"), ("::1", "[::1]:7")] {
            let found = addresses(host, 7).await.unwrap();
            assert_eq!(found, [expected.parse().unwrap()]);
        }
        let found = addresses("localhost", 7).await.unwrap();
        assert!(found.iter().any(|address| address.ip().is_loopback()));
        assert!(addresses("no such name", 7).await.is_err());
        assert_eq!(LOOKUPS.available_permits(), AT_ONCE, "all are given back");
    }
}
