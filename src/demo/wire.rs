//! One end of a Guacamole connection: whole instructions in and out.
//!
//! Used by the scripted Guacamole and by the stand-in guacd. Keeps no time.

use std::io;

use guac_protocol::{Decoder, Instruction, Limits, Side};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) struct Wire {
    socket: TcpStream,
    decoder: Decoder,
    unread: Vec<u8>,
    /// Who reads what is sent here.
    reader: Side,
}

impl Wire {
    pub(super) fn new(socket: TcpStream, reader: Side) -> Self {
        Self {
            socket,
            decoder: Decoder::new(Limits::HANDSHAKE),
            unread: Vec::new(),
            reader,
        }
    }

    /// The next instruction; `None` once the other end has closed. May be
    /// cancelled: what was read of an instruction is kept.
    pub(super) async fn next(&mut self) -> io::Result<Option<Instruction>> {
        loop {
            let decoded = self
                .decoder
                .decode(&self.unread)
                .map_err(io::Error::other)?;
            self.unread.drain(..decoded.consumed);
            if let Some(instruction) = decoded.instruction {
                return Ok(Some(instruction));
            }
            if self.socket.read_buf(&mut self.unread).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The next instruction, which must be `opcode`; its arguments.
    pub(super) async fn expect(&mut self, opcode: &str) -> io::Result<Vec<String>> {
        let got = match self.next().await? {
            Some(instruction) if instruction.opcode() == opcode => {
                return Ok(instruction.into_args());
            }
            Some(other) => format!("`{}`", other.opcode()),
            None => "the end".to_owned(),
        };
        let complaint = format!("expected `{opcode}`, got {got}");
        Err(io::Error::new(io::ErrorKind::InvalidData, complaint))
    }

    pub(super) async fn send(&mut self, instruction: &Instruction) -> io::Result<()> {
        let bytes = instruction.encode(self.reader).map_err(io::Error::other)?;
        self.socket.write_all(&bytes).await
    }

    /// Several in one write.
    pub(super) async fn send_all(&mut self, instructions: &[Instruction]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for instruction in instructions {
            bytes.extend(instruction.encode(self.reader).map_err(io::Error::other)?);
        }
        self.socket.write_all(&bytes).await
    }

    pub(super) async fn say<const N: usize>(
        &mut self,
        opcode: &str,
        args: [&str; N],
    ) -> io::Result<()> {
        self.send(&Instruction::new(opcode, args)).await
    }

    /// Nothing more is sent; what the other end still says can be read.
    pub(super) async fn hang_up(&mut self) -> io::Result<()> {
        self.socket.shutdown().await
    }
}
