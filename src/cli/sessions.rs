//! `sessionguard sessions`: reported sessions; of one user everything that says
//! where they are.

use std::process::ExitCode;

use serde::Deserialize;

use super::age;
use super::ask::{Asking, query};
use super::commands::Action;
use super::leases::{self, Lease};
use super::table::{Paint, Table, Tone, plain};
use super::tunnels::{self, Tunnel};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Those of this user, spelled any way; with their tunnels and leases
    #[arg(long)]
    user: Option<String>,
    /// Those on this host
    #[arg(long, value_name = "ID")]
    host: Option<String>,
    /// Those on hosts of this farm
    #[arg(long, value_name = "ID")]
    farm: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Deserialize)]
struct Sessions {
    sessions: Vec<Session>,
    tunnels: Option<Vec<Tunnel>>,
    leases: Option<Vec<Lease>>,
}

#[derive(Debug, Deserialize)]
struct Session {
    user: String,
    host: String,
    state: String,
    seconds_ago: Option<u64>,
    report_age_seconds: u64,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(action) = &arguments.action {
        return action.run();
    }
    let filters = [
        ("user", arguments.user.as_deref()),
        ("host", arguments.host.as_deref()),
        ("farm", arguments.farm.as_deref()),
    ];
    let path = query("/api/v1/sessions", &filters);
    let asking = &arguments.asking;
    asking.show(&path, |told: Sessions, paint| told.show(paint))
}

impl Sessions {
    fn show(&self, paint: Paint) -> String {
        let mut parts = Vec::new();
        let none = |what: &str| format!("no {what}\n");
        parts.push(match self.sessions.as_slice() {
            [] => none("session is reported"),
            sessions => table(sessions, paint),
        });
        parts.extend(
            self.tunnels
                .as_ref()
                .map(|tunnels| match tunnels.as_slice() {
                    [] => none("tunnel is open"),
                    tunnels => tunnels::table(tunnels, paint),
                }),
        );
        parts.extend(self.leases.as_ref().map(|leases| match leases.as_slice() {
            [] => none("lease"),
            leases => leases::table(leases, paint),
        }));
        parts.join("\n")
    }
}

fn table(sessions: &[Session], paint: Paint) -> String {
    let mut table = Table::new(&["session of", "host", "state", "since", "reported"]);
    for session in sessions {
        table.row(session.row());
    }
    table.show(paint)
}

impl Session {
    fn row(&self) -> Vec<(String, Tone)> {
        vec![
            (self.user.clone(), Tone::Strong),
            plain(&self.host),
            plain(&self.state),
            plain(self.seconds_ago.map_or_else(|| "?".to_owned(), age)),
            plain(format!("{} ago", age(self.report_age_seconds))),
        ]
    }
}
