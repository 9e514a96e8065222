//! Guacamole while its desktop is being sought, and the guacd of the attempt
//! under way.
//!
//! A thin shell, as the line is for the handshake: the protocol crate's machine
//! says what bytes mean, this reads, writes and keeps both sides awake. Whatever
//! is waited for meanwhile (a check, a placement, a dial) is waited for here, so
//! that Guacamole is heard and the page is never left without a sign of life.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use guac_protocol::{Attempt, ConnectionId, Instruction, Progress, Rest, Side};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::line::{Awaits, GivenUp};
use super::super::pool::Dialled;
use super::super::stop::Stop;
use crate::tls::Stream;

/// From one `nop` to the next: the page misses it after 5 s, guacd hangs up
/// after 15 s.
const NOP_EVERY: Duration = Duration::from_secs(4);

/// guacd hangs up 15 s after it last read something: what comes later is lost,
/// and the user would be logged on nowhere. Nothing is written past this.
pub(in crate::tunnel) const FENCE: Duration = Duration::from_secs(14);

pub(in crate::tunnel) struct Waiting {
    guacamole: Stream,
    guacd: Option<Dialled>,
    /// The guacd whose `args` Guacamole was shown, until an attempt takes it,
    /// and when it was last written to.
    first: Option<(Dialled, Instant)>,
    attempt: Attempt,
    /// Whether guacd has all it asked for, and takes a `nop`.
    is_connecting: bool,
    /// What Guacamole waits for: `ready`, until it has that.
    awaits: Awaits,
    /// How guacd's stream ended.
    gone: Option<Stop>,
    nop_at: Instant,
}

/// What came first.
pub(super) enum First<T> {
    /// guacd said something that matters.
    Heard(Progress),
    /// What was waited for.
    Done(T),
}

/// One thing that happens while something is waited for.
enum Round {
    Read(Side, io::Result<usize>, Vec<u8>),
    NopIsDue,
}

impl Waiting {
    /// Goes on behind a handshake's `connect`. `guacd` was last written to then.
    pub(in crate::tunnel) fn new(
        guacamole: Stream,
        guacd: Option<(Dialled, Instant)>,
        rest: Rest,
    ) -> Result<Self, (Stream, Stop)> {
        let attempt = match Attempt::new(rest) {
            Ok(attempt) => attempt,
            Err(error) => return Err((guacamole, error.into())),
        };
        Ok(Self {
            guacamole,
            guacd: None,
            first: guacd,
            attempt,
            is_connecting: false,
            awaits: Awaits::Ready,
            gone: None,
            nop_at: Instant::now() + NOP_EVERY,
        })
    }

    /// Waits for `work` alone, while no guacd is listened to.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let mut work = pin!(work);
        loop {
            if let Some(done) = self.turn(work.as_mut()).await? {
                return Ok(done);
            }
        }
    }

    /// Waits for guacd to say something that matters, or for `work`.
    pub(super) async fn first_of<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<First<T>, Stop> {
        let mut work = pin!(work);
        loop {
            match self.attempt.step()? {
                // The next turn says so.
                Progress::Pending | Progress::Left => {}
                Progress::Refused { status } => {
                    let goodbye = Stop::Goodbye {
                        by: Side::Guacd,
                        status,
                    };
                    return Err(self.gone.take().unwrap_or(goodbye));
                }
                heard => return Ok(First::Heard(heard)),
            }
            if let Some(done) = self.turn(work.as_mut()).await? {
                return Ok(First::Done(done));
            }
        }
    }

    /// The next thing that happens; `Some` where that is the end of `work`.
    async fn turn<T>(
        &mut self,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<Option<T>, Stop> {
        if self.attempt.has_left() {
            return Err(Stop::Goodbye {
                by: Side::Guacamole,
                status: None,
            });
        }
        let round = tokio::select! {
            done = work => return Ok(Some(done)),
            round = self.round() => round,
        };
        // Never cancelled by `work`: a `nop` is written whole.
        match round {
            Round::NopIsDue => self.keep_awake().await?,
            Round::Read(Side::Guacamole, Ok(0), _) => return Err(Stop::Closed(Side::Guacamole)),
            Round::Read(side @ Side::Guacamole, Err(error), _) => {
                return Err(Stop::Socket { side, error });
            }
            Round::Read(side @ Side::Guacd, Ok(0), _) => self.lost_guacd(Stop::Closed(side)),
            Round::Read(side @ Side::Guacd, Err(error), _) => {
                self.lost_guacd(Stop::Socket { side, error });
            }
            Round::Read(side, Ok(_), bytes) => self.attempt.feed(side, &bytes)?,
        }
        Ok(None)
    }

    /// Reads only, so that it may be cancelled.
    async fn round(&mut self) -> Round {
        // What Guacamole says beyond what can be kept waits in its socket.
        let has_room = self.attempt.room() >= Stream::TAKEN_AT_MOST;
        let (mut from_guacamole, mut from_guacd) = (Vec::new(), Vec::new());
        let Self {
            guacamole, guacd, ..
        } = self;
        let (side, read) = tokio::select! {
            // Where both have left, the page has: nobody is to be tried for it.
            biased;
            read = guacamole.take(&mut from_guacamole), if has_room => (Side::Guacamole, read),
            read = async {
                match guacd {
                    Some(guacd) => guacd.stream.take(&mut from_guacd).await,
                    None => std::future::pending().await,
                }
            } => (Side::Guacd, read),
            () = sleep_until(self.nop_at) => return Round::NopIsDue,
        };
        let bytes = match side {
            Side::Guacamole => from_guacamole,
            Side::Guacd => from_guacd,
        };
        Round::Read(side, read, bytes)
    }

    async fn keep_awake(&mut self) -> Result<(), Stop> {
        self.nop_at = Instant::now() + NOP_EVERY;
        let nop = Instruction::nop();
        // The page first: it has the least patience, and guacd may take nothing.
        self.tell_guacamole(&nop).await?;
        if self.is_connecting {
            // A guacd that is gone says so when it is read.
            let _ = self.tell_guacd(&nop).await;
        }
        Ok(())
    }

    fn lost_guacd(&mut self, stop: Stop) {
        self.guacd = None;
        self.gone = Some(stop);
        self.attempt.end_of_guacd();
    }

    /// Listens to the guacd whose `args` Guacamole was shown; false where an
    /// attempt had it already, or it will not wait much longer.
    pub(super) fn take_first(&mut self) -> bool {
        let first = self.first.take();
        self.guacd = first
            .filter(|(_, told)| told.elapsed() < FENCE)
            .map(|(guacd, _)| guacd);
        self.guacd.is_some()
    }

    /// Listens to a guacd that was dialled anew.
    pub(super) fn dialled(&mut self, guacd: Dialled) {
        self.hang_up();
        self.guacd = Some(guacd);
    }

    /// The guacd that is listened to.
    pub(super) fn guacd(&self) -> Option<&Dialled> {
        self.guacd.as_ref()
    }

    /// Whether guacd's stream ended, in good order or not.
    pub(super) fn has_lost_guacd(&self) -> bool {
        self.gone.is_some()
    }

    /// guacd has got `connect`.
    pub(super) fn is_connecting(&mut self) {
        self.is_connecting = true;
    }

    /// Forgets the guacd that is listened to, and all it said.
    pub(super) fn hang_up(&mut self) {
        if self.first.is_some() {
            // No attempt has listened to any yet.
            return;
        }
        (self.guacd, self.gone, self.is_connecting) = (None, None, false);
        self.attempt.again();
    }

    pub(super) async fn tell_guacd(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        self.write_guacd(&instruction.encode(Side::Guacd)?).await
    }

    pub(super) async fn write_guacd(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let side = Side::Guacd;
        let guacd = self.guacd.as_mut().ok_or(Stop::Closed(side))?;
        let written = write(&mut guacd.stream, bytes).await;
        written.map_err(|error| Stop::Socket { side, error })
    }

    /// Tells Guacamole that it is served.
    pub(super) async fn tell_ready(&mut self, id: &ConnectionId) -> Result<(), Stop> {
        // In part, perhaps, where this is cancelled: not to be said twice.
        self.awaits = Awaits::Nothing;
        self.tell_guacamole(&Instruction::ready(id)).await
    }

    async fn tell_guacamole(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let side = Side::Guacamole;
        let bytes = instruction.encode(side)?;
        let written = write(&mut self.guacamole, &bytes).await;
        written.map_err(|error| Stop::Socket { side, error })
    }

    /// For a farewell; guacd, where there is one, is to be closed.
    pub(in crate::tunnel) fn give_up(self) -> (GivenUp, Option<Stream>) {
        let given_up = GivenUp {
            guacamole: self.guacamole,
            awaits: self.awaits,
            read_ahead: Vec::new(),
        };
        let first = self.first.map(|(guacd, _)| guacd);
        (given_up, self.guacd.or(first).map(|guacd| guacd.stream))
    }

    /// For the relay: both sockets, what was kept and what was held back.
    pub(in crate::tunnel) fn into_sockets(self) -> io::Result<(Stream, Dialled, Rest)> {
        let guacd = self.guacd.ok_or(io::ErrorKind::NotConnected)?;
        Ok((self.guacamole, guacd, self.attempt.into_rest()))
    }
}

/// Within the time that a side may stay without a word: who does not take in a
/// few bytes for so long is gone.
async fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    let written = timeout(NOP_EVERY, async {
        stream.write_all(bytes).await?;
        stream.flush().await
    });
    written
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
