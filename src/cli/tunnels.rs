//! `sessionguard tunnels`: the open tunnels, and their end.

use std::process::ExitCode;

use serde::Deserialize;

use super::ask::{Asking, escaped, query};
use super::filters::Filters;
use super::table::{Paint, Table, Tone, plain};
use super::{age, complain, last_tunnel, size};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// End a tunnel, or every tunnel to a host; the page is told
    End(End),
    /// Wait until no tunnel is open, joined and passed-through ones included
    Wait(last_tunnel::Arguments),
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["id", "host"]))]
struct End {
    /// The tunnel's id, as listed and in the log
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: Option<String>,
    /// Every tunnel to this host
    #[arg(long, value_name = "ID")]
    host: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tunnels {
    tunnels: Vec<Tunnel>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tunnel {
    id: String,
    kind: String,
    protocol: Option<String>,
    user: Option<String>,
    login: Option<String>,
    host: Option<String>,
    resource: Option<String>,
    open_seconds: u64,
    stood: Option<String>,
    to_guacd: u64,
    to_guacamole: u64,
}

#[derive(Debug, Deserialize)]
struct Ended {
    ended: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.action {
        Some(Action::End(end)) => return end.run(),
        Some(Action::Wait(wait)) => return last_tunnel::run(wait),
        None => {}
    }
    let path = arguments.filters.on("/api/v1/tunnels");
    let asking = &arguments.asking;
    asking.show(&path, |told: Tunnels, paint| {
        if let Some(next) = &told.next {
            complain(format_args!("there are more: ask with --after {next}"));
        }
        table(&told.tunnels, paint)
    })
}

impl End {
    fn run(&self) -> ExitCode {
        let path = match (&self.id, &self.host) {
            (Some(id), _) => format!("/api/v1/tunnels/{}", escaped(id.trim())),
            (None, host) => query("/api/v1/tunnels", &[("host", host.as_deref())]),
        };
        match self.asking.broker.delete(&path) {
            Ok(answer) => self.asking.tell(answer, |told: Ended, _| told.show()),
            Err(code) => code,
        }
    }
}

impl Ended {
    fn show(&self) -> String {
        match self.ended.as_slice() {
            [] => "no tunnel was open".to_owned(),
            ended => {
                let lines = ended.iter().map(|id| format!("tunnel {id} ends"));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// The tunnels as a table; the long id last, so that the rest stays in sight.
pub(super) fn table(tunnels: &[Tunnel], paint: Paint) -> String {
    let mut table = Table::new(&[
        "user", "host", "resource", "state", "open", "sent", "received", "tunnel",
    ]);
    for tunnel in tunnels {
        table.row(tunnel.row());
    }
    table.show(paint)
}

impl Tunnel {
    fn row(&self) -> Vec<(String, Tone)> {
        let user = match (&self.user, &self.login) {
            (Some(user), _) => user.clone(),
            (None, Some(login)) => format!("login {login}"),
            (None, None) => "not known".to_owned(),
        };
        let state = match (self.kind.as_str(), &self.stood) {
            ("brokered", Some(_)) => ("stood", Tone::Good),
            ("brokered", None) => ("pending", Tone::Plain),
            ("pass-through", _) => ("passed", Tone::Plain),
            (kind, _) => (kind, Tone::Plain),
        };
        let what = self.resource.as_ref().or(self.protocol.as_ref());
        vec![
            (user, Tone::Strong),
            plain(self.host.as_deref().unwrap_or_default()),
            plain(what.map(String::as_str).unwrap_or_default()),
            (state.0.to_owned(), state.1),
            plain(age(self.open_seconds)),
            plain(size(self.to_guacd)),
            plain(size(self.to_guacamole)),
            plain(&self.id),
        ]
    }
}
