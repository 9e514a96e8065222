//! A host that answers until it is killed, in one of the ways in which hosts die.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// An X.224 connection confirm that selects TLS.
const CONFIRM: [u8; 19] = [
    3, 0, 0, 19, 14, 0xd0, 0, 0, 0x12, 0x34, 0, 2, 0, 8, 0, 1, 0, 0, 0,
];
/// So long a full queue is given to prove that it is full.
const PROOF: Duration = Duration::from_millis(50);

/// What whoever dials the dead host meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// A reset: nobody listens.
    Refused,
    /// Nothing at all: no SYN is answered.
    BlackHole,
    /// A connection on which X.224 is not answered.
    Silent,
}

/// What is left of a host.
enum Remains {
    Port(Socket),
    FullQueue(TcpListener, Vec<TcpStream>),
    Attendant(JoinHandle<TcpListener>),
}

/// A host, alive at first.
pub(crate) struct MortalHost {
    address: SocketAddr,
    /// It answers.
    lives: Arc<AtomicBool>,
    /// It accepts.
    accepts: Arc<AtomicBool>,
    remains: Option<Remains>,
}

impl MortalHost {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let [lives, accepts] = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
        let (is_alive, goes_on) = (Arc::clone(&lives), Arc::clone(&accepts));
        let attendant = thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if !goes_on.load(Ordering::SeqCst) {
                    break;
                }
                let is_alive = Arc::clone(&is_alive);
                thread::spawn(move || attend(stream, &is_alive));
            }
            listener
        });
        Self {
            address,
            lives,
            accepts,
            remains: Some(Remains::Attendant(attendant)),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From when this returns on it is dead.
    pub(crate) fn die(&mut self, how: Death) {
        self.lives.store(false, Ordering::SeqCst);
        if how == Death::Silent {
            return;
        }
        let listener = self.closed();
        self.remains = Some(match how {
            Death::BlackHole => {
                SockRef::from(&listener).listen(0).unwrap();
                let dial = || TcpStream::connect_timeout(&self.address, PROOF).ok();
                let queued: Vec<_> = std::iter::from_fn(dial).take(64).collect();
                assert!(queued.len() < 64, "the queue never fills on this system");
                Remains::FullQueue(listener, queued)
            }
            _ => {
                drop(listener);
                // Bound, so that nobody else comes to listen there.
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.set_reuse_address(true).unwrap();
                socket.bind(&self.address.into()).unwrap();
                Remains::Port(socket)
            }
        });
    }

    /// Accepts no more.
    fn closed(&mut self) -> TcpListener {
        self.accepts.store(false, Ordering::SeqCst);
        match self.remains.take() {
            Some(Remains::Attendant(attendant)) => {
                // Whoever comes next wakes it.
                drop(TcpStream::connect(self.address));
                attendant.join().unwrap()
            }
            _ => panic!("a host dies once"),
        }
    }
}

impl Drop for MortalHost {
    fn drop(&mut self) {
        if let Some(Remains::Attendant(_)) = self.remains {
            drop(self.closed());
        }
    }
}

/// Answers one question, and waits for the other side to leave.
fn attend(mut stream: TcpStream, is_alive: &AtomicBool) {
    let mut question = [0; 64];
    while matches!(stream.read(&mut question), Ok(1..)) {
        if is_alive.load(Ordering::SeqCst) && stream.write_all(&CONFIRM).is_err() {
            return;
        }
    }
}
