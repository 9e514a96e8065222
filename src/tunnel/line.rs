//! Both sockets of a tunnel and the handshake between them.
//!
//! A thin shell: the protocol crate's machine says what bytes mean and whom to
//! read next, this reads and writes. Every method may be cancelled while it
//! reads; what was read is with the machine and not lost. A method cancelled
//! while it writes leaves that side unusable, and the tunnel then ends.

use std::io;

use guac_protocol::{Event, Foreign, Handshake, Instruction, Parameters, Phase, Rest, Side, Step};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::attempts::Waiting;
use super::pool::Dialled;
use super::stop::Stop;
use crate::tls::Stream;

pub(super) struct Line {
    guacamole: Stream,
    guacd: Option<Dialled>,
    /// Whether guacd has said anything.
    heard_guacd: bool,
    handshake: Handshake,
    /// Whether Guacamole was shown `args`: it then waits for `ready`.
    shown: bool,
    /// Whether names of ours were among those it was shown.
    widened: bool,
    /// When guacd was last written to: it hangs up 15 s later.
    told_guacd: Instant,
    /// What Guacamole said between `args` and `connect`: another guacd would
    /// have to hear it again.
    said: Vec<Instruction>,
}

/// What is left of a line whose tunnel is not to be.
pub(super) struct GivenUp {
    pub(super) guacamole: Stream,
    pub(super) awaits: Awaits,
    /// What Guacamole sent that was not read yet.
    pub(super) read_ahead: Vec<u8>,
}

/// What Guacamole waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// It has not asked a whole question yet, or was given its `ready`.
    Nothing,
    /// `args`.
    Args,
    /// `ready`, once it has sent `connect`.
    Ready,
}

impl Line {
    pub(super) fn new(guacamole: Stream) -> Self {
        Self {
            guacamole,
            guacd: None,
            heard_guacd: false,
            handshake: Handshake::new(),
            shown: false,
            widened: false,
            told_guacd: Instant::now(),
            said: Vec::new(),
        }
    }

    /// Waits for Guacamole's first bytes. A health check sends none; something
    /// that does not speak the protocol is told apart here.
    pub(super) async fn first_byte(&mut self, by: Instant) -> Result<(), Stop> {
        let mut first = Vec::new();
        let read = self.guacamole.take(&mut first);
        match timeout_at(by, read).await {
            Err(_) | Ok(Ok(0) | Err(_)) => return Err(Stop::NothingSent),
            Ok(Ok(_)) => {}
        }
        if let Some(foreign) = guac_protocol::recognise(&first) {
            warn_of(foreign);
            return Err(Stop::Foreign);
        }
        Ok(self.handshake.feed(Side::Guacamole, &first)?)
    }

    /// The next thing that happens, on whichever side.
    pub(super) async fn event(&mut self) -> Result<Event, Stop> {
        loop {
            match self.handshake.step()? {
                Step::Event(event) => return Ok(event),
                Step::Read(sides) => self.read(sides).await?,
            }
        }
    }

    /// Waits for either side, then takes what is there.
    async fn read(&mut self, sides: &[Side]) -> Result<(), Stop> {
        let Self {
            guacamole, guacd, ..
        } = self;
        let (mut from_guacamole, mut from_guacd) = (Vec::new(), Vec::new());
        let (side, read) = tokio::select! {
            read = guacamole.take(&mut from_guacamole), if sides.contains(&Side::Guacamole) => {
                (Side::Guacamole, read)
            }
            read = async {
                match guacd {
                    Some(guacd) => guacd.stream.take(&mut from_guacd).await,
                    None => std::future::pending().await,
                }
            }, if sides.contains(&Side::Guacd) => (Side::Guacd, read),
            else => return Err(Stop::Closed(Side::Guacd)),
        };
        let bytes = match side {
            Side::Guacamole => from_guacamole,
            Side::Guacd => from_guacd,
        };
        if side == Side::Guacd
            && !std::mem::replace(&mut self.heard_guacd, true)
            && is_alert(&bytes)
        {
            return Err(Stop::GuacdSpeaksTls);
        }
        match read {
            Ok(0) => Err(Stop::Closed(side)),
            Ok(_) => Ok(self.handshake.feed(side, &bytes)?),
            Err(error) => Err(Stop::Socket { side, error }),
        }
    }

    /// guacd was reached; in place of one that has not said anything, if there
    /// was one.
    pub(super) fn dialled(&mut self, guacd: Dialled) {
        self.guacd = Some(guacd);
    }

    /// The guacd that was reached.
    pub(super) fn guacd(&self) -> Option<&Dialled> {
        self.guacd.as_ref()
    }

    /// Whether guacd has said anything.
    pub(super) fn has_heard_guacd(&self) -> bool {
        self.heard_guacd
    }

    /// Shows Guacamole guacd's `args`, widened by `extra` where they fit.
    pub(super) async fn show_args(&mut self, extra: &[&str]) -> Result<(), Stop> {
        // A guacd with so many names that ours find no room still serves; such
        // a connection can name its resource by the other carriers.
        self.widened = self.handshake.widen(extra).is_ok();
        let args = self.handshake.names();
        if let Some(args) = args.map(|names| names.encode(Side::Guacamole)) {
            self.shown = true;
            self.write_guacamole(&args?).await?;
        }
        Ok(())
    }

    /// Passes Guacamole's settings on until its `connect` is whole; those that came
    /// together in one write.
    pub(super) async fn settings(&mut self) -> Result<Parameters, Stop> {
        let mut together = Vec::new();
        loop {
            match self.handshake.step()? {
                Step::Event(Event::Forward(instruction)) => {
                    together.extend(instruction.encode(Side::Guacd)?);
                    self.said.push(instruction);
                }
                Step::Read(sides) => {
                    self.write_guacd(&std::mem::take(&mut together)).await?;
                    self.read(sides).await?;
                }
                Step::Event(Event::Connect(parameters)) => {
                    self.write_guacd(&together).await?;
                    return Ok(parameters);
                }
                Step::Event(other) => return Err(Stop::unexpected(&other)),
            }
        }
    }

    /// Whether what was shown had our names in it, besides guacd's own.
    pub(super) fn is_widened(&self) -> bool {
        self.widened
    }

    /// The Guacamole login, where one was said.
    pub(super) fn user_name(&self) -> &str {
        self.handshake.user_name().unwrap_or_default()
    }

    /// When guacd was last written to.
    pub(super) fn told_guacd(&self) -> Instant {
        self.told_guacd
    }

    pub(super) async fn tell_guacd(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        self.write_guacd(&instruction.encode(Side::Guacd)?).await
    }

    /// Tells guacd what Guacamole answered.
    pub(super) async fn tell_connect(&mut self, parameters: &Parameters) -> Result<(), Stop> {
        self.write_guacd(&parameters.encode(Side::Guacd)?).await
    }

    async fn write_guacd(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let side = Side::Guacd;
        let guacd = self.guacd.as_mut().ok_or(Stop::Closed(side))?;
        let written = write(&mut guacd.stream, bytes).await;
        written.map_err(|error| Stop::Socket { side, error })?;
        self.told_guacd = Instant::now();
        Ok(())
    }

    pub(super) async fn tell_guacamole(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        self.write_guacamole(&instruction.encode(Side::Guacamole)?)
            .await
    }

    async fn write_guacamole(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let side = Side::Guacamole;
        let written = write(&mut self.guacamole, bytes).await;
        written.map_err(|error| Stop::Socket { side, error })
    }

    /// For a refusal; guacd is hung up on.
    pub(super) fn give_up(self) -> GivenUp {
        let awaits = match self.handshake.phase() {
            Phase::Select => Awaits::Nothing,
            _ if self.shown => Awaits::Ready,
            _ => Awaits::Args,
        };
        GivenUp {
            guacamole: self.guacamole,
            awaits,
            read_ahead: self.handshake.into_rest().to_guacd,
        }
    }

    /// Takes what Guacamole said between `args` and `connect`.
    pub(super) fn take_said(&mut self) -> Vec<Instruction> {
        std::mem::take(&mut self.said)
    }

    /// For the attempts: Guacamole waits for `ready`, and guacd for `connect`.
    pub(super) fn into_waiting(self) -> Result<Waiting, Box<(GivenUp, Stop)>> {
        let given_up = |guacamole| GivenUp {
            guacamole,
            awaits: Awaits::Ready,
            read_ahead: Vec::new(),
        };
        let rest = self.handshake.into_rest();
        let guacd = self.guacd.map(|guacd| (guacd, self.told_guacd));
        let waiting = Waiting::new(self.guacamole, guacd, rest);
        waiting.map_err(|(guacamole, stop)| Box::new((given_up(guacamole), stop)))
    }

    /// For the relay: both sockets and what was read beyond the handshake.
    pub(super) fn into_sockets(self) -> io::Result<(Stream, Dialled, Rest)> {
        let guacd = self.guacd.ok_or(io::ErrorKind::NotConnected)?;
        Ok((self.guacamole, guacd, self.handshake.into_rest()))
    }
}

/// How a TLS server answers plain text, where it answers at all.
fn is_alert(first: &[u8]) -> bool {
    matches!(first, [0x15, 0x03, 0x00..=0x04, ..])
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

fn warn_of(foreign: Foreign) {
    match foreign {
        Foreign::Http => warn!(
            "HTTP arrived on the Guacamole port, which speaks Guacamole's own protocol: \
             point only guacd-hostname and guacd-port here, and make health checks plain TCP connects"
        ),
        Foreign::TlsClientHello => warn!(
            "TLS arrived on a plain port: set guacd-ssl to false in Guacamole for this address, \
             or give this [[listen]] tls_cert_file and tls_key_file"
        ),
    }
}
