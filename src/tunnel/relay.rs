//! The long part: bytes both ways, unchanged, for hours.
//!
//! From guacd to Guacamole the framing is followed to the end, to learn
//! whether the RDP connection stood, to notice that guacd is saying goodbye,
//! and to know where an instruction of our own may stand. Framing that is lost
//! never ends a tunnel: it is said once and the rest is relayed blind.
//!
//! A task of its own, since most tunnels wait most of the time: nothing of the
//! handshake is kept, and what only some need at some time, such as a timer, is
//! made when they do. Where it runs goes by how much it has to move at a time.

mod loudness;
mod task;
mod watch;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use guac_protocol::{Framing, Rest, Side, Status};
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::attempts::blames;
use super::lane::{Broken, Lane};
use super::outcome::{Outcome, Phase};
use super::pool::{Dialled, Taken};
use super::quiet::Seat;
use super::refuse;
use super::registry::Registered;
use super::stop::Stop;
use super::{Gateway, Ready};
use crate::entrance::Pass;
use crate::tls::Stream;
use loudness::Loudness;
use task::Task;
use watch::Watch;

/// From guacd's goodbye, or our own, to the close: guacd's end of stream may
/// never come.
const LINGER: Duration = Duration::from_secs(1);

/// Set by what has to be over soon, and not there before.
type Moment = Option<Pin<Box<Sleep>>>;

/// A tunnel whose handshake is over.
pub(super) struct Relay {
    guacamole: Stream,
    guacd: Stream,
    up: Up,
    down: Down,
    /// Whose turn it is to be first: a way without end leaves the other one room.
    is_up_first: bool,
    loudness: Loudness,
    carrier: Carrier,
    outcome: Outcome,
    /// Nobody can join without it.
    issued: Option<Registered>,
    /// It counts as one of guacd's until both are closed.
    counted: Option<Taken>,
    gateway: Arc<Gateway>,
    /// Kept until both are closed.
    place: Pass,
    /// Its task is woken by who tells it to end.
    is_listening: bool,
    /// Of which it is one, once it runs.
    tasks: Option<TaskTracker>,
}

/// Who carries a relay.
enum Carrier {
    /// The runtime on which tunnels begin, until it is known how loud it is.
    Unknown,
    Quiet {
        _seat: Seat,
    },
    Loud,
}

/// What becomes of a task of a relay.
enum Next {
    Ends(Came),
    Moves(Handle),
}

/// Guacamole to guacd.
struct Up {
    framing: Framing,
    /// Guacamole's `disconnect` passed, after which neither side need close by
    /// itself.
    goodbye: bool,
    bytes: u64,
    lane: Lane,
    last_moment: Moment,
}

/// guacd to Guacamole.
struct Down {
    watch: Watch,
    bytes: u64,
    lane: Lane,
    last_moment: Moment,
}

/// What the relay came to.
enum Came {
    /// Its end.
    Ended(Stop),
    /// Its end, of which guacd may still say why.
    Lost(Stop),
    /// Its end, of which Guacamole has to be told.
    Speaks(&'static str, Status, Stop),
}

impl Relay {
    /// `sockets` are Guacamole's and guacd's, with what was read of both that is
    /// to be passed on before anything else.
    pub(super) fn new(
        (guacamole, guacd, rest): (Stream, Dialled, Rest),
        ready: Ready,
        mut outcome: Outcome,
        gateway: Arc<Gateway>,
        place: Pass,
    ) -> Box<Self> {
        let Ready { hold, issued } = ready;
        outcome.trace.relay();
        outcome.phase = match hold {
            Some(_) => Phase::Pending,
            None => Phase::Relayed,
        };
        let (guacd, counted) = guacd.apart();
        let Rest {
            to_guacd,
            to_guacamole,
        } = rest;
        let mut watch = Watch::new(hold);
        watch.look(&to_guacamole, outcome.entry());
        let down = Down {
            watch,
            bytes: 0,
            lane: Lane::new(to_guacamole),
            last_moment: None,
        };
        let (mut framing, mut goodbye) = (Framing::new(), false);
        look(&mut framing, &mut goodbye, &to_guacd);
        let up = Up {
            framing,
            goodbye,
            bytes: 0,
            lane: Lane::new(to_guacd),
            last_moment: None,
        };
        Box::new(Self {
            guacamole,
            guacd,
            up,
            down,
            is_up_first: false,
            loudness: Loudness::unknown(),
            carrier: Carrier::Unknown,
            outcome,
            issued,
            counted,
            gateway,
            place,
            is_listening: false,
            tasks: None,
        })
    }

    /// Relays until one side ends it or it is told to end, and closes both; as one of
    /// these tasks, wherever it goes.
    pub(super) fn run(mut self: Box<Self>, tasks: TaskTracker) -> Task {
        self.tasks = Some(tasks);
        Task::Relays(self)
    }

    /// Polled by one task, until something came of it, or it goes on elsewhere.
    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if !self.is_listening {
            // From here on; whether it was told, is cheaper to ask than to hear.
            self.is_listening = true;
            self.outcome.entry().told().listen(context);
        }
        match self.poll(context) {
            Poll::Pending => self
                .elsewhere()
                .map_or(Poll::Pending, |there| Poll::Ready(Next::Moves(there))),
            came => came.map(Next::Ends),
        }
    }

    async fn end_after(mut self: Box<Self>, came: Came) {
        let stop = match came {
            Came::Ended(stop) => stop,
            came => self.say_last(came).await,
        };
        self.end(stop).await;
    }

    /// Goes on there, as another task.
    fn move_to(mut self: Box<Self>, there: &Handle) {
        {
            let _there = there.enter();
            for stream in [&mut self.guacamole, &mut self.guacd] {
                if let Err(error) = stream.settle() {
                    // It is woken from afar, which is slower.
                    debug!(%error, "A connection could not be moved to another thread");
                }
            }
        }
        self.is_listening = false;
        // Never dropped here, whoever forgot to say among which tasks it is.
        let tasks = self.tasks.take().unwrap_or_default();
        tasks.spawn_on(self.run(tasks.clone()), there);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Came> {
        let before = self.up.bytes + self.down.bytes;
        self.is_up_first = !self.is_up_first;
        for is_up in [self.is_up_first, !self.is_up_first] {
            let came = match is_up {
                true => self.poll_up(context),
                false => self.poll_down(context),
            };
            if came.is_ready() {
                return came;
            }
        }
        self.loudness
            .moved(self.up.bytes + self.down.bytes - before);
        Poll::Pending
    }

    /// Where it is better off than here, if anywhere: a seat on a quiet thread, which
    /// is taken, or with the loud ones. Who is about to end does so where it is.
    fn elsewhere(&mut self) -> Option<Handle> {
        if self.up.last_moment.is_some() || self.down.last_moment.is_some() {
            return None;
        }
        let found = match self.carrier {
            Carrier::Unknown | Carrier::Quiet { .. } if self.loudness.is_loud() => {
                let there = self.gateway.loud.runtime();
                there.map(|there| (Carrier::Loud, there.clone()))
            }
            Carrier::Unknown | Carrier::Loud if self.loudness.is_quiet() => {
                let seat = self.gateway.quiet.seat();
                seat.map(|(seat, there)| (Carrier::Quiet { _seat: seat }, there))
            }
            _ => return None,
        };
        let Some((carrier, there)) = found else {
            self.loudness = Loudness::unknown();
            return None;
        };
        self.carrier = carrier;
        Some(there)
    }

    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Came> {
        let Up {
            framing,
            goodbye,
            bytes,
            lane,
            last_moment,
        } = &mut self.up;
        loop {
            if *goodbye && has_come(last_moment, context) {
                return Poll::Ready(Came::Ended(Stop::Closed(Side::Guacamole)));
            }
            let see = |bytes: &[u8]| look(framing, goodbye, bytes);
            let passed = lane.poll_pass(context, &mut self.guacamole, &mut self.guacd, see);
            return Poll::Ready(Came::Ended(match ready!(passed) {
                Ok(0) => Stop::Closed(Side::Guacamole),
                Ok(count) => {
                    *bytes += count as u64;
                    self.outcome.entry().sent_to_guacd(*bytes);
                    continue;
                }
                Err(Broken::Read(error)) => socket_failed(Side::Guacamole, error),
                // A guacd that leaves with something of Guacamole's unread resets its side; its
                // last words may have arrived before that, and say why.
                Err(Broken::Written(error)) if !is_silence(&error) => {
                    return Poll::Ready(Came::Lost(socket_failed(Side::Guacd, error)));
                }
                Err(Broken::Written(error)) => socket_failed(Side::Guacd, error),
            }));
        }
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Came> {
        let Down {
            watch,
            bytes,
            lane,
            last_moment,
        } = &mut self.down;
        let entry = self.outcome.entry();
        let is_told = entry.told().is_told();
        loop {
            if is_told && lane.is_clear() && watch.may_speak() {
                let stop = entry.told_to_end();
                return Poll::Ready(Came::Speaks("", Status::SessionClosed, stop));
            }
            if (is_told || watch.goodbye.is_some()) && has_come(last_moment, context) {
                if lane.is_clear() {
                    return Poll::Ready(Came::Ended(watch.ended(entry.told_to_end())));
                }
                if is_told {
                    // Guacamole does not read: nothing can be said to it.
                    return Poll::Ready(Came::Ended(entry.told_to_end()));
                }
                // What guacd said last is let through, however slowly.
                *last_moment = None;
                continue;
            }
            let see = |bytes: &[u8]| watch.look(bytes, entry);
            let passed = lane.poll_pass(context, &mut self.guacd, &mut self.guacamole, see);
            return Poll::Ready(match ready!(passed) {
                Ok(0) if watch.failed_without_a_word() => Came::Speaks(
                    "the RDP connection ended before it stood",
                    Status::UpstreamUnavailable,
                    Stop::Closed(Side::Guacd),
                ),
                Ok(0) => Came::Ended(watch.ended(Stop::Closed(Side::Guacd))),
                Ok(count) => {
                    *bytes += count as u64;
                    entry.sent_to_guacamole(*bytes);
                    continue;
                }
                Err(Broken::Read(error)) => {
                    Came::Ended(watch.ended(socket_failed(Side::Guacd, error)))
                }
                Err(Broken::Written(error)) => Came::Ended(socket_failed(Side::Guacamole, error)),
            });
        }
    }

    /// What is still to be said, by guacd or by us.
    async fn say_last(&mut self, came: Came) -> Stop {
        match came {
            Came::Ended(stop) => stop,
            Came::Lost(stop) => {
                let said = async {
                    let came = poll_fn(|context| self.poll_down(context)).await;
                    match came {
                        Came::Speaks(why, status, stop) => {
                            self.say_farewell(why, status, stop).await
                        }
                        Came::Ended(stop) | Came::Lost(stop) => stop,
                    }
                };
                timeout(LINGER, said).await.unwrap_or(stop)
            }
            Came::Speaks(why, status, stop) => self.say_farewell(why, status, stop).await,
        }
    }

    /// Tells Guacamole `why`, or how it stopped; what it says meanwhile still goes
    /// to guacd.
    async fn say_farewell(&mut self, why: &str, status: Status, stop: Stop) -> Stop {
        let why = match why {
            "" => stop.to_string(),
            why => why.to_owned(),
        };
        let tunnel = self.outcome.tunnel();
        let farewell = refuse::farewell(&format!("{why} (tunnel {tunnel})"), status);
        self.down.lane.put(&farewell);
        let said = poll_fn(|context| {
            let _ = self.poll_up(context);
            self.down.lane.poll_rest(context, &mut self.guacamole)
        });
        // A Guacamole that does not listen any more is let go.
        let _ = timeout(LINGER, said).await;
        stop
    }

    /// Gives back what the tunnel had, and closes it.
    async fn end(self: Box<Self>, stop: Stop) {
        let Self {
            guacamole,
            guacd,
            up,
            down,
            mut outcome,
            issued,
            counted,
            gateway,
            place,
            ..
        } = *self;
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
        if down.watch.stood {
            outcome.phase = Phase::Stood;
        }
        drop((up, down));
        close_both(&stop, guacamole, guacd).await;
        drop(counted);
        gateway.conclude(&outcome, &stop);
        drop(place);
    }
}

/// Whether this moment has come; it is set where it is not.
fn has_come(moment: &mut Moment, context: &mut Context<'_>) -> bool {
    let moment = moment.get_or_insert_with(|| Box::pin(sleep(LINGER)));
    moment.as_mut().poll(context).is_ready()
}

/// Looks for Guacamole's goodbye.
fn look(framing: &mut Framing, goodbye: &mut bool, bytes: &[u8]) {
    // Framing that is lost hides a goodbye; the end of the stream still comes.
    let _ = framing.scan(bytes, |seen| {
        *goodbye |= seen.opcode() == "disconnect";
    });
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
