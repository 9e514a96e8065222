//! Both sockets of a tunnel and the handshake between them.
//!
//! A thin shell: the protocol crate's machine says what bytes mean and whom to
//! read next, this reads and writes. Every method may be cancelled while it
//! reads; what was read is with the machine and not lost. A method cancelled
//! while it writes leaves that side unusable, and the tunnel then ends.

use std::io;
use std::time::Duration;

use guac_protocol::{Event, Foreign, Handshake, Instruction, Parameters, Phase, Rest, Side, Step};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::stop::Stop;

/// Bytes read at a time during the handshake; a whole one rarely needs two.
const CHUNK: usize = 8192;

pub(super) struct Line {
    guacamole: TcpStream,
    guacd: Option<TcpStream>,
    handshake: Handshake,
    /// Whether Guacamole was shown `args`: it then waits for `ready`.
    shown: bool,
    /// Whether names of ours were among those it was shown.
    widened: bool,
    /// When guacd was last written to: it hangs up 15 s later.
    told_guacd: Instant,
}

/// What is left of a line whose tunnel is not to be.
pub(super) struct GivenUp {
    pub(super) guacamole: TcpStream,
    pub(super) awaits: Awaits,
    /// What Guacamole sent that was not read yet.
    pub(super) read_ahead: Vec<u8>,
}

/// What Guacamole waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// It has not asked a whole question yet.
    Nothing,
    /// `args`.
    Args,
    /// `ready`, once it has sent `connect`.
    Ready,
}

impl Line {
    pub(super) fn new(guacamole: TcpStream) -> Self {
        Self {
            guacamole,
            guacd: None,
            handshake: Handshake::new(),
            shown: false,
            widened: false,
            told_guacd: Instant::now(),
        }
    }

    /// Waits for Guacamole's first bytes. A health check sends none; something
    /// that does not speak the protocol is told apart here.
    pub(super) async fn first_byte(&mut self, within: Duration) -> Result<(), Stop> {
        let mut first = Vec::new();
        let read = async {
            loop {
                self.guacamole.readable().await?;
                if let Some(count) = take(&self.guacamole, &mut first)? {
                    return Ok::<_, io::Error>(count);
                }
            }
        };
        match timeout(within, read).await {
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
        let guacd = self.guacd.as_ref();
        let (side, ready) = tokio::select! {
            ready = self.guacamole.readable(), if sides.contains(&Side::Guacamole) => {
                (Side::Guacamole, ready)
            }
            ready = async {
                match guacd {
                    Some(guacd) => guacd.readable().await,
                    None => std::future::pending().await,
                }
            }, if sides.contains(&Side::Guacd) => (Side::Guacd, ready),
            else => return Err(Stop::Closed(Side::Guacd)),
        };
        let socket = match (side, guacd) {
            (Side::Guacd, Some(guacd)) => guacd,
            _ => &self.guacamole,
        };
        let mut bytes = Vec::new();
        match ready.and_then(|()| take(socket, &mut bytes)) {
            Ok(Some(0)) => Err(Stop::Closed(side)),
            Ok(_) => Ok(self.handshake.feed(side, &bytes)?),
            Err(error) => Err(Stop::Socket { side, error }),
        }
    }

    /// guacd was reached.
    pub(super) fn dialled(&mut self, guacd: TcpStream) {
        self.guacd = Some(guacd);
    }

    /// Shows Guacamole guacd's `args`, widened by `extra` where they fit.
    pub(super) async fn show_args(&mut self, extra: &[&str]) -> Result<(), Stop> {
        // A guacd with so many names that ours find no room still serves; such
        // a connection can name its resource by the other carriers.
        self.widened = self.handshake.widen(extra).is_ok();
        if let Some(names) = self.handshake.names() {
            let args = names.to_instruction();
            self.shown = true;
            self.tell_guacamole(&args).await?;
        }
        Ok(())
    }

    /// Passes Guacamole's settings on until its `connect` is whole.
    pub(super) async fn settings(&mut self) -> Result<Parameters, Stop> {
        loop {
            match self.event().await? {
                Event::Forward(instruction) => self.tell_guacd(&instruction).await?,
                Event::Connect(parameters) => return Ok(parameters),
                other => return Err(Stop::unexpected(&other)),
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
        let bytes = instruction.encode(Side::Guacd)?;
        let Some(guacd) = &mut self.guacd else {
            return Err(Stop::Closed(Side::Guacd));
        };
        let side = Side::Guacd;
        let written = guacd.write_all(&bytes).await;
        written.map_err(|error| Stop::Socket { side, error })?;
        self.told_guacd = Instant::now();
        Ok(())
    }

    pub(super) async fn tell_guacamole(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let bytes = instruction.encode(Side::Guacamole)?;
        let side = Side::Guacamole;
        let written = self.guacamole.write_all(&bytes).await;
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

    /// For the relay: both sockets and what was read beyond the handshake.
    pub(super) fn into_sockets(self) -> io::Result<(TcpStream, TcpStream, Rest)> {
        let guacd = self.guacd.ok_or(io::ErrorKind::NotConnected)?;
        Ok((self.guacamole, guacd, self.handshake.into_rest()))
    }
}

/// Takes what has arrived, at most [`CHUNK`]; 0 is the end of the stream,
/// `None` a false alarm. The buffer lives on the stack of this call alone, so
/// that a connection that waits holds none.
fn take(socket: &TcpStream, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut buffer = [0; CHUNK];
    match socket.try_read(&mut buffer) {
        Ok(count) => {
            into.extend_from_slice(buffer.get(..count).unwrap_or_default());
            Ok(Some(count))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn warn_of(foreign: Foreign) {
    match foreign {
        Foreign::Http => warn!(
            "HTTP arrived on the Guacamole port, which speaks Guacamole's own protocol: \
             point only guacd-hostname and guacd-port here, and make health checks plain TCP connects"
        ),
        Foreign::TlsClientHello => warn!(
            "TLS arrived on a plain port: set guacd-ssl to false in Guacamole for this address"
        ),
    }
}
