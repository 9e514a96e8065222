//! A scripted RDP session host: it confirms an X.224 connection request and
//! says nothing more. Enough for a probe, and for the stand-in guacd.
//!
//! It remembers the user name in the request's cookie, which probes do not
//! send, so that the demo can ask the host itself who was brought to it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::config::HostPort;

/// What precedes the user name in a connection request (MS-RDPBCGR 2.2.1.1).
pub(super) const COOKIE: &str = "Cookie: mstshash=";

/// TPKT with an X.224 connection confirm that agrees to TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];

/// A host of the demo.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) id: String,
    pub(super) address: HostPort,
    scripted: Option<Scripted>,
}

#[derive(Debug)]
struct Scripted {
    callers: Callers,
    _serving: AbortOnDropHandle<()>,
}

type Callers = Arc<Mutex<Vec<String>>>;

impl Host {
    /// A scripted one at 127.0.0.`last`, where this machine has that address
    /// (Linux has them all, macOS only the first), else at 127.0.0.1; the port
    /// is any free one.
    pub(super) async fn scripted(id: &str, last: u8) -> io::Result<Self> {
        let own = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
        let listener = match TcpListener::bind(own).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        };
        let address = listener.local_addr()?;
        let callers = Callers::default();
        let serving = tokio::spawn(serve(listener, Arc::clone(&callers)));
        Ok(Self {
            id: id.to_owned(),
            address: HostPort {
                host: address.ip().to_string(),
                port: address.port(),
            },
            scripted: Some(Scripted {
                callers,
                _serving: AbortOnDropHandle::new(serving),
            }),
        })
    }

    /// One that is really there.
    pub(super) fn real(id: &str, address: HostPort) -> Self {
        Self {
            id: id.to_owned(),
            address,
            scripted: None,
        }
    }

    /// Who was brought here last; `None` where the host cannot be asked.
    pub(super) fn last_caller(&self) -> Option<String> {
        let callers = &self.scripted.as_ref()?.callers;
        let callers = callers.lock().unwrap_or_else(PoisonError::into_inner);
        Some(callers.last().cloned().unwrap_or_default())
    }
}

async fn serve(listener: TcpListener, callers: Callers) {
    let mut open = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let callers = Arc::clone(&callers);
        // A caller that leaves in the middle is none of the host's worries.
        open.spawn(async move { drop(answer(socket, &callers).await) });
        while open.try_join_next().is_some() {}
    }
}

/// Confirms one request and holds the connection until the caller leaves.
async fn answer(mut socket: TcpStream, callers: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = [0; 4];
    socket.read_exact(&mut head).await?;
    let [_, _, high, low] = head;
    let rest = u16::from_be_bytes([high, low]).saturating_sub(4);
    let mut request = vec![0; usize::from(rest)];
    socket.read_exact(&mut request).await?;
    if let Some(user) = caller(&request) {
        let mut callers = callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.push(user);
    }
    socket.write_all(&CONFIRM).await?;
    let mut nothing = [0; 64];
    while socket.read(&mut nothing).await? > 0 {}
    Ok(())
}

/// The user name in a request's cookie.
fn caller(request: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(request);
    let (_, behind) = text.split_once(COOKIE)?;
    behind.split_once("\r\n").map(|(user, _)| user.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_names_the_caller_and_a_probe_has_none() {
        let asked = b"\x1f\xe0\0\0\0\0\0Cookie: mstshash=anna\r\n\x01\0\x08\0\x03\0\0\0";
        assert_eq!(caller(asked).as_deref(), Some("anna"));
        assert_eq!(caller(b"\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0"), None);
    }

    #[tokio::test]
    async fn a_host_that_was_only_probed_has_seen_nobody() {
        let host = Host::scripted("rds-1", 1).await.unwrap();
        let at = (host.address.host.as_str(), host.address.port);
        let mut probe = TcpStream::connect(at).await.unwrap();
        let request = [3, 0, 0, 19, 14, 0xe0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 3, 0, 0, 0];
        probe.write_all(&request).await.unwrap();
        let mut confirm = [0; 19];
        probe.read_exact(&mut confirm).await.unwrap();
        assert_eq!(confirm, CONFIRM);
        assert_eq!(host.last_caller().as_deref(), Some(""));
    }
}
