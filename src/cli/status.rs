//! `sessionguard status`: the running broker and every host.

use std::fmt::Write;
use std::process::ExitCode;

use serde::Deserialize;

use super::ask::{Output, Where};
use super::table::{Paint, Table, Tone};
use super::{FAILED, complain, say, span};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    broker: Where,
}

#[derive(Debug, Deserialize)]
struct Status {
    version: String,
    uptime_seconds: u64,
    mode: String,
    configuration: u64,
    generation: u64,
    reload: Option<Reload>,
    tunnels: u64,
    decisions_lost: u64,
    audit_lines_lost: u64,
    hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
struct Reload {
    attempt: Option<Attempt>,
    restart: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Attempt {
    findings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Host {
    id: String,
    address: Option<String>,
    farms: Vec<String>,
    mode: String,
    reach: String,
    probe: String,
    probe_since: Option<String>,
    report_age_seconds: Option<u64>,
    active: u32,
    disconnected: u32,
    occupancy: Option<Occupancy>,
    tunnels: u64,
}

#[derive(Debug, Deserialize)]
struct Occupancy {
    users: u32,
    pending: u32,
    pending_cap: u32,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let answer = match arguments.broker.get("/api/v1/status") {
        Ok(answer) => answer,
        Err(code) => return code,
    };
    let text = match arguments.output {
        Output::Json => format!("{answer:#}"),
        Output::Table => match serde_json::from_value::<Status>(answer) {
            Ok(status) => status.show(Paint::stdout()),
            Err(error) => {
                complain(format_args!(
                    "the broker is of another release and says it differently ({error}): try -o json"
                ));
                return ExitCode::from(FAILED);
            }
        },
    };
    say(format_args!("{}", text.trim_end()))
}

impl Status {
    fn show(&self, paint: Paint) -> String {
        let mut shown = String::new();
        for (name, value) in self.facts() {
            let name = paint.text(Tone::Strong, &format!("{name:<15}"));
            // Writing to a text cannot fail.
            let _ = writeln!(shown, "{name}{value}");
        }
        let mut table = Table::new(&[
            "host",
            "address",
            "farms",
            "mode",
            "reach",
            "probe",
            "since",
            "report",
            "active",
            "disconnected",
            "users",
            "logons",
            "tunnels",
        ]);
        for host in &self.hosts {
            table.row(host.row());
        }
        shown.push('\n');
        shown.push_str(&table.show(paint));
        shown
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let up = span(self.uptime_seconds);
        let mut facts = vec![
            ("sessionguard", format!("{}, up for {up}", self.version)),
            ("mode", self.mode.clone()),
            (
                "configuration",
                format!("{}, picture {}", self.configuration, self.generation),
            ),
            ("tunnels", self.tunnels.to_string()),
        ];
        if let Some(reload) = &self.reload {
            let findings = reload.attempt.iter().flat_map(|attempt| &attempt.findings);
            facts.extend(findings.map(|finding| ("refused", finding.clone())));
            if !reload.restart.is_empty() {
                facts.push(("needs restart", reload.restart.join(" ")));
            }
        }
        if self.decisions_lost > 0 {
            facts.push(("not stored", format!("{} decisions", self.decisions_lost)));
        }
        if self.audit_lines_lost > 0 {
            facts.push((
                "audit trail",
                format!("{} lines lost", self.audit_lines_lost),
            ));
        }
        facts
    }
}

impl Host {
    fn row(&self) -> Vec<(String, Tone)> {
        let tone = |good: bool| if good { Tone::Good } else { Tone::Bad };
        let plain = |text: String| (text, Tone::Plain);
        let of =
            |read: fn(&Occupancy) -> String| self.occupancy.as_ref().map(read).unwrap_or_default();
        vec![
            (self.id.clone(), Tone::Strong),
            plain(
                self.address
                    .clone()
                    .unwrap_or_else(|| "taken out".to_owned()),
            ),
            plain(self.farms.join(" ")),
            (self.mode.clone(), tone(self.mode == "online")),
            (self.reach.clone(), tone(self.reach == "online")),
            plain(self.probe.clone()),
            plain(self.probe_since.clone().unwrap_or_default()),
            plain(
                self.report_age_seconds
                    .map_or_else(|| "no agent".to_owned(), |age| format!("{} old", span(age))),
            ),
            plain(self.active.to_string()),
            plain(self.disconnected.to_string()),
            plain(of(|o| o.users.to_string())),
            plain(of(|o| format!("{} of {}", o.pending, o.pending_cap))),
            plain(self.tunnels.to_string()),
        ]
    }
}
