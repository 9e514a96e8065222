//! What a connection to a TLS port begins with, before anything is answered.

use tokio::net::TcpStream;

/// The first byte of a handshake record, which every ClientHello comes in.
const HANDSHAKE: u8 = 0x16;

/// How a connection begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// It ended without a byte.
    Nothing,
    /// TLS, by its first byte.
    Tls,
    /// Something else; its first bytes.
    Plain(Vec<u8>),
}

/// Waits for the first byte and leaves it where it is; may be cancelled.
pub async fn opening(socket: &TcpStream) -> Opening {
    let mut first = [0; 16];
    match socket.peek(&mut first).await {
        Ok(0) | Err(_) => Opening::Nothing,
        Ok(_) if first.starts_with(&[HANDSHAKE]) => Opening::Tls,
        Ok(count) => Opening::Plain(first.iter().take(count).copied().collect()),
    }
}
