//! Asks a replica through its admin socket.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Status and body; an error where there was no answer within this time.
pub(super) async fn ask(
    socket: &Path,
    (method, path): (&str, &str),
    head: &str,
    body: &Value,
    patience: Duration,
) -> io::Result<(u16, Value)> {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let asked = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: io::Result<String> = timeout(patience, asked).await?;
    read(&answer?).ok_or(ErrorKind::InvalidData.into())
}

fn read(answer: &str) -> Option<(u16, Value)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}
