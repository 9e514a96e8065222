//! `sessionguard hosts`: the hosts, and what keeps newcomers from them.

use std::fmt::Write;
use std::process::ExitCode;

use serde::Deserialize;

use super::age;
use super::ask::{Asking, query};
use super::table::{Paint, Table, Tone, plain};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Those of this farm
    #[arg(long, value_name = "ID")]
    farm: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Deserialize)]
struct Hosts {
    hosts: Vec<Host>,
    unmatched: Vec<UnmatchedHost>,
}

/// A host that reports and is not configured.
#[derive(Debug, Deserialize)]
struct UnmatchedHost {
    id: String,
    hostname: String,
    seconds_ago: u64,
}

#[derive(Debug, Deserialize)]
struct Host {
    id: String,
    address: Option<String>,
    mode: String,
    reach: String,
    report_age_seconds: Option<u64>,
    active: u32,
    disconnected: u32,
    occupancy: Option<Occupancy>,
    tunnels: u64,
    newcomer: Vec<Newcomer>,
}

#[derive(Debug, Deserialize)]
struct Occupancy {
    users: u32,
    max_users: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Newcomer {
    farm: String,
    score: f64,
    out: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let path = query("/api/v1/hosts", &[("farm", arguments.farm.as_deref())]);
    let asking = &arguments.asking;
    asking.show(&path, |told: Hosts, paint| told.show(paint))
}

impl Hosts {
    fn show(&self, paint: Paint) -> String {
        let mut table = Table::new(&[
            "host",
            "address",
            "mode",
            "reach",
            "report",
            "active",
            "left",
            "users",
            "tunnels",
            "for newcomers",
        ]);
        for host in &self.hosts {
            table.row(host.row());
        }
        let mut shown = table.show(paint);
        for host in &self.unmatched {
            let (id, name, ago) = (&host.id, &host.hostname, age(host.seconds_ago));
            // Writing to a text cannot fail.
            let _ = writeln!(shown, "not configured: {id} ({name}), heard {ago} ago");
        }
        shown
    }
}

impl Host {
    fn row(&self) -> Vec<(String, Tone)> {
        let tone = |good: bool| if good { Tone::Good } else { Tone::Bad };
        let address = self.address.as_deref().unwrap_or("taken out");
        let report = self.report_age_seconds;
        let users = self.occupancy.as_ref().map(|o| match o.max_users {
            Some(most) => format!("{} of {most}", o.users),
            None => o.users.to_string(),
        });
        vec![
            (self.id.clone(), Tone::Strong),
            plain(address),
            (self.mode.clone(), tone(self.mode == "online")),
            (self.reach.clone(), tone(self.reach == "online")),
            plain(report.map_or_else(|| "no agent".to_owned(), age)),
            plain(self.active),
            plain(self.disconnected),
            plain(users.unwrap_or_default()),
            plain(self.tunnels),
            self.newcomers(),
        ]
    }

    /// In one word where every farm says the same.
    fn newcomers(&self) -> (String, Tone) {
        let says = |newcomer: &Newcomer| match &newcomer.out {
            Some(rule) => format!("out: {rule}"),
            None => format!("score {:.0}", newcomer.score),
        };
        let out = self.newcomer.iter().all(|farm| farm.out.is_some());
        let mut said: Vec<_> = self.newcomer.iter().map(says).collect();
        said.dedup();
        let text = match said.as_slice() {
            [] => "in no farm".to_owned(),
            [one] => one.clone(),
            _ => {
                let farms = self.newcomer.iter();
                let farms = farms.map(|farm| format!("{} {}", farm.farm, says(farm)));
                farms.collect::<Vec<_>>().join(", ")
            }
        };
        (text, if out { Tone::Bad } else { Tone::Good })
    }
}
