//! Guacamole's side of a handshake.

use std::io;

use guac_protocol::{Instruction, Side};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::heard::Heard;
use crate::support::Visit;

/// One click of this user on the desktop of the farm, until it is drawn.
pub(super) async fn shake_hands(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    user: &str,
) -> io::Result<()> {
    let visit = Visit::office(user);
    let mut heard = Heard::default();
    say(stream, &[Instruction::new("select", ["rdp"])]).await?;
    let shown = heard.expect("args", stream).await?.into_args();
    let mut answers = visit.settings();
    answers.push(visit.connect(&shown));
    say(stream, &answers).await?;
    heard.expect("ready", stream).await?;
    heard.expect("sync", stream).await?;
    match heard.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other("more than one desktop")),
    }
}

/// In one write, as Guacamole does.
async fn say(into: &mut (impl AsyncWrite + Unpin), said: &[Instruction]) -> io::Result<()> {
    let encoded = said.iter().map(|one| one.encode(Side::Guacd).unwrap());
    into.write_all(&encoded.collect::<Vec<_>>().concat())
        .await?;
    into.flush().await
}
