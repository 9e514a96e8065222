//! What one side of a handshake has heard and not read yet.

use std::io::{self, ErrorKind};

use guac_protocol::{Decoder, Instruction, Limits};
use tokio::io::{AsyncRead, AsyncReadExt};

#[derive(Default)]
pub(super) struct Heard(Vec<u8>);

impl Heard {
    /// The next instruction, whatever it is.
    pub(super) async fn next(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Instruction> {
        loop {
            let decoded = Decoder::new(Limits::HANDSHAKE).decode(&self.0);
            let decoded = decoded.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            if let Some(instruction) = decoded.instruction {
                self.0.drain(..decoded.consumed);
                return Ok(instruction);
            }
            if from.read_buf(&mut self.0).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The next one but for those that say nothing, which must be this.
    pub(super) async fn expect(
        &mut self,
        opcode: &str,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Instruction> {
        loop {
            let next = self.next(from).await?;
            match next.opcode() {
                got if got == opcode => return Ok(next),
                "nop" => {}
                got => {
                    let said = format!("{got} {:?} in place of {opcode}", next.args());
                    return Err(io::Error::new(ErrorKind::InvalidData, said));
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
