//! How a connection of Guacamole begins: with TLS where its listener has a
//! certificate.

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::accept::Reception;
use super::refuse;
use crate::tls::{self, Opening, Stream};

/// Shakes hands as the listener asks, all of it before `until`. What comes of
/// a connection that is not served is in the log; a health check leaves no line.
pub(super) async fn open(
    socket: TcpStream,
    reception: &Reception,
    until: Instant,
) -> Option<Stream> {
    let Some(acceptor) = &reception.tls else {
        return Some(socket.into());
    };
    let from = socket.peer_addr().map(|address| address.to_string());
    let from = from.unwrap_or_default();
    match timeout_at(until, tls::opening(&socket)).await {
        Err(_) | Ok(Opening::Nothing) => {
            debug!(from, "Closed without a handshake");
            return None;
        }
        Ok(Opening::Plain(first)) => {
            warn_of(&first, &from);
            refuse::close(socket.into()).await;
            return None;
        }
        Ok(Opening::Tls) => {}
    }
    let until = until.min(Instant::now() + reception.settings.handshake_timeout);
    match timeout_at(until, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err((reason, socket))) => {
            warn!(from, %reason, "TLS handshake failed");
            refuse::close(socket.into()).await;
            None
        }
        Err(_) => {
            let reason = "it was not finished in time";
            warn!(from, reason, "TLS handshake failed");
            None
        }
    }
}

fn warn_of(first: &[u8], from: &str) {
    match guac_protocol::recognise(first) {
        Some(guac_protocol::Foreign::Http) => warn!(
            from,
            "HTTP arrived on the Guacamole port, which speaks Guacamole's own protocol over TLS: \
             point only guacd-hostname and guacd-port here, and make health checks plain TCP connects"
        ),
        _ => warn!(
            from,
            "Plain text arrived on a TLS port: set guacd-ssl to true in Guacamole for this address, \
             or take tls_cert_file and tls_key_file from this [[listen]]"
        ),
    }
}
