//! The long part: bytes both ways, unchanged, for hours.
//!
//! From guacd to Guacamole the framing is followed to the end, to learn
//! whether the RDP connection stood, to notice that guacd is saying goodbye,
//! and to know where an instruction of our own may stand. Framing that is lost
//! never ends a tunnel: it is said once and the rest is relayed blind.

use std::io;
use std::pin::pin;
use std::time::Duration;

use guac_protocol::{Framing, FramingError, Rest, Side, Status, StoodWatch, Verdict};
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::Ready;
use super::attempts::blames;
use super::lane::{Broken, Lane};
use super::open::Entry;
use super::outcome::{Outcome, Phase};
use super::pool::Dialled;
use super::refuse;
use super::stop::Stop;
use crate::broker::Hold;
use crate::tls::Stream;

type Way<'a> = Lane<ReadHalf<&'a mut Stream>, WriteHalf<&'a mut Stream>>;

/// From guacd's goodbye, or our own, to the close: guacd's end of stream may
/// never come.
const LINGER: Duration = Duration::from_secs(1);

/// Relays until one side ends it or it is told to end; says how it ended.
/// `sockets` are Guacamole's and guacd's, with what was read of both that is to
/// be passed on before anything else.
pub(super) async fn run(
    sockets: io::Result<(Stream, Dialled, Rest)>,
    ready: Ready,
    outcome: &mut Outcome,
) -> Stop {
    let Ready { hold, issued } = ready;
    outcome.trace.relay();
    outcome.phase = if hold.is_some() {
        Phase::Pending
    } else {
        Phase::Relayed
    };
    let (mut guacamole, guacd, rest) = match sockets {
        Ok(sockets) => sockets,
        Err(error) => return socket_failed(Side::Guacd, error),
    };
    // It counts as one of guacd's until both are closed.
    let (mut guacd, _counted) = guacd.apart();
    let Rest {
        to_guacd,
        to_guacamole,
    } = rest;
    let (from_guacamole, into_guacamole) = split(&mut guacamole);
    let (from_guacd, into_guacd) = split(&mut guacd);
    let entry = outcome.entry();
    let mut watch = Watch::new(hold);
    watch.look(&to_guacamole, entry);
    let mut down = Down {
        watch,
        entry,
        bytes: 0,
        lane: Lane::new(from_guacd, into_guacamole, to_guacamole),
    };
    let (mut framing, mut goodbye) = (Framing::new(), false);
    look(&mut framing, &mut goodbye, &to_guacd);
    let mut up = Up {
        entry,
        framing,
        goodbye,
        bytes: 0,
        lane: Lane::new(from_guacamole, into_guacd, to_guacd),
    };
    let stop = {
        let mut down = pin!(down.run());
        tokio::select! {
            stop = &mut down => stop,
            stop = up.run() => match stop {
                // A guacd that leaves with something of Guacamole's unread resets its side; its
                // last words may have arrived before that, and say why.
                Stop::Socket { side: Side::Guacd, ref error } if !is_silence(error) => {
                    timeout(LINGER, down).await.unwrap_or(stop)
                }
                stop => stop,
            },
        }
    };
    // guacd answers a goodbye with one of its own: the first one counts.
    let stop = match stop {
        Stop::Shutdown | Stop::Ended => stop,
        _ if up.goodbye && down.watch.goodbye.flatten().is_none() => Stop::Goodbye {
            by: Side::Guacamole,
            status: None,
        },
        stop => stop,
    };
    if !down.watch.stood && points_at_the_host(&stop) {
        down.watch.failed();
    }
    // From here on nobody can join, and the seat and the lease are given back.
    drop(issued);
    let (sent, received, stood) = (up.bytes, down.bytes, down.watch.stood);
    drop(down);
    outcome.to_guacd = sent;
    outcome.to_guacamole = received;
    if stood {
        outcome.phase = Phase::Stood;
    }
    close_both(&stop, guacamole, guacd).await;
    stop
}

/// Guacamole to guacd.
struct Up<'a> {
    entry: &'a Entry,
    framing: Framing,
    /// Guacamole's `disconnect` passed, after which neither side need close by
    /// itself.
    goodbye: bool,
    bytes: u64,
    lane: Way<'a>,
}

impl Up<'_> {
    async fn run(&mut self) -> Stop {
        let mut last_moment = None;
        loop {
            if self.goodbye && last_moment.is_none() {
                last_moment = Some(Instant::now() + LINGER);
            }
            let Self {
                framing,
                goodbye,
                lane,
                ..
            } = self;
            let passed = tokio::select! {
                passed = lane.pass(|bytes| look(framing, goodbye, bytes)) => passed,
                () = until(last_moment) => Ok(0),
            };
            match passed {
                Ok(0) => return Stop::Closed(Side::Guacamole),
                Ok(count) => {
                    self.bytes += count as u64;
                    self.entry.sent_to_guacd(self.bytes);
                }
                Err(Broken::Read(error)) => return socket_failed(Side::Guacamole, error),
                Err(Broken::Written(error)) => return socket_failed(Side::Guacd, error),
            }
        }
    }
}

/// Looks for Guacamole's goodbye.
fn look(framing: &mut Framing, goodbye: &mut bool, bytes: &[u8]) {
    // Framing that is lost hides a goodbye; the end of the stream still comes.
    let _ = framing.scan(bytes, |seen| {
        *goodbye |= seen.opcode() == "disconnect";
    });
}

/// guacd to Guacamole.
struct Down<'a> {
    watch: Watch,
    entry: &'a Entry,
    bytes: u64,
    lane: Way<'a>,
}

impl Down<'_> {
    async fn run(&mut self) -> Stop {
        // Asked once for all of a tunnel's life, not anew with every move.
        let mut told = pin!(self.entry.end().cancelled());
        let mut is_told = false;
        let mut last_moment = None;
        loop {
            if is_told && self.lane.is_clear() && self.watch.may_speak() {
                let stop = self.entry.told_to_end();
                self.say_farewell(&stop.to_string(), Status::SessionClosed)
                    .await;
                return stop;
            }
            if last_moment.is_none() && (is_told || self.watch.goodbye.is_some()) {
                last_moment = Some(Instant::now() + LINGER);
            }
            let Self {
                watch, entry, lane, ..
            } = self;
            let passed = tokio::select! {
                passed = lane.pass(|bytes| watch.look(bytes, entry)) => passed,
                () = &mut told, if !is_told => {
                    is_told = true;
                    continue;
                }
                () = until(last_moment) => match self.lane.is_clear() {
                    true => return self.watch.ended(self.entry.told_to_end()),
                    // Guacamole does not read: nothing can be said to it.
                    false if is_told => return self.entry.told_to_end(),
                    // What guacd said last is let through, however slowly.
                    false => {
                        last_moment = None;
                        continue;
                    }
                },
            };
            match passed {
                Ok(0) if self.watch.failed_without_a_word() => {
                    let why = "the RDP connection ended before it stood";
                    self.say_farewell(why, Status::UpstreamUnavailable).await;
                    return Stop::Closed(Side::Guacd);
                }
                Ok(0) => return self.watch.ended(Stop::Closed(Side::Guacd)),
                Ok(count) => {
                    self.bytes += count as u64;
                    self.entry.sent_to_guacamole(self.bytes);
                }
                Err(Broken::Read(error)) => {
                    return self.watch.ended(socket_failed(Side::Guacd, error));
                }
                Err(Broken::Written(error)) => return socket_failed(Side::Guacamole, error),
            }
        }
    }

    async fn say_farewell(&mut self, why: &str, status: Status) {
        let farewell = refuse::farewell(&format!("{why} (tunnel {})", self.entry.id()), status);
        // A Guacamole that does not listen any more is let go.
        let _ = timeout(LINGER, self.lane.send(&farewell)).await;
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What is read off the stream while it passes.
struct Watch {
    framing: Framing,
    stood_watch: StoodWatch,
    hold: Option<Hold>,
    stood: bool,
    /// guacd's `error` or `disconnect`: the number of the first `error`.
    goodbye: Option<Option<u16>>,
}

impl Watch {
    fn new(hold: Option<Hold>) -> Self {
        Self {
            framing: Framing::new(),
            stood_watch: StoodWatch::new(),
            hold,
            stood: false,
            goodbye: None,
        }
    }

    /// Looks at what is about to pass. Where the framing is lost that is said
    /// once, and the rest passes unseen.
    fn look(&mut self, bytes: &[u8], entry: &Entry) {
        let stood = self.stood;
        if let Err(error) = self.see(bytes) {
            let tunnel = entry.id();
            warn!(%tunnel, %error, "guacd's stream cannot be followed, relaying it blind");
        }
        if self.stood && !stood {
            entry.stood();
        }
    }

    fn see(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        let (stood_watch, goodbye) = (&mut self.stood_watch, &mut self.goodbye);
        let scanned = self.framing.scan(bytes, |seen| {
            stood_watch.see(seen);
            match seen.opcode() {
                "error" if goodbye.is_none() => {
                    *goodbye = Some(seen.arg(1).and_then(|code| code.parse().ok()));
                }
                "disconnect" if goodbye.is_none() => *goodbye = Some(None),
                _ => {}
            }
        });
        self.stood_watch.saw_bytes(bytes.len());
        if !self.stood && self.stood_watch.verdict() == Verdict::Stood {
            self.stood = self.hold.is_some();
            if let Some(hold) = &self.hold {
                hold.stood();
            }
        }
        scanned
    }

    /// Whether a brokered connection that never stood ended just so: the page
    /// must then hear from us.
    fn failed_without_a_word(&self) -> bool {
        self.hold.is_some() && !self.stood && self.goodbye.is_none() && self.may_speak()
    }

    /// The RDP connection never stood, by what may be its host's fault.
    fn failed(&self) {
        if let Some(hold) = &self.hold {
            hold.failed();
        }
    }

    /// Whether an instruction of our own may stand here.
    fn may_speak(&self) -> bool {
        self.framing.at_boundary()
    }

    /// guacd's own goodbye says more than the end of its stream.
    fn ended(&self, otherwise: Stop) -> Stop {
        match self.goodbye {
            Some(status) => Stop::Goodbye {
                by: Side::Guacd,
                status,
            },
            None => otherwise,
        }
    }
}

/// Whether an end before the RDP connection stood counts against the host.
fn points_at_the_host(stop: &Stop) -> bool {
    match stop {
        Stop::Goodbye {
            by: Side::Guacd,
            status,
        } => blames(*status),
        stop => stop.may_be_the_hosts(),
    }
}

/// Flushed already: both sides are closed, a reset is passed on as a reset.
async fn close_both(stop: &Stop, guacamole: Stream, guacd: Stream) {
    let reset = |side| matches!(stop, Stop::Socket { side: failed, error } if *failed == side && error.kind() == io::ErrorKind::ConnectionReset);
    if reset(Side::Guacamole) {
        abort(guacd);
    } else if reset(Side::Guacd) {
        abort(guacamole);
    } else {
        tokio::join!(refuse::close(guacamole), refuse::close(guacd));
    }
}

/// Closes with a reset.
fn abort(stream: Stream) {
    let lingering = socket2::SockRef::from(stream.socket()).set_linger(Some(Duration::ZERO));
    if let Err(error) = lingering {
        debug!(%error, "A reset could not be passed on");
    }
}

/// Whoever is gone without a word, or takes nothing, has no last words.
fn is_silence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

fn socket_failed(side: Side, error: io::Error) -> Stop {
    Stop::Socket { side, error }
}
