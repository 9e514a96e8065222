//! The demo that stays: no visitor and no scenes, but a real Guacamole may come,
//! and each decision and what is sent to guacd is shown as it happens.

use std::io::Write;
use std::net::SocketAddr;

use tokio_util::sync::CancellationToken;

use super::TITLE;
use super::fault::Fault;
use super::overheard::{Overheard, Printable, What};
use super::script::Script;
use super::witness::Line;

impl<W: Write> Script<W> {
    /// Shows what happens until it is told to stop.
    pub(super) async fn stay(&mut self, stop: &CancellationToken) -> Result<(), Fault> {
        self.stage.start(None).await?;
        self.invite()?;
        loop {
            tokio::select! {
                // A decision before what follows from it.
                biased;
                () = stop.cancelled() => return Ok(()),
                lines = self.stage.witness.take() => {
                    lines.iter().try_for_each(|line| self.show_line(line))?;
                }
                Some(overheard) = self.stage.tap.overheard.recv() => {
                    self.show_overheard(&overheard)?;
                }
            }
        }
    }

    /// What happened while the broker stopped, and what it was in all.
    pub(super) fn show_last(&mut self) -> Result<(), Fault> {
        for line in self.stage.witness.taken() {
            self.show_line(&line)?;
        }
        while let Ok(overheard) = self.stage.tap.overheard.try_recv() {
            self.show_overheard(&overheard)?;
        }
        self.show.text("\nEnded.\n")?;
        self.show_totals()
    }

    fn invite(&mut self) -> Result<(), Fault> {
        let address = self.stage.broker()?;
        let (host, port) = (reachable(address), address.port());
        self.show.title(TITLE)?;
        self.show
            .text("\n  The broker is the real one, and waits for a real Guacamole. Behind it:\n")?;
        self.introduce_behind()?;
        let show = &mut self.show;
        show.text("\n  Tell Guacamole where guacd is, in one of these ways:\n")?;
        show.fact(
            "container",
            format_args!("GUACD_HOSTNAME={host} GUACD_PORT={port}"),
        )?;
        show.fact(
            "properties",
            format_args!("guacd-hostname: {host}, guacd-port: {port}"),
        )?;
        show.fact(
            "connection",
            format_args!("Guacamole Proxy Parameters (guacd): hostname {host}, port {port}"),
        )?;
        if address.ip().is_loopback() {
            let only = "only this machine reaches that; --listen 0.0.0.0:4822 is for all";
            show.fact("", only)?;
        }
        show.text("\n  Make an RDP connection there and type as its hostname:\n")?;
        let app = if self.stage.is_real() {
            "a RemoteApp, where the hosts publish one as \"Sage\""
        } else {
            "a RemoteApp; the stand-in shows its alias"
        };
        for (selector, meaning) in [
            (
                "sessionguard:resource=office-desktop",
                "a desktop of farm office",
            ),
            ("sessionguard:resource=sage", app),
            (
                "sessionguard:resource=cad",
                "refused: its host is in maintenance",
            ),
        ] {
            show.text(format_args!("    {selector:<38}{meaning}"))?;
        }
        show.text("\n  Ctrl-C ends it, and the connections through it.")?;
        Ok(())
    }

    fn show_line(&mut self, line: &Line) -> Result<(), Fault> {
        let field = |name| Printable(line.field(name));
        let (decision, tunnel) = (field("decision_id"), field("tunnel"));
        let show = &mut self.show;
        match line.message.as_str() {
            "Placed" => {
                let (user, resource, host) = (field("user"), field("resource"), field("host"));
                show.action(format_args!("{user} opens {resource}"))?;
                let score = match line.field("score") {
                    "" => String::new(),
                    score => format!(", score {score}"),
                };
                let reason = field("reason");
                show.fact(
                    "decided",
                    format_args!("{host}{score}, chosen by: {reason}"),
                )?;
                show.fact("", format_args!("decision {decision}"))?;
                show.fact("", format_args!("tunnel {tunnel}"))?;
            }
            "Refused" => {
                show.action("Somebody is refused")?;
                show.fact("decided", format_args!("refused: {}", field("reason")))?;
                if !line.field("decision_id").is_empty() {
                    show.fact("", format_args!("decision {decision}"))?;
                }
            }
            "Passed through" => {
                let protocol = field("protocol");
                show.action(format_args!("A {protocol} connection that nobody mapped"))?;
                show.fact("decided", "nothing: passed through")?;
            }
            "Joined" => {
                show.action(format_args!("Somebody joins {}", field("connection")))?;
                show.fact("decided", "nothing: joined at guacd")?;
            }
            "Tunnel ended" => {
                let seconds: f64 = line.field("seconds").parse().unwrap_or_default();
                let how = field("how");
                show.fact("ended", format_args!("{how}, after {seconds:.1} s"))?;
                show.fact("", format_args!("tunnel {tunnel}"))?;
            }
            _ if line.serious => show.fact("broker", Printable(&line.to_string()))?,
            _ => {}
        }
        Ok(())
    }

    fn show_overheard(&mut self, overheard: &Overheard) -> Result<(), Fault> {
        let label = format!("guacd {}", overheard.connection);
        match &overheard.what {
            What::Told(told) => {
                let mut lines = told.lines.iter();
                let first = lines.next().map_or("", String::as_str);
                let (opcode, first) = (Printable(&told.opcode), Printable(first));
                self.show.fact(&label, format_args!("{opcode} {first}"))?;
                for line in lines {
                    self.show.fact("", format_args!("  {}", Printable(line)))?;
                }
            }
            What::Arrived(arrival) => {
                let id = Printable(&arrival.id);
                self.show
                    .fact(&label, format_args!("answered: ready {id}"))?;
            }
            What::Trouble(text) => self.show.fact(&label, text)?,
            What::Ended {
                to_guacd,
                from_guacd,
            } => self.show.fact(
                &label,
                format_args!("closed; {to_guacd} bytes to guacd, {from_guacd} from it"),
            )?,
        }
        Ok(())
    }
}

/// What to tell somebody who is to dial this.
fn reachable(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        "<this machine's address>".to_owned()
    } else {
        address.ip().to_string()
    }
}
