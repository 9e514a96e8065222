//! A stretch of network between two peers that goes wrong on command.
//!
//! Each way of a connection is read by one thread and written by another, with a
//! short queue between them, so that latency costs time and no throughput, and
//! a way that stands still holds its writer back as a full socket does.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{Dice, eventually};

/// How soon a command is obeyed on connections that run.
const POLL: Duration = Duration::from_millis(5);
/// What is read at a time.
const PIECE: usize = 16 * 1024;
/// Pieces on their way at a time.
const QUEUE: usize = 16;

/// One way through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From who dialled to who was dialled.
    Out,
    /// From who was dialled to who dialled.
    Back,
}

/// Stands between whoever dials it and one address.
pub(crate) struct FaultProxy {
    address: SocketAddr,
    network: Arc<Network>,
}

struct Network {
    /// Nowhere: connections are reset.
    to: Mutex<Option<SocketAddr>>,
    faults: Mutex<Faults>,
    /// The connections that run.
    links: Mutex<Vec<Arc<Link>>>,
    dialled: AtomicUsize,
    swallowed: AtomicUsize,
    closed: AtomicBool,
}

#[derive(Clone)]
struct Faults {
    latency: Duration,
    /// Up to so much more, and what says how much.
    jitter: Duration,
    dice: Dice,
    /// Bytes that are written at a time.
    slice: usize,
    bytes_per_second: Option<u32>,
    stalled: [bool; 2],
    /// What is said is lost, ends included.
    silent: bool,
}

/// One connection, and the one behind it.
struct Link {
    /// Who dialled, who was dialled.
    ends: [TcpStream; 2],
    is_reset: AtomicBool,
    /// Ways that came to their end.
    ended: AtomicUsize,
}

/// A piece of one way, and when it arrives; nothing: the end of the way.
type Piece = (Instant, Option<Vec<u8>>);

impl FaultProxy {
    /// Without a fault yet.
    pub(crate) fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(Network {
            to: Mutex::new(Some(to)),
            faults: Mutex::new(Faults {
                latency: Duration::ZERO,
                jitter: Duration::ZERO,
                dice: Dice::of(1),
                slice: PIECE,
                bytes_per_second: None,
                stalled: [false; 2],
                silent: false,
            }),
            links: Mutex::default(),
            dialled: AtomicUsize::new(0),
            swallowed: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&network);
        thread::spawn(move || accepting.accept(&listener));
        Self { address, network }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there were.
    pub(crate) fn dialled(&self) -> usize {
        self.network.dialled.load(Ordering::SeqCst)
    }

    /// How many bytes were lost.
    pub(crate) fn swallowed(&self) -> usize {
        self.network.swallowed.load(Ordering::SeqCst)
    }

    /// Every piece takes this long, and up to `jitter` more; none overtakes another.
    pub(crate) fn delay(&self, latency: Duration, jitter: Duration, seed: u64) {
        self.change(|faults| {
            (faults.latency, faults.jitter) = (latency, jitter);
            faults.dice = Dice::of(seed);
        });
    }

    /// No write has more bytes than this.
    pub(crate) fn slice(&self, bytes: usize) {
        self.change(|faults| faults.slice = bytes.clamp(1, PIECE));
    }

    /// Each way of each connection carries no more than this; `None`: as much as there is.
    pub(crate) fn limit(&self, bytes_per_second: Option<u32>) {
        self.change(|faults| faults.bytes_per_second = bytes_per_second);
    }

    /// Nothing goes this way until it flows again; nothing is lost.
    pub(crate) fn stall(&self, way: Way) {
        self.change(|faults| faults.stalled[way as usize] = true);
    }

    /// Both ways go on.
    pub(crate) fn flow(&self) {
        self.change(|faults| faults.stalled = [false; 2]);
    }

    /// Half-open from now on: whatever either side says or does, an end or a reset included,
    /// the other hears nothing of it. Connections made from now on hear nothing either.
    pub(crate) fn silence(&self) {
        self.change(|faults| faults.silent = true);
    }

    /// Connections made from now on lead there; those that run stay where they are.
    pub(crate) fn lead_to(&self, to: SocketAddr) {
        *self.network.to.lock().unwrap() = Some(to);
    }

    /// As where nobody listens: connections that run are reset, and so is whoever dials.
    pub(crate) fn cut(&self) {
        *self.network.to.lock().unwrap() = None;
        self.reset();
    }

    /// Resets every connection that runs, on both sides.
    pub(crate) fn reset(&self) {
        let links = std::mem::take(&mut *self.network.links.lock().unwrap());
        for link in &links {
            link.reset();
        }
        // Their threads let go of the sockets, which is when the resets are sent.
        for link in links {
            eventually("a reset", || (Arc::strong_count(&link) == 1).then_some(()));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.network.faults.lock().unwrap());
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.network.closed.store(true, Ordering::SeqCst);
        // Wakes who accepts.
        let _ = TcpStream::connect(self.address);
        self.network.links.lock().unwrap().clear();
    }
}

impl Network {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            self.dialled.fetch_add(1, Ordering::SeqCst);
            let network = Arc::clone(&self);
            thread::spawn(move || network.connect(stream));
        }
    }

    fn connect(self: Arc<Self>, from: TcpStream) {
        let to = *self.to.lock().unwrap();
        let Some(Ok(to)) = to.map(TcpStream::connect) else {
            return reset(&from);
        };
        for end in [&from, &to] {
            end.set_nodelay(true).unwrap();
            end.set_read_timeout(Some(POLL)).unwrap();
            end.set_write_timeout(Some(POLL)).unwrap();
        }
        let link = Arc::new(Link {
            ends: [from, to],
            is_reset: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
        });
        self.links.lock().unwrap().push(Arc::clone(&link));
        for way in [Way::Out, Way::Back] {
            let (queue, pieces) = sync_channel(QUEUE);
            let (network, read) = (Arc::clone(&self), Arc::clone(&link));
            thread::spawn(move || network.read(&read, way, &queue));
            let (network, written) = (Arc::clone(&self), Arc::clone(&link));
            thread::spawn(move || network.write(&written, way, &pieces));
        }
    }

    fn faults(&self) -> Faults {
        self.faults.lock().unwrap().clone()
    }

    fn is_stalled(&self, way: Way) -> bool {
        self.faults.lock().unwrap().stalled[way as usize]
    }

    fn is_silent(&self) -> bool {
        self.faults.lock().unwrap().silent
    }

    /// Whether a connection is of no use any more.
    fn is_over(&self, link: &Link) -> bool {
        link.is_reset.load(Ordering::SeqCst) || self.closed.load(Ordering::SeqCst)
    }

    /// When a piece that is here now arrives.
    fn arrival(&self) -> Instant {
        let mut faults = self.faults.lock().unwrap();
        let jitter = faults.jitter;
        let extra = match jitter.is_zero() {
            true => Duration::ZERO,
            false => jitter.mul_f64(faults.dice.share()),
        };
        Instant::now() + faults.latency + extra
    }

    fn read(&self, link: &Arc<Link>, way: Way, queue: &SyncSender<Piece>) {
        let mut from = &link.ends[way as usize];
        let mut buffer = vec![0; PIECE];
        let mut latest = Instant::now();
        while !self.is_over(link) {
            if self.is_stalled(way) {
                thread::sleep(POLL);
                continue;
            }
            let piece = match from.read(&mut buffer) {
                Ok(0) => None,
                Ok(count) => Some(buffer[..count].to_vec()),
                Err(error) if is_pause(&error) => continue,
                Err(_) if self.is_silent() => return,
                Err(_) => return self.reset(link),
            };
            if self.is_silent() {
                let lost = piece.as_ref().map_or(0, Vec::len);
                self.swallowed.fetch_add(lost, Ordering::SeqCst);
                if piece.is_none() {
                    return;
                }
                continue;
            }
            latest = latest.max(self.arrival());
            let is_end = piece.is_none();
            if queue.send((latest, piece)).is_err() || is_end {
                return;
            }
        }
    }

    fn write(&self, link: &Arc<Link>, way: Way, pieces: &Receiver<Piece>) {
        let to = &link.ends[1 - way as usize];
        for (due, piece) in pieces {
            while Instant::now() < due || self.is_stalled(way) {
                if self.is_over(link) {
                    return;
                }
                let left = due.saturating_duration_since(Instant::now());
                thread::sleep(left.clamp(Duration::from_micros(50), POLL));
            }
            let Some(bytes) = piece else {
                if !self.is_silent() {
                    let _ = to.shutdown(Shutdown::Write);
                    return self.ended(link);
                }
                return;
            };
            if !self.deliver(link, way, &bytes) {
                return;
            }
        }
    }

    /// Writes a piece as the faults of each moment have it; false: it is over.
    fn deliver(&self, link: &Arc<Link>, way: Way, mut bytes: &[u8]) -> bool {
        let mut to = &link.ends[1 - way as usize];
        while !bytes.is_empty() {
            if self.is_over(link) {
                return false;
            }
            let faults = self.faults();
            if faults.silent {
                self.swallowed.fetch_add(bytes.len(), Ordering::SeqCst);
                return true;
            }
            if faults.stalled[way as usize] {
                thread::sleep(POLL);
                continue;
            }
            // Twenty writes a second at most, so that a limit is even.
            let paced = faults
                .bytes_per_second
                .map_or(PIECE, |limit| usize::try_from(limit / 20).unwrap().max(1));
            let count = bytes.len().min(faults.slice).min(paced);
            match to.write(&bytes[..count]) {
                Ok(written) => {
                    bytes = &bytes[written..];
                    if let Some(limit) = faults.bytes_per_second {
                        let share = u32::try_from(written).unwrap();
                        self.rest(link, Duration::from_secs(1) * share / limit.max(1));
                    }
                }
                Err(error) if is_pause(&error) => {}
                Err(_) if self.is_silent() => return true,
                Err(_) => {
                    self.reset(link);
                    return false;
                }
            }
        }
        true
    }

    /// Sleeps, but no longer than the connection lasts.
    fn rest(&self, link: &Link, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until && !self.is_over(link) {
            let left = until.saturating_duration_since(Instant::now());
            thread::sleep(left.min(POLL));
        }
    }

    /// A way came to its end; behind the second the sockets are let go.
    fn ended(&self, link: &Arc<Link>) {
        if link.ended.fetch_add(1, Ordering::SeqCst) == 1 {
            self.forget(link);
        }
    }

    /// What one side did to the connection is done to the other.
    fn reset(&self, link: &Arc<Link>) {
        link.reset();
        self.forget(link);
    }

    fn forget(&self, link: &Arc<Link>) {
        let mut links = self.links.lock().unwrap();
        links.retain(|one| !Arc::ptr_eq(one, link));
    }
}

impl Link {
    /// The resets are sent once nobody holds the sockets any more.
    fn reset(&self) {
        self.ends.iter().for_each(reset);
        self.is_reset.store(true, Ordering::SeqCst);
    }
}

fn reset(end: &TcpStream) {
    let socket = socket2::SockRef::from(end);
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Nothing to read, or no room to write, for the moment.
fn is_pause(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
