//! One end of a connection that speaks the protocol: reads and writes with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use guac_protocol::{Decoder, Instruction, Limits, Side};

use super::DEADLINE;

/// What runs over a socket.
pub(crate) trait Flow: Read + Write + Send {}

impl<T: Read + Write + Send> Flow for T {}

/// A socket, and what was read off it but not asked for yet.
pub(crate) struct Wire {
    stream: TcpStream,
    /// TLS over it, where there is any.
    tls: Option<Box<dyn Flow>>,
    ahead: Vec<u8>,
    /// Everything that ever arrived.
    pub(crate) arrived: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self {
            stream,
            tls: None,
            ahead: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Speaks TLS from here on.
    pub(crate) fn over(stream: TcpStream, tls: impl FnOnce(TcpStream) -> Box<dyn Flow>) -> Self {
        let mut wire = Self::new(stream);
        let under = wire.stream.try_clone().unwrap();
        wire.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        wire.tls = Some(tls(under));
        wire
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => {
                tls.write_all(bytes.as_ref())?;
                tls.flush()
            }
            None => self.stream.write_all(bytes.as_ref()),
        }
    }

    pub(crate) fn say(&mut self, instruction: &Instruction) -> io::Result<()> {
        self.send(instruction.encode(Side::Guacd).unwrap())
    }

    /// The next instruction; `None` at the end of the stream.
    pub(crate) fn instruction(&mut self) -> io::Result<Option<Instruction>> {
        let until = Instant::now() + DEADLINE;
        loop {
            let mut decoder = Decoder::new(Limits::HANDSHAKE);
            let decoded = decoder.decode(&self.ahead);
            let decoded = decoded.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
            if let Some(instruction) = decoded.instruction {
                self.ahead.drain(..decoded.consumed);
                return Ok(Some(instruction));
            }
            if self.more(until)? == 0 {
                return match self.ahead.is_empty() {
                    true => Ok(None),
                    false => Err(ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Exactly so many bytes.
    pub(crate) fn exact(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let until = Instant::now() + DEADLINE;
        while self.ahead.len() < count {
            if self.more(until)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.ahead.drain(..count).collect())
    }

    /// All that comes, up to the end of the stream.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + DEADLINE;
        while self.more(until)? > 0 {}
        Ok(std::mem::take(&mut self.ahead))
    }

    /// All that comes within a time in which nothing is expected to come.
    pub(crate) fn within(&mut self, span: Duration) -> Vec<u8> {
        let until = Instant::now() + span;
        while matches!(self.more(until), Ok(1..)) {}
        std::mem::take(&mut self.ahead)
    }

    fn more(&mut self, until: Instant) -> io::Result<usize> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = vec![0; 64 * 1024];
        let count = match &mut self.tls {
            Some(tls) => tls.read(&mut buffer)?,
            None => self.stream.read(&mut buffer)?,
        };
        self.ahead.extend_from_slice(&buffer[..count]);
        self.arrived.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    /// No more from this side; the other may go on.
    pub(crate) fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
