//! The scripted Guacamole: one click on one connection, from `select` to the
//! first picture, and the page that stays open afterwards.
//!
//! Parameters are answered by name, as Guacamole answers them. It tells what
//! the page got; whether that is right is not its business.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use guac_protocol::{Instruction, ParameterNames, Side};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::wire::Wire;

/// How often an idle page says something.
const IDLE: Duration = Duration::from_secs(5);

/// For the other end to close, once the page has left.
const GOODBYE: Duration = Duration::from_secs(2);

/// What somebody clicks on. Not printable as a whole: it holds a password.
#[derive(Clone)]
pub(super) struct Click {
    /// Who clicks.
    pub(super) login: &'static str,
    /// What they logged on to Guacamole as.
    pub(super) name: String,
    /// What the connection is called.
    pub(super) connection: &'static str,
    /// The protocol, or the id of a connection to join.
    pub(super) select: String,
    /// Parameters as an administrator typed them.
    pub(super) typed: Vec<(&'static str, String)>,
    /// RDP or VNC user and password: sent, never shown.
    pub(super) credentials: Vec<(&'static str, String)>,
}

/// What the page got so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    /// The connection's id as Guacamole knows it.
    pub(super) id: Option<String>,
    /// What guacd logged to it.
    pub(super) log: Option<String>,
    /// Complete pictures: how often `sync` came.
    pub(super) pictures: u32,
    /// The text and number of the first `error`.
    pub(super) error: Option<(String, u16)>,
    /// The connection is over.
    pub(super) over: bool,
}

/// A page that is open.
pub(super) struct Visit {
    pub(super) page: watch::Receiver<Page>,
    /// The names it was shown, the version aside.
    pub(super) shown: Vec<String>,
    /// What it answered, by those names.
    pub(super) sent: Vec<(String, String)>,
    leave: DropGuard,
    task: JoinHandle<()>,
}

/// Clicks: connects and shakes hands up to `connect`; the rest goes on in the
/// background and is told by [`Visit::page`].
pub(super) async fn click(broker: SocketAddr, click: &Click) -> io::Result<Visit> {
    let mut wire = Wire::new(TcpStream::connect(broker).await?, Side::Guacd);
    wire.say("select", [click.select.as_str()]).await?;
    let args = Instruction::new("args", wire.expect("args").await?);
    let names = ParameterNames::from_args(args).map_err(io::Error::other)?;
    wire.say("size", ["1024", "768", "96"]).await?;
    wire.say("audio", ["audio/L16"]).await?;
    wire.say("video", []).await?;
    wire.say("image", ["image/png", "image/jpeg"]).await?;
    wire.say("timezone", ["Europe/Berlin"]).await?;
    wire.say("name", [click.name.as_str()]).await?;
    let shown: Vec<String> = names.iter().map(str::to_owned).collect();
    let sent: Vec<_> = shown
        .iter()
        .map(|name| (name.clone(), click.value(name)))
        .collect();
    let values = sent.iter().map(|(_, value)| value.as_str());
    let connect = Instruction::new("connect", names.version().into_iter().chain(values));
    wire.send(&connect).await?;
    let (told, page) = watch::channel(Page::default());
    let leave = CancellationToken::new();
    let task = tokio::spawn(stay(wire, told, leave.clone()));
    Ok(Visit {
        page,
        shown,
        sent,
        leave: leave.drop_guard(),
        task,
    })
}

impl Click {
    /// Empty where nobody typed anything, as Guacamole does it.
    fn value(&self, name: &str) -> String {
        let mut all = self.typed.iter().chain(&self.credentials);
        let found = all.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

impl Visit {
    /// Closes the page, and waits until the other end has closed too.
    pub(super) async fn leave(self) {
        drop(self.leave);
        // It ends by its own clock; a page that broke is closed as well.
        let _ = self.task.await;
    }
}

/// The open page: it follows what it is sent until it leaves or is left.
async fn stay(mut wire: Wire, told: watch::Sender<Page>, leave: CancellationToken) {
    let mut idle = interval(IDLE);
    idle.tick().await;
    loop {
        let said = tokio::select! {
            said = wire.next() => said,
            // Where the other end is gone, the next read tells.
            _ = idle.tick() => { drop(wire.send(&Instruction::nop()).await); continue }
            () = leave.cancelled() => break,
        };
        let Ok(Some(instruction)) = said else { break };
        if instruction.opcode() == "sync" {
            let answer = Instruction::new("sync", instruction.args().iter().take(1).cloned());
            drop(wire.send(&answer).await);
        }
        told.send_modify(|page| page.see(instruction));
    }
    told.send_modify(|page| page.over = true);
    let farewell = async {
        wire.send(&Instruction::disconnect()).await?;
        wire.hang_up().await?;
        while wire.next().await?.is_some() {}
        Ok::<_, io::Error>(())
    };
    // Whoever was left does not have to answer.
    let _ = timeout(GOODBYE, farewell).await;
}

impl Page {
    fn see(&mut self, instruction: Instruction) {
        match instruction.opcode() {
            "ready" => self.id = instruction.into_args().into_iter().next(),
            "log" => self.log = instruction.into_args().into_iter().next(),
            "sync" => self.pictures += 1,
            "error" if self.error.is_none() => {
                let mut args = instruction.into_args().into_iter();
                let text = args.next().unwrap_or_default();
                let code = args.next().and_then(|code| code.parse().ok());
                self.error = Some((text, code.unwrap_or_default()));
            }
            _ => {}
        }
    }
}
