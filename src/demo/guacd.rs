//! The stand-in guacd: it speaks guacd's side of the protocol and opens an
//! X.224 connection to the host it is told.
//!
//! It is no guacd: there is no RDP behind the confirm, no logon and no desktop,
//! only one plain rectangle. It says so on that, where a person reads it, and
//! in a `log` instruction to every page.
//! Like guacd 1.5.5 it sends `ready` and draws before it connects, and its
//! first `sync` means that the host answered.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guac_protocol::{ConnectionId, Instruction, Side, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::host::COOKIE;
use super::lettering::{LINE, letters};
use super::wire::Wire;

/// What every page is told.
pub(super) const CONFESSION: &str =
    "stand-in guacd of the sessionguard demo: there is no desktop behind this picture";

/// What is written on the picture; 41 letters fit into a line.
const TITLE: &str = "sessionguard demo";
const SIGN: &str = "stand-in guacd: there is no desktop here";
/// Around what is written, pixels.
const MARGIN: u16 = 24;

const VERSION: &str = "VERSION_1_5_0";

/// What guacd 1.5.5 announces for RDP, in its order.
const RDP: &str = "hostname port domain username password width height dpi initial-program \
    color-depth disable-audio enable-printing printer-name enable-drive drive-name drive-path \
    create-drive-path disable-download disable-upload console console-audio server-layout \
    security ignore-cert disable-auth remote-app remote-app-dir remote-app-args static-channels \
    client-name enable-wallpaper enable-theming enable-font-smoothing enable-full-window-drag \
    enable-desktop-composition enable-menu-animations disable-bitmap-caching \
    disable-offscreen-caching disable-glyph-caching preconnection-id preconnection-blob timezone \
    enable-sftp sftp-hostname sftp-host-key sftp-port sftp-username sftp-password \
    sftp-private-key sftp-passphrase sftp-directory sftp-root-directory \
    sftp-server-alive-interval sftp-disable-download sftp-disable-upload recording-path \
    recording-name recording-exclude-output recording-exclude-mouse recording-exclude-touch \
    recording-include-keys create-recording-path resize-method enable-audio-input enable-touch \
    read-only gateway-hostname gateway-port gateway-domain gateway-username gateway-password \
    load-balance-info disable-copy disable-paste wol-send-packet wol-mac-addr \
    wol-broadcast-addr wol-udp-port wol-wait-time force-lossless normalize-clipboard";

/// Some of what it announces for VNC.
const VNC: &str = "hostname port read-only username password color-depth cursor autoretry \
    swap-red-blue dest-host dest-port clipboard-encoding disable-copy disable-paste";

/// How often an idle page hears something.
const IDLE: Duration = Duration::from_secs(5);

/// For a host to confirm.
const HOST_ANSWERS: Duration = Duration::from_secs(3);

pub(super) struct StandIn {
    pub(super) address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

/// What all connections share.
#[derive(Clone, Default)]
struct Desk {
    /// Protocols of the connections that may be joined, by id.
    live: Arc<Mutex<HashMap<String, String>>>,
}

impl StandIn {
    pub(super) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let desk = Desk::default();
        let serving = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let desk = desk.clone();
                // A connection that breaks is seen at its other end.
                open.spawn(async move { drop(desk.serve(socket).await) });
                while open.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            _serving: AbortOnDropHandle::new(serving),
        })
    }
}

impl Desk {
    async fn serve(&self, socket: TcpStream) -> io::Result<()> {
        let mut page = Wire::new(socket, Side::Guacamole);
        let selected = page.expect("select").await?.concat();
        let Some(protocol) = self.protocol_of(&selected) else {
            let refusal = Instruction::error("No such connection.", Status::ResourceNotFound);
            page.send(&refusal).await?;
            return page.hang_up().await;
        };
        let names: Vec<&str> = match protocol.as_str() {
            "vnc" => VNC.split_whitespace().collect(),
            _ => RDP.split_whitespace().collect(),
        };
        let args = std::iter::once(VERSION).chain(names.iter().copied());
        page.send(&Instruction::new("args", args)).await?;
        let values = settings(&mut page).await?;
        let joined = selected.starts_with('$');
        let id = if joined { selected.clone() } else { new_id() };
        page.say("ready", [&id]).await?;
        let mut values = values.into_iter();
        // What stands in the version's place is the page's own, and may be empty.
        if values.next().is_none() || values.len() != names.len() {
            // guacd, too, notices only now, and closes without a word.
            return page.hang_up().await;
        }
        let named = names.iter().map(|name| (*name).to_owned());
        let parameters: Vec<_> = named.zip(values).collect();
        let host = (!joined && protocol == "rdp").then(|| target(&parameters));
        self.lock().entry(id.clone()).or_insert(protocol);
        let ended = draw_and_stay(&mut page, host).await;
        if !joined {
            self.lock().remove(&id);
        }
        ended
    }

    fn protocol_of(&self, selected: &str) -> Option<String> {
        if selected.starts_with('$') {
            self.lock().get(selected).cloned()
        } else {
            Some(selected.to_owned())
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_id() -> String {
    let uuid = Uuid::new_v4().hyphenated().to_string();
    ConnectionId::from_uuid_text(&uuid).map_or_else(String::new, |id| id.to_string())
}

/// Reads up to `connect`: the values.
async fn settings(page: &mut Wire) -> io::Result<Vec<String>> {
    while let Some(instruction) = page.next().await? {
        if instruction.opcode() == "connect" {
            return Ok(instruction.into_args());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Where to connect, and as whom.
struct Target {
    host: String,
    port: u16,
    user: String,
    app: String,
}

fn target(parameters: &[(String, String)]) -> Target {
    let get = |name| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    Target {
        host: get("hostname").to_owned(),
        port: get("port").parse().unwrap_or(3389),
        user: get("username").to_owned(),
        app: get("remote-app").to_owned(),
    }
}

/// Draws, reaches the host, and stays until the page leaves.
async fn draw_and_stay(page: &mut Wire, target: Option<Target>) -> io::Result<()> {
    page.say("log", [CONFESSION]).await?;
    page.say("size", ["0", "1024", "768"]).await?;
    let mut written = vec![TITLE.to_owned(), SIGN.to_owned()];
    let _host = match target {
        Some(target) => match timeout(HOST_ANSWERS, reach(&target)).await {
            Ok(Ok(host)) => {
                written.push(format!("host {}:{}", target.host, target.port));
                if !target.app.is_empty() {
                    written.push(format!("app {}", target.app));
                }
                Some(host)
            }
            Ok(Err(_)) | Err(_) => {
                let text = "the stand-in guacd was refused by the host";
                let error = Instruction::error(text, Status::UpstreamNotFound);
                page.send(&error).await?;
                page.send(&Instruction::disconnect()).await?;
                return page.hang_up().await;
            }
        },
        None => None,
    };
    page.say("rect", ["0", "0", "0", "1024", "768"]).await?;
    page.say("cfill", ["14", "0", "38", "70", "110", "255"])
        .await?;
    page.send_all(&sign(&written)).await?;
    page.say("sync", ["1"]).await?;
    let mut idle = interval(IDLE);
    loop {
        tokio::select! {
            said = page.next() => match said? {
                Some(instruction) if instruction.opcode() != "disconnect" => {}
                _ => return page.hang_up().await,
            },
            _ = idle.tick() => page.send(&Instruction::nop()).await?,
        }
    }
}

/// The instructions that write these lines on the picture.
fn sign(lines: &[String]) -> Vec<Instruction> {
    let downwards = (0..).map(|n: u16| MARGIN + n * LINE);
    let lines = lines.iter().zip(downwards);
    let rects = lines.flat_map(|(line, y)| letters(line, MARGIN, y, 1024 - MARGIN));
    let mut sign: Vec<_> = rects
        .map(|rect| {
            let numbers = rect.iter().map(u16::to_string);
            Instruction::new("rect", std::iter::once("0".to_owned()).chain(numbers))
        })
        .collect();
    sign.push(Instruction::new(
        "cfill",
        ["14", "0", "255", "255", "255", "255"],
    ));
    sign
}

/// Asks the host as an RDP client does, with the user's name in the cookie.
async fn reach(target: &Target) -> io::Result<TcpStream> {
    let mut host = TcpStream::connect((target.host.as_str(), target.port)).await?;
    host.write_all(&request(&target.user)).await?;
    let mut head = [0; 6];
    host.read_exact(&mut head).await?;
    let [_, _, _, _, _, code] = head;
    if code & 0xf0 != 0xd0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(host)
}

/// TPKT, X.224 connection request, cookie, negotiation request for TLS or
/// CredSSP. Of the name at most nine characters are sent, as clients do.
fn request(user: &str) -> Vec<u8> {
    let user: String = user
        .chars()
        .filter(char::is_ascii_graphic)
        .take(9)
        .collect();
    let cookie = format!("{COOKIE}{user}\r\n");
    // At most 45 bytes in all.
    let total = u8::try_from(4 + 7 + cookie.len() + 8).unwrap_or(u8::MAX);
    let mut bytes = vec![3, 0, 0, total, total - 5, 0xe0, 0, 0, 0, 0, 0];
    bytes.extend(cookie.into_bytes());
    bytes.extend([1, 0, 8, 0, 3, 0, 0, 0]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_tells_its_own_length() {
        for user in ["", "anna", "a-much-longer-name", "jürgen"] {
            let bytes = request(user);
            assert_eq!(usize::from(bytes[3]), bytes.len(), "{user}");
            assert_eq!(usize::from(bytes[4]), bytes.len() - 5, "{user}");
        }
    }

    #[tokio::test]
    async fn a_host_that_is_not_there_is_told_to_the_page() {
        let nowhere = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = nowhere.local_addr().unwrap().port();
        drop(nowhere);
        let guacd = StandIn::start().await.unwrap();
        let socket = TcpStream::connect(guacd.address).await.unwrap();
        let mut page = Wire::new(socket, Side::Guacd);
        page.say("select", ["rdp"]).await.unwrap();
        let names = page.expect("args").await.unwrap();
        let port = port.to_string();
        let value = |name: &String| match name.as_str() {
            VERSION => VERSION.to_owned(),
            "hostname" => "127.0.0.1".to_owned(),
            "port" => port.clone(),
            _ => String::new(),
        };
        let connect = Instruction::new("connect", names.iter().map(value));
        page.send(&connect).await.unwrap();
        page.expect("ready").await.unwrap();
        page.expect("log").await.unwrap();
        page.expect("size").await.unwrap();
        assert_eq!(page.expect("error").await.unwrap()[1], "519");
    }
}
