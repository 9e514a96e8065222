//! Whether somebody is still there, on either side of a tunnel. The system
//! watches: it alone knows what the other side has acknowledged, under TLS, too.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Silence after which the other side is asked whether it is there, how often
/// it is asked, and how often in vain before it counts as gone. Where `stall`
/// allows a longer silence, the system waits for the end of that.
const SILENT: Duration = Duration::from_secs(60);
const ASKING: Duration = Duration::from_secs(10);
const IN_VAIN: u32 = 6;

/// From here on a connection fails with [`io::ErrorKind::TimedOut`] once its
/// other side is gone, though nobody said so, or has taken nothing of what
/// waits for it for as long as `stall`. One that takes it slowly lives, and so
/// does one for which nothing waits.
///
/// # Errors
/// The connection is closed already.
pub(super) fn mind(socket: &TcpStream, stall: Duration) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENT)
        .with_interval(ASKING)
        .with_retries(IN_VAIN);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(stall))
}
