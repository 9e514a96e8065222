//! `sessionguard status`: the running broker, its farms, and the hosts that are
//! not as they should be; one screen, however large the farms.

use std::fmt::Write;
use std::process::ExitCode;

use serde::Deserialize;

use super::ask::Asking;
use super::glance::{self, Host};
use super::table::{Paint, Tone};
use super::{age, span};

/// Host names shown; a pilot may have many.
const HOSTNAMES: usize = 3;
/// Alarms shown.
const ALARMS: usize = 5;
/// Resources shown; the whole list is `resources`'.
const RESOURCES: usize = 20;

#[derive(Debug, Deserialize)]
struct Status {
    version: String,
    uptime_seconds: u64,
    mode: String,
    configuration: u64,
    generation: u64,
    reload: Option<Reload>,
    alarms: Vec<String>,
    tunnels: u64,
    #[serde(default)]
    guacd: Vec<Guacd>,
    certificates: Vec<Certificate>,
    decisions_lost: u64,
    audit_lines_lost: u64,
    resources_never_matched: Vec<String>,
    hostnames_never_matched: Vec<Hostname>,
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
struct Reload {
    attempt: Option<Attempt>,
    restart: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Attempt {
    findings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Hostname {
    hostname: String,
    times: u64,
    seconds_ago: u64,
}

#[derive(Debug, Deserialize)]
struct Guacd {
    name: String,
    address: String,
    tunnels: u64,
    put_aside_seconds: Option<u64>,
    failure: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Certificate {
    key: String,
    file: String,
    subject: String,
    not_after: String,
    last_error: Option<String>,
}

pub(super) fn run(asking: &Asking) -> ExitCode {
    asking.show("/api/v1/status", |status: Status, paint| status.show(paint))
}

impl Certificate {
    fn show(&self) -> String {
        let Self {
            key,
            file,
            subject,
            not_after,
            ..
        } = self;
        format!("{subject} until {not_after} ({key} {file})")
    }
}

impl Status {
    fn show(&self, paint: Paint) -> String {
        let mut shown = String::new();
        for (name, value) in self.facts() {
            let name = paint.text(Tone::Strong, &format!("{name:<15}"));
            // Writing to a text cannot fail.
            let _ = writeln!(shown, "{name}{value}");
        }
        let more = self.alarms.len().saturating_sub(ALARMS);
        let more = (more > 0).then(|| format!("and {more} more: see -o json"));
        for alarm in self.alarms.iter().take(ALARMS).chain(&more) {
            let name = paint.text(Tone::Bad, &format!("{:<15}", "alarm"));
            let _ = writeln!(shown, "{name}{alarm}");
        }
        shown.push('\n');
        shown.push_str(&glance::show(&self.hosts, paint));
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
        facts.extend(self.guacds());
        for certificate in &self.certificates {
            facts.push(("certificate", certificate.show()));
            if let Some(error) = &certificate.last_error {
                facts.push(("not exchanged", error.clone()));
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
        facts.extend(self.unmatched.iter().take(HOSTNAMES).map(|host| {
            let (id, ago) = (&host.id, age(host.seconds_ago));
            let said = format!(
                "{id} ({}), heard {ago} ago, is not configured",
                host.hostname
            );
            ("unmatched", said)
        }));
        let more = self.unmatched.len().saturating_sub(HOSTNAMES);
        if more > 0 {
            facts.push(("unmatched", format!("{more} more hosts: see -o json")));
        }
        facts.extend(self.never_matched());
        facts
    }

    /// Those that fail, and how many there are where there are several.
    fn guacds(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        let failing: Vec<_> = self
            .guacd
            .iter()
            .filter(|it| it.failure.is_some())
            .collect();
        if self.guacd.len() > 1 {
            let counts: Vec<_> = self.guacd.iter().map(|it| it.tunnels.to_string()).collect();
            let (count, shown) = (counts.len(), counts.join(" "));
            facts.push(("guacd", format!("{count}, with tunnels {shown}")));
        }
        facts.extend(failing.iter().take(HOSTNAMES).map(|it| {
            let failure = it.failure.as_deref().unwrap_or_default();
            let aside = it.put_aside_seconds.map(span);
            let aside = aside.map_or(String::new(), |left| format!(", put aside for {left}"));
            (
                "guacd",
                format!("{} {}: {failure}{aside}", it.name, it.address),
            )
        }));
        let more = failing.len().saturating_sub(HOSTNAMES);
        if more > 0 {
            facts.push(("guacd", format!("{more} more that fail: see -o json")));
        }
        facts
    }

    /// What no connection asked for since the start, and what led nowhere.
    fn never_matched(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if !self.resources_never_matched.is_empty() {
            let (shown, more) = self
                .resources_never_matched
                .split_at(self.resources_never_matched.len().min(RESOURCES));
            let mut resources = format!("resources {}", shown.join(" "));
            if !more.is_empty() {
                // Writing to a text cannot fail.
                let _ = write!(resources, " and {} more: see resources", more.len());
            }
            facts.push(("never matched", resources));
        }
        let mut hostnames: Vec<_> = self.hostnames_never_matched.iter().collect();
        hostnames.sort_by_key(|seen| seen.seconds_ago);
        let more = hostnames.len().saturating_sub(HOSTNAMES);
        facts.extend(hostnames.iter().take(HOSTNAMES).map(|seen| {
            let (times, ago) = (seen.times, age(seen.seconds_ago));
            let said = format!("hostname {} ({times} times, last {ago} ago)", seen.hostname);
            ("never matched", said)
        }));
        if more > 0 {
            facts.push((
                "never matched",
                format!("{more} more hostnames: see -o json"),
            ));
        }
        facts
    }
}
