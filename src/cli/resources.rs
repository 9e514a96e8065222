//! `sessionguard resources`: what is published, and whether anybody asks for
//! it.

use std::process::ExitCode;

use serde::Deserialize;

use super::age;
use super::ask::{Asking, query};
use super::table::{Paint, Table, Tone, plain};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Those that lead to this farm
    #[arg(long, value_name = "ID")]
    farm: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    id: String,
    kind: String,
    remote_app: Option<String>,
    farm: Option<String>,
    enabled: bool,
    carriers: Carriers,
    matched: u64,
    matched_seconds_ago: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Carriers {
    guacamole_connection_id: Option<String>,
    guacamole_connection_name: Option<String>,
    hostnames: Vec<String>,
    load_balance_info: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let path = query("/api/v1/resources", &[("farm", arguments.farm.as_deref())]);
    let asking = &arguments.asking;
    asking.show(&path, |told: Resources, paint| told.show(paint))
}

impl Resources {
    fn show(&self, paint: Paint) -> String {
        let mut table = Table::new(&["resource", "kind", "farm", "matched", "last", "named by"]);
        for resource in &self.resources {
            table.row(resource.row());
        }
        table.show(paint)
    }
}

impl Resource {
    fn row(&self) -> Vec<(String, Tone)> {
        let kind = match &self.remote_app {
            Some(alias) => format!("{} {alias}", self.kind),
            None => self.kind.clone(),
        };
        let last = self.matched_seconds_ago;
        vec![
            (self.id.clone(), Tone::Strong),
            plain(kind),
            match (&self.farm, self.enabled) {
                (_, false) => ("disabled".to_owned(), Tone::Bad),
                (Some(farm), true) => plain(farm),
                (None, true) => ("none".to_owned(), Tone::Bad),
            },
            plain(self.matched),
            plain(last.map_or_else(|| "never".to_owned(), |s| format!("{} ago", age(s)))),
            plain(self.carriers.named()),
        ]
    }
}

impl Carriers {
    /// Besides the resource's own id.
    fn named(&self) -> String {
        let mut named = Vec::new();
        let said =
            |what: &str, text: &Option<String>| text.as_ref().map(|text| format!("{what} {text}"));
        named.extend(said("connection id", &self.guacamole_connection_id));
        named.extend(said("connection name", &self.guacamole_connection_name));
        named.extend(self.hostnames.iter().map(|name| format!("hostname {name}")));
        named.extend(said("load balance info", &self.load_balance_info));
        named.join(", ")
    }
}
