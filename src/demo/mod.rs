//! The demo: the real broker between a scripted Guacamole and a stand-in guacd,
//! on three scripted hosts, in one process and with nothing installed.
//!
//! ```text
//! visitor (Guacamole) ---> App: tunnel, broker, fleet, store ---> tap ---> guacd ---> host
//!                           | its own log                        | what is sent
//!                           `------> witness ------> script <----'
//! ```
//!
//! Each scene shows what somebody typed and clicked, what the broker said it
//! decided, what arrived at guacd and what the page got, and checks that these
//! fit together; one that does not ends the demo. No result is written down in
//! here. It refuses to print a password. Called by the command line.
//!
//! Or it stays, without the visitor, for a real Guacamole to click.

mod fault;
mod guacd;
mod host;
mod lettering;
mod overheard;
mod scenes;
mod script;
mod show;
mod stage;
mod stay;
mod tap;
mod visitor;
mod wire;
mod witness;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;

use tokio_util::sync::CancellationToken;

use crate::config::HostPort;
pub use fault::Fault;
use script::Script;
use show::Show;
use stage::{Guacd, Stage};

const TITLE: &str = concat!("sessionguard ", env!("CARGO_PKG_VERSION"), ", a demo");

/// What the demo is played with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A real guacd in place of the stand-in; needs real hosts.
    pub guacd: Option<HostPort>,
    /// Real hosts in place of the scripted ones: none, or two and more (one is
    /// enough where it stays).
    pub hosts: Vec<HostPort>,
    /// The account on real hosts; the stand-in logs nobody on.
    pub login: Option<Login>,
    /// Where to listen for a real Guacamole, in place of playing the scenes.
    pub stay: Option<SocketAddr>,
    /// Whether colour may be written.
    pub colour: bool,
    /// Whether somebody reads along, and needs a pause between scenes.
    pub pauses: bool,
}

/// An account on the hosts.
#[derive(Clone)]
pub struct Login {
    /// Its name.
    pub username: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

/// Plays the demo. Needs a current-thread runtime: what the broker logs is
/// heard on the calling thread alone.
///
/// # Errors
/// The first thing that was not as it should be; it has been written already,
/// output that fails aside.
pub async fn run(
    options: Options,
    out: &mut impl Write,
    stop: &CancellationToken,
) -> Result<(), Fault> {
    let mut show = Show::new(out, options.colour, options.pauses);
    let stays = options.stay.is_some();
    let stage = match Stage::set(options).await {
        Ok(stage) => stage,
        Err(fault) => {
            show.failed(&fault)?;
            return Err(fault);
        }
    };
    let mut script = Script {
        stage,
        show,
        open: BTreeMap::new(),
        rows: Vec::new(),
    };
    let played = if stays {
        script.stay(stop).await
    } else {
        let played = stop.run_until_cancelled(script.play()).await;
        played.unwrap_or(Err(Fault::Interrupted))
    };
    match &played {
        Ok(()) | Err(Fault::Output(_)) => {}
        Err(Fault::Interrupted) => script.show.text("\nInterrupted.")?,
        Err(fault) => {
            script.show.failed(fault)?;
            for line in script.stage.witness.warnings() {
                script.show.fact("broker", line)?;
            }
        }
    }
    // Whatever happened, the broker writes its last leases before its folder goes.
    let stopped = script.stage.stop().await;
    if played.is_ok() && stays {
        script.show_last()?;
    }
    played.and(stopped)
}

impl<W: Write> Script<W> {
    /// The story.
    async fn play(&mut self) -> Result<(), Fault> {
        self.introduce()?;
        self.stage.start(None).await?;

        let mut users = self.users_spread().await?;
        self.user_returns(&mut users).await?;
        if !self.stage.is_real() {
            self.remote_app(&users).await?;
        }
        self.second_client().await?;
        self.vnc_passes().await?;
        self.refusals().await?;

        let drained = self.restart_with_a_drained_host(&users).await?;
        self.drained_host(&drained).await?;
        self.sum_up()
    }

    fn introduce(&mut self) -> Result<(), Fault> {
        let show = &mut self.show;
        show.title(TITLE)?;
        show.text("\n  The broker is the real one. Around it:\n")?;
        show.fact(
            "Guacamole",
            "scripted; it sends what Guacamole 1.5.0 and later send",
        )?;
        self.introduce_behind()?;
        if self.stage.is_real() {
            let show = &mut self.show;
            show.fact(
                "",
                "hosts' certificates are not checked, and the RemoteApp scene",
            )?;
            show.fact("", "is left out: it needs an application on them")?;
        }
        Ok(())
    }

    /// What stands behind the broker.
    fn introduce_behind(&mut self) -> Result<(), Fault> {
        let (show, stage) = (&mut self.show, &self.stage);
        match &stage.guacd {
            Guacd::StandIn(guacd) => {
                let address = guacd.address;
                show.fact(
                    "guacd",
                    format_args!("a STAND-IN at {address}: no RDP, no desktop"),
                )?;
            }
            Guacd::Real(address) => {
                show.fact("guacd", format_args!("the real one at {address}"))?;
            }
        }
        let tap = stage.tap.address;
        show.fact("tap", format_args!("at {tap}, shows what is sent to guacd"))?;
        for (at, host) in stage.hosts.iter().enumerate() {
            let (id, address) = (&host.id, &host.address);
            let kind = if host.last_caller().is_some() {
                "scripted; it answers X.224"
            } else {
                "real"
            };
            let label = if at == 0 { "hosts" } else { "" };
            show.fact(label, format_args!("{id} at {address}, {kind}"))?;
        }
        Ok(())
    }

    /// What passed the tap. Connections still open count none of their bytes.
    fn show_totals(&mut self) -> Result<(), Fault> {
        let tap::Totals {
            connections,
            to_guacd,
            from_guacd,
        } = self.stage.tap.totals();
        Ok(self.show.fact(
            "tap",
            format_args!(
                "{connections} connections to guacd; {to_guacd} bytes to it and {from_guacd} \
                 from it on those that ended"
            ),
        )?)
    }

    fn sum_up(&mut self) -> Result<(), Fault> {
        let heading = ["user", "connection", "host", "why"].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(heading)
            .chain(self.rows.drain(..))
            .collect();
        self.show.text("")?;
        self.show.title("Who went where")?;
        self.show.table(&rows)?;
        self.show.text("")?;
        self.show_totals()?;
        let show = &mut self.show;
        let props = match (
            &self.stage.guacd,
            self.stage.hosts.iter().any(|h| h.last_caller().is_some()),
        ) {
            (Guacd::Real(_), _) => "The guacd and the hosts were real",
            (Guacd::StandIn(_), true) => "The guacd was a stand-in and the hosts were scripted",
            (Guacd::StandIn(_), false) => "The guacd was a stand-in, the hosts were real",
        };
        show.text(format_args!(
            "\n{props}; broker, store and protocol\n\
             were what `sessionguard serve` runs."
        ))?;
        show.text(
            "Next: give sessionguard a configuration with your hosts, move guacd to the address in\n\
             its [guacd], let guacd-hostname and guacd-port in guacamole.properties point at\n\
             sessionguard, and type a selector like the ones above into one connection's hostname.\n\
             README.md goes through it step by step.",
        )?;
        Ok(())
    }
}
