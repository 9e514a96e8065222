//! A tap between the broker and guacd: every byte passes as it came, and what a
//! handshake says is shown, with the stand-in guacd and a real one alike.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::overheard::{Listener, Overheard, What};
use crate::config::HostPort;

/// Bytes moved at a time, each way.
const CHUNK: usize = 16 * 1024;

/// The tap; it is closed when dropped.
pub(super) struct Tap {
    /// Where the broker finds it.
    pub(super) address: SocketAddr,
    pub(super) overheard: mpsc::UnboundedReceiver<Overheard>,
    totals: Arc<Mutex<Totals>>,
    _serving: AbortOnDropHandle<()>,
}

/// What passed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Connections that were made through the tap.
    pub(super) connections: u64,
    /// Bytes each way, of connections that have ended.
    pub(super) to_guacd: u64,
    pub(super) from_guacd: u64,
}

#[derive(Clone)]
struct Way {
    guacd: HostPort,
    tell: mpsc::UnboundedSender<Overheard>,
    totals: Arc<Mutex<Totals>>,
}

impl Tap {
    /// One in front of this guacd.
    pub(super) async fn before(guacd: HostPort) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (tell, overheard) = mpsc::unbounded_channel();
        let totals = Arc::<Mutex<Totals>>::default();
        let way = Way {
            guacd,
            tell,
            totals: Arc::clone(&totals),
        };
        Ok(Self {
            address,
            overheard,
            totals,
            _serving: AbortOnDropHandle::new(tokio::spawn(serve(listener, way))),
        })
    }

    pub(super) fn totals(&self) -> Totals {
        *lock(&self.totals)
    }
}

async fn serve(listener: TcpListener, way: Way) {
    let mut open = JoinSet::new();
    while let Ok((broker, _)) = listener.accept().await {
        let number = {
            let mut totals = lock(&way.totals);
            totals.connections += 1;
            totals.connections
        };
        open.spawn(relay(broker, number, way.clone()));
        while open.try_join_next().is_some() {}
    }
}

/// Relays one connection until both ends have closed.
async fn relay(broker: TcpStream, number: u64, way: Way) {
    let listener = Listener::new(number, way.tell.clone());
    let guacd = TcpStream::connect((way.guacd.host.as_str(), way.guacd.port)).await;
    let guacd = match guacd {
        Ok(guacd) => guacd,
        Err(error) => {
            let text = format!("guacd at {} cannot be reached: {error}", way.guacd);
            return listener.say(What::Trouble(text));
        }
    };
    for socket in [&broker, &guacd] {
        // Small instructions must not wait for more; if they do, nothing breaks.
        let _ = socket.set_nodelay(true);
    }
    let (from_broker, into_broker) = broker.into_split();
    let (from_guacd, into_guacd) = guacd.into_split();
    let listener = Mutex::new(listener);
    // Heard before it is passed on: what follows from it comes later.
    let up = pass(from_broker, into_guacd, |bytes| {
        lock(&listener).hear_request(bytes);
    });
    let down = pass(from_guacd, into_broker, |bytes| {
        lock(&listener).hear_answer(bytes);
    });
    let (to_guacd, from_guacd) = tokio::join!(up, down);
    {
        let mut totals = lock(&way.totals);
        totals.to_guacd += to_guacd;
        totals.from_guacd += from_guacd;
    }
    lock(&listener).say(What::Ended {
        to_guacd,
        from_guacd,
    });
}

/// Passes bytes one way until there are no more; how many.
async fn pass(mut from: OwnedReadHalf, mut into: OwnedWriteHalf, hear: impl Fn(&[u8])) -> u64 {
    let mut buffer = vec![0; CHUNK];
    let mut passed = 0;
    loop {
        // A side that broke off is passed on as a side that closed.
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        hear(bytes);
        if into.write_all(bytes).await.is_err() {
            break;
        }
        passed += bytes.len() as u64;
    }
    // Fails where that side is gone already.
    let _ = into.shutdown().await;
    passed
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: SocketAddr) -> HostPort {
        HostPort {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }

    /// Bytes of every value, no protocol anybody knows.
    fn noise(length: usize, start: u8) -> Vec<u8> {
        let mut byte = start;
        std::iter::repeat_with(|| {
            byte = byte.wrapping_mul(61).wrapping_add(7);
            byte
        })
        .take(length)
        .collect()
    }

    #[tokio::test]
    async fn every_byte_passes_both_ways_as_it_came_and_is_counted() {
        let guacd = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut tap = Tap::before(at(guacd.local_addr().unwrap())).await.unwrap();
        let (there, back) = (noise(300_000, 1), noise(700_001, 2));
        let mut broker = TcpStream::connect(tap.address).await.unwrap();
        let (mut guacd, _) = guacd.accept().await.unwrap();
        let asking = async {
            let (mut from, mut into) = broker.split();
            let sent = async {
                into.write_all(&there).await.unwrap();
                into.shutdown().await.unwrap();
            };
            let mut got = Vec::new();
            let (_, read) = tokio::join!(sent, from.read_to_end(&mut got));
            read.unwrap();
            got
        };
        let answering = async {
            let (mut from, mut into) = guacd.split();
            let sent = async {
                into.write_all(&back).await.unwrap();
                into.shutdown().await.unwrap();
            };
            let mut got = Vec::new();
            let (_, read) = tokio::join!(sent, from.read_to_end(&mut got));
            read.unwrap();
            got
        };
        let (at_broker, at_guacd) = tokio::join!(asking, answering);
        assert!(at_guacd == there && at_broker == back);
        loop {
            let overheard = tap.overheard.recv().await.unwrap();
            if let What::Ended {
                to_guacd,
                from_guacd,
            } = overheard.what
            {
                assert_eq!((to_guacd, from_guacd), (300_000, 700_001));
                break;
            }
        }
        let expected = Totals {
            connections: 1,
            to_guacd: 300_000,
            from_guacd: 700_001,
        };
        assert_eq!(tap.totals(), expected);
    }

    #[tokio::test]
    async fn a_guacd_that_is_not_there_is_said_and_the_broker_is_let_go() {
        let nowhere = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = at(nowhere.local_addr().unwrap());
        drop(nowhere);
        let mut tap = Tap::before(address).await.unwrap();
        let mut broker = TcpStream::connect(tap.address).await.unwrap();
        assert_eq!(broker.read(&mut [0; 8]).await.unwrap(), 0);
        let overheard = tap.overheard.recv().await.unwrap();
        assert_eq!(overheard.connection, 1);
        assert!(
            matches!(overheard.what, What::Trouble(text) if text.contains("cannot be reached"))
        );
    }
}
