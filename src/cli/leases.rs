//! `sessionguard leases`: who belongs where, and the end of that.

use std::process::ExitCode;

use serde::Deserialize;

use super::ask::{Asking, escaped, query};
use super::filters::Filters;
use super::table::{Paint, Table, Tone, plain};
use super::{age, complain};

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
    /// Release a lease that lingers: its user may go to any host again
    Release(Release),
}

#[derive(Debug, clap::Args)]
struct Release {
    /// The lease's key, as listed: domain\user, for most
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key: String,
    /// The lease in this farm alone
    #[arg(long, value_name = "ID")]
    farm: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Deserialize)]
struct Leases {
    leases: Vec<Lease>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Lease {
    key: String,
    farm: String,
    host: String,
    state: String,
    seconds_left: u64,
    holders: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Released {
    released: Vec<ReleasedLease>,
}

#[derive(Debug, Deserialize)]
struct ReleasedLease {
    key: String,
    farm: String,
    host: String,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(Action::Release(release)) = &arguments.action {
        return release.run();
    }
    let path = arguments.filters.on("/api/v1/leases");
    let asking = &arguments.asking;
    asking.show(&path, |told: Leases, paint| {
        if let Some(next) = &told.next {
            complain(format_args!("there may be more: ask with --after '{next}'"));
        }
        table(&told.leases, paint)
    })
}

impl Release {
    fn run(&self) -> ExitCode {
        let path = format!("/api/v1/leases/{}", escaped(self.key.trim()));
        let path = query(&path, &[("farm", self.farm.as_deref())]);
        match self.asking.broker.delete(&path) {
            Ok(answer) => self.asking.tell(answer, |told: Released, _| told.show()),
            Err(code) => code,
        }
    }
}

impl Released {
    fn show(&self) -> String {
        let lines = self.released.iter().map(|lease| {
            let ReleasedLease { key, farm, host } = lease;
            format!("lease of {key} on {host} in farm {farm} is released")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The leases as a table.
pub(super) fn table(leases: &[Lease], paint: Paint) -> String {
    let mut table = Table::new(&["lease", "farm", "host", "state", "ends in", "tunnels"]);
    for lease in leases {
        table.row(lease.row());
    }
    table.show(paint)
}

impl Lease {
    fn row(&self) -> Vec<(String, Tone)> {
        let tone = match self.state.as_str() {
            "live" => Tone::Good,
            _ => Tone::Plain,
        };
        vec![
            (self.key.clone(), Tone::Strong),
            plain(&self.farm),
            plain(&self.host),
            (self.state.clone(), tone),
            plain(age(self.seconds_left)),
            plain(self.holders.len()),
        ]
    }
}
