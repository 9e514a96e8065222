//! `sessionguard farms`: the farms, and how full they are.

use std::process::ExitCode;

use serde::Deserialize;

use super::ask::Asking;
use super::table::{Paint, Table, Tone, plain};

#[derive(Debug, Deserialize)]
struct Farms {
    farms: Vec<Farm>,
}

#[derive(Debug, Deserialize)]
struct Farm {
    id: String,
    name: String,
    enabled: bool,
    hosts: Vec<String>,
    hosts_open: usize,
    resources: Vec<String>,
    users: u64,
    active: u64,
    disconnected: u64,
    tunnels: usize,
}

pub(super) fn run(asking: &Asking) -> ExitCode {
    asking.show("/api/v1/farms", |told: Farms, paint| told.show(paint))
}

impl Farms {
    fn show(&self, paint: Paint) -> String {
        let mut table = Table::new(&[
            "farm",
            "name",
            "hosts open",
            "users",
            "active",
            "left",
            "tunnels",
            "resources",
        ]);
        for farm in &self.farms {
            table.row(farm.row());
        }
        table.show(paint)
    }
}

impl Farm {
    fn row(&self) -> Vec<(String, Tone)> {
        let open = match self.enabled {
            true => format!("{} of {}", self.hosts_open, self.hosts.len()),
            false => "disabled".to_owned(),
        };
        let tone = match self.hosts_open {
            0 => Tone::Bad,
            _ => Tone::Good,
        };
        vec![
            (self.id.clone(), Tone::Strong),
            plain(&self.name),
            (open, tone),
            plain(self.users),
            plain(self.active),
            plain(self.disconnected),
            plain(self.tunnels),
            plain(self.resources.join(" ")),
        ]
    }
}
