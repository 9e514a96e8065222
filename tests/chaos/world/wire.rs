//! One end of a connection that speaks the protocol, without a thread of its own.

use std::io::{self, ErrorKind};

use guac_protocol::{Decoder, Instruction, Limits, Side};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) struct Wire {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        // One that is over already says so when it is read.
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            ahead: Vec::new(),
        }
    }

    pub(super) async fn say(&mut self, instruction: &Instruction) -> io::Result<()> {
        let bytes = instruction.encode(Side::Guacd).unwrap();
        self.stream.write_all(&bytes).await
    }

    /// The next instruction; an error at the end of the stream.
    pub(super) async fn hear(&mut self) -> io::Result<Instruction> {
        loop {
            let mut decoder = Decoder::new(Limits::HANDSHAKE);
            let decoded = decoder.decode(&self.ahead);
            let decoded = decoded.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
            if let Some(instruction) = decoded.instruction {
                self.ahead.drain(..decoded.consumed);
                return Ok(instruction);
            }
            if self.stream.read_buf(&mut self.ahead).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads, whatever comes, until the other side ends.
    pub(super) async fn until_the_end(&mut self) {
        self.ahead.clear();
        while matches!(self.stream.read_buf(&mut self.ahead).await, Ok(1..)) {
            self.ahead.clear();
        }
    }
}
