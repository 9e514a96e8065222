//! How Guacamole is told no, so that the page shows the right text and tries
//! once only, on every release: `ready` with an id of our own, `error`,
//! `disconnect`, close. An `error` before `ready` would be understood from
//! Guacamole 1.4.0 on only, and makes the page connect a second time.

use std::io;
use std::time::Duration;

use guac_protocol::{Decoder, HandshakeError, Instruction, Limits, Side, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::ids;
use super::line::{Awaits, GivenUp};
use super::stop::Stop;
use crate::placement::TunnelId;
use crate::tls::Stream;

/// For what Guacamole still has to say before it listens, and for the answer.
/// Together with what came before it stays within the page's 15 s.
const PATIENCE: Duration = Duration::from_secs(4);

/// For the other side to read what we wrote, before the socket is let go.
const GOODBYE: Duration = Duration::from_secs(1);

/// Names that every guacd has, for a Guacamole that guacd gave none.
const MINIMAL_ARGS: [&str; 2] = ["VERSION_1_5_0", "hostname"];

/// Tells Guacamole why its tunnel stopped, where there is something to tell,
/// and closes.
pub(super) async fn answer(given_up: GivenUp, stop: &Stop, tunnel: &TunnelId) {
    let GivenUp {
        mut guacamole,
        awaits,
        read_ahead,
    } = given_up;
    if let Some(status) = stop.status() {
        let told = async {
            // Whoever sent too much is not read any further: what it said is
            // lost, its `connect` with it.
            let reads_on = !matches!(stop, Stop::Handshake(HandshakeError::TooMuch { .. }));
            if awaits == Awaits::Args && reads_on {
                ask_for_connect(&mut guacamole, read_ahead).await?;
            }
            let mut bytes = Vec::new();
            if awaits != Awaits::Nothing {
                bytes.extend(encoded(&Instruction::ready(&ids::mint(None))));
            }
            bytes.extend(farewell(
                &format!("{} (tunnel {tunnel})", stop.told()),
                status,
            ));
            guacamole.write_all(&bytes).await?;
            guacamole.flush().await
        };
        // A Guacamole that does not listen any more is let go.
        let _ = timeout(PATIENCE, told).await;
    }
    close(guacamole).await;
}

/// Shows minimal `args` and reads up to `connect`: only then does Guacamole
/// wait for `ready`. What it says is none of our business any more.
async fn ask_for_connect(guacamole: &mut Stream, mut bytes: Vec<u8>) -> io::Result<()> {
    let args = encoded(&Instruction::new("args", MINIMAL_ARGS));
    guacamole.write_all(&args).await?;
    guacamole.flush().await?;
    let mut decoder = Decoder::new(Limits::HANDSHAKE);
    let mut buffer = vec![0; 8192];
    let mut total = 0;
    loop {
        if finds_connect(&mut decoder, &bytes) {
            return Ok(());
        }
        let count = guacamole.read(&mut buffer).await?;
        total += count;
        if count == 0 || total > Limits::HANDSHAKE.instruction_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = buffer.get(..count).unwrap_or_default().to_vec();
    }
}

fn finds_connect(decoder: &mut Decoder, mut bytes: &[u8]) -> bool {
    while let Ok(decoded) = decoder.decode(bytes) {
        match decoded.instruction {
            Some(instruction) if instruction.opcode() == "connect" => return true,
            Some(_) => bytes = bytes.get(decoded.consumed..).unwrap_or_default(),
            None => return false,
        }
    }
    // It broke the grammar meanwhile: there is nothing to wait for.
    true
}

/// `error` and `disconnect`, for a tunnel that already had its `ready`.
pub(super) fn farewell(text: &str, status: Status) -> Vec<u8> {
    let mut bytes = encoded(&Instruction::error(text, status));
    bytes.extend(encoded(&Instruction::disconnect()));
    bytes
}

/// Our own instructions are short and plain; one that were not is left out.
fn encoded(instruction: &Instruction) -> Vec<u8> {
    instruction.encode(Side::Guacamole).unwrap_or_default()
}

/// Closes so that what was written arrives: a socket closed with unread bytes
/// in it resets, and the reset can overtake the answer.
pub(super) async fn close(mut socket: Stream) {
    let drain = async {
        socket.shutdown().await?;
        let mut nowhere = [0; 1024];
        while socket.read(&mut nowhere).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = timeout(GOODBYE, drain).await;
}
