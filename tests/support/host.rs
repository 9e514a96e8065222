//! RDP hosts as a probe meets them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::eventually;

/// An X.224 connection confirm that selects TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];
/// One that carries a negotiation failure: RDP all the same.
const FAILURE: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 3, 0, 8, 0, 5, 0, 0, 0,
];

/// A port that takes connections.
pub(crate) struct ScriptedHost {
    address: SocketAddr,
    /// The port itself, beside whoever accepts there.
    socket: Socket,
    asked: Arc<AtomicUsize>,
    up: Arc<AtomicBool>,
    /// Milliseconds it takes to answer.
    thinks: Arc<AtomicU64>,
    mute: Arc<AtomicBool>,
    /// Shared with whoever accepts, for as long as that goes on.
    accepting: Arc<AtomicBool>,
}

impl ScriptedHost {
    /// Answers as RDP does.
    pub(crate) fn up() -> Self {
        Self::answering(&CONFIRM)
    }

    /// Answers that it wants another kind of security.
    pub(crate) fn unwilling() -> Self {
        Self::answering(&FAILURE)
    }

    /// Takes the connection and says nothing.
    pub(crate) fn silent() -> Self {
        Self::answering(&[])
    }

    /// Something else listens there.
    pub(crate) fn ssh() -> Self {
        Self::answering(b"SSH-2.0-OpenSSH_9.2\r\n")
    }

    /// Up at this address.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self::on(TcpListener::bind(address).unwrap(), &CONFIRM)
    }

    fn answering(answer: &'static [u8]) -> Self {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), answer)
    }

    fn on(listener: TcpListener, answer: &'static [u8]) -> Self {
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let socket = Socket::from(listener.try_clone().unwrap());
        let up = Arc::new(AtomicBool::new(true));
        let thinks = Arc::new(AtomicU64::new(0));
        let pause = Arc::clone(&thinks);
        let mute = Arc::new(AtomicBool::new(false));
        let accepting = Arc::new(AtomicBool::new(true));
        let (count, is_up) = (Arc::clone(&asked), Arc::clone(&up));
        let (is_mute, goes_on) = (Arc::clone(&mute), Arc::clone(&accepting));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if !goes_on.load(Ordering::SeqCst) {
                    break;
                }
                count.fetch_add(1, Ordering::SeqCst);
                if is_up.load(Ordering::SeqCst) {
                    let pause = Duration::from_millis(pause.load(Ordering::SeqCst));
                    let is_mute = is_mute.load(Ordering::SeqCst);
                    let answer = if is_mute { &[][..] } else { answer };
                    thread::spawn(move || attend(stream, answer, pause));
                }
            }
        });
        Self {
            address,
            socket,
            asked,
            up,
            thinks,
            mute,
            accepting,
        }
    }

    /// From now on it answers, or hangs up on whoever connects.
    pub(crate) fn answer(&self, does: bool) {
        self.up.store(does, Ordering::SeqCst);
    }

    /// From now on it answers, and takes so long.
    pub(crate) fn answer_after(&self, pause: Duration) {
        let millis = pause.as_millis().try_into().unwrap();
        self.thinks.store(millis, Ordering::SeqCst);
    }

    /// From now on it takes connections and says nothing.
    pub(crate) fn hush(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    /// From now on nobody listens there.
    pub(crate) fn refuse(&self) {
        self.socket.shutdown(Shutdown::Both).unwrap();
    }

    /// From now on it swallows connections; what is returned keeps its queue full.
    pub(crate) fn swallow(&self) -> Vec<TcpStream> {
        self.accepting.store(false, Ordering::SeqCst);
        drop(TcpStream::connect(self.address).unwrap());
        eventually("nobody accepts any more", || {
            (Arc::strong_count(&self.accepting) == 1).then_some(())
        });
        filled(&self.socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often it was connected to.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Answers the first question, then waits for the other side to leave.
fn attend(mut stream: TcpStream, answer: &[u8], pause: Duration) {
    let mut question = [0; 64];
    if !matches!(stream.read(&mut question), Ok(1..)) {
        return;
    }
    thread::sleep(pause);
    if stream.write_all(answer).is_ok() {
        while matches!(stream.read(&mut question), Ok(1..)) {}
    }
}

/// A port of ours that nobody listens on: connections are refused.
pub(crate) struct ClosedPort(Socket);

impl ClosedPort {
    pub(crate) fn new() -> Self {
        Self(bound())
    }

    /// A host starts here.
    pub(crate) fn listen(self) -> ScriptedHost {
        self.0.listen(128).unwrap();
        ScriptedHost::on(self.0.into(), &CONFIRM)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

/// A port that swallows connections: its queue is full and stays so.
pub(crate) struct BlackHole {
    socket: Socket,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    pub(crate) fn new() -> Self {
        let socket = bound();
        let queued = filled(&socket);
        Self {
            socket,
            _queued: queued,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap().as_socket().unwrap()
    }
}

/// Connections that fill a port's queue, which nobody empties.
fn filled(socket: &Socket) -> Vec<TcpStream> {
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let patience = Duration::from_millis(300);
    let queued: Vec<_> = std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok())
        .take(64)
        .collect();
    assert!(queued.len() < 64, "the queue never fills on this system");
    queued
}

fn bound() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).unwrap();
    socket
}
