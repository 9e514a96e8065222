//! A guacd that goes where it is sent: it dials the host, and says what a real
//! one was recorded to say of hosts that are there and of those that are not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::support::{GuacdPeer, Names, ScriptedGuacd, trace};

/// The release that was recorded.
const RELEASE: &str = "1.3.0";
/// An X.224 connection request that offers TLS.
const REQUEST: [u8; 19] = [3, 0, 0, 19, 14, 0xe0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 3, 0, 0, 0];
/// From one `nop` to the next while a host does not answer.
const NOP_EVERY: Duration = Duration::from_secs(5);
/// Longer than anything that is measured.
const PATIENCE: Duration = Duration::from_secs(60);
const SYNC: &[u8] = b"4.sync,";

/// What it says behind `ready`.
struct Script {
    /// Before it dials.
    drawing: Vec<u8>,
    refused: Vec<u8>,
    /// To the end of its first `sync`.
    desktop: Vec<u8>,
}

/// Dials hosts by the address it is told, which is one of IP.
pub(crate) fn patient_guacd() -> ScriptedGuacd {
    let names = Names::recorded(RELEASE, "rdp-desktop");
    let script = Script::recorded();
    ScriptedGuacd::playing(move |peer| {
        peer.shake_hands(&names)?;
        script.play(peer)
    })
}

impl Script {
    fn recorded() -> Self {
        let refused = behind_ready("rdp-refused");
        let desktop = behind_ready("rdp-desktop");
        let (drawing, refused) = refused.split_at(position(&refused, b"5.error,"));
        let desktop = desktop.strip_prefix(drawing).expect("one drawing for both");
        let sync = position(desktop, SYNC);
        let end = sync + position(&desktop[sync..], b";") + 1;
        Self {
            drawing: drawing.to_vec(),
            refused: refused.to_vec(),
            desktop: desktop[..end].to_vec(),
        }
    }

    fn play(&self, peer: &mut GuacdPeer) -> io::Result<()> {
        peer.wire.send(&self.drawing)?;
        let host = format!("{}:{}", peer.value("hostname"), peer.value("port"));
        let host: SocketAddr = host.parse().unwrap();
        match connect(host, peer)? {
            Some(_host) => {
                peer.wire.send(&self.desktop)?;
                until_left(peer.wire.stream())
            }
            None => {
                peer.wire.send(&self.refused)?;
                peer.wire.stream().shutdown(Shutdown::Write)
            }
        }
    }
}

/// `None` where the host refuses.
fn connect(host: SocketAddr, peer: &mut GuacdPeer) -> io::Result<Option<TcpStream>> {
    let until = Instant::now() + PATIENCE;
    let mut stream = loop {
        match TcpStream::connect_timeout(&host, NOP_EVERY) {
            Ok(stream) => break stream,
            Err(error) if error.kind() == ErrorKind::TimedOut => wait(peer, until)?,
            Err(_) => return Ok(None),
        }
    };
    stream.write_all(&REQUEST)?;
    stream.set_read_timeout(Some(NOP_EVERY))?;
    let mut answer = [0; REQUEST.len()];
    while let Err(error) = stream.read_exact(&mut answer) {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => wait(peer, until)?,
            _ => return Ok(None),
        }
    }
    Ok(Some(stream))
}

/// Lets the other side know that it is there; fails once that has left.
fn wait(peer: &mut GuacdPeer, until: Instant) -> io::Result<()> {
    match Instant::now() < until {
        true => peer.wire.send("3.nop;"),
        false => Err(ErrorKind::TimedOut.into()),
    }
}

/// Leaves once the other side has.
fn until_left(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {}
    stream.shutdown(Shutdown::Both)
}

fn behind_ready(what: &str) -> Vec<u8> {
    let recorded = trace(RELEASE, what);
    let ready = position(&recorded, b"5.ready,");
    let end = ready + position(&recorded[ready..], b";") + 1;
    recorded[end..].to_vec()
}

fn position(bytes: &[u8], needle: &[u8]) -> usize {
    let mut windows = bytes.windows(needle.len());
    windows.position(|window| window == needle).unwrap()
}
