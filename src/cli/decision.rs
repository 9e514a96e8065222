//! A decision as people read it: what was asked, what came out and by which
//! rule, and what every host of the farm had to say.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::span;
use super::table::{Paint, Table, Tone};
use crate::placement::{
    Candidate, Decision, Figure, Outcome, Probe, Reach, Timestamp, Trust, Weights,
};

/// A decision as the broker tells it; what is not known here is skipped.
#[derive(Debug, Deserialize)]
pub(super) struct Told {
    id: String,
    time: String,
    at: Timestamp,
    act: String,
    outcome: String,
    reason: Option<String>,
    tunnel: Option<String>,
    #[serde(default)]
    asked: BTreeMap<String, String>,
    configuration: u64,
    decision: Option<Decision>,
    weights: Option<Weights>,
    rewritten: Option<Rewritten>,
}

#[derive(Debug, Deserialize)]
struct Rewritten {
    cleared: Vec<String>,
    set: Vec<String>,
    unknown: Vec<String>,
}

impl Told {
    pub(super) fn show(&self, paint: Paint) -> String {
        let mut shown = String::new();
        for (name, value) in self.facts() {
            let name = paint.text(Tone::Strong, &format!("{name:<15}"));
            // Writing to a text cannot fail.
            let _ = writeln!(shown, "{name}{value}");
        }
        shown.push('\n');
        shown.push_str(&self.hosts(paint));
        shown
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let decision = self.decision.as_ref();
        let act = match self.act.as_str() {
            "dry-run" => "dry run, nothing was changed",
            "observation" => "observed only, nothing was changed",
            _ => "acted on",
        };
        let mut facts = vec![
            ("decision", format!("{} ({act})", self.id)),
            ("made at", self.time.clone()),
        ];
        facts.extend(self.tunnel.clone().map(|tunnel| ("tunnel", tunnel)));
        facts.push(("asked for", self.asked()));
        if let Some(decision) = decision {
            let note = match decision.trust {
                Trust::Plain => "",
                Trust::Doubtful => " (doubtful: the Guacamole login is somebody else)",
                Trust::Ambiguous => " (ambiguous: several domains know this name)",
            };
            match &decision.user {
                Some(user) => facts.push(("user", format!("{user}{note}"))),
                // Without hosts it was decided before anybody asked who it is.
                None if decision.candidates.is_empty() => {}
                None => facts.push(("user", "not known: Guacamole asks for it".to_owned())),
            }
            let resource = decision.resource.as_ref();
            facts.extend(resource.map(|resource| ("resource", resource.to_string())));
            facts.extend(
                decision
                    .farm
                    .as_ref()
                    .map(|farm| ("farm", farm.to_string())),
            );
        }
        facts.push(("outcome", self.outcome()));
        let rule = self.reason.clone();
        facts.extend(rule.map(|rule| ("rule", rule)));
        if let Some(names) = &self.rewritten {
            facts.push(("rewritten", names.show()));
        }
        let picture = decision.map(|d| format!(", picture {}", d.generation));
        let picture = picture.unwrap_or_default();
        facts.push(("configuration", format!("{}{picture}", self.configuration)));
        facts
    }

    /// Who first, then what.
    fn asked(&self) -> String {
        let who = |name: &str| matches!(name, "username" | "domain" | "login");
        let (who, what): (Vec<_>, Vec<_>) = self.asked.iter().partition(|(name, _)| who(name));
        let parts = who.into_iter().rev().chain(what);
        let parts: Vec<_> = parts
            .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
            .collect();
        parts.join(", ")
    }

    fn outcome(&self) -> String {
        match self.decision.as_ref().map(|decision| &decision.outcome) {
            Some(Outcome::Placed(placement)) => {
                let placed = format!(
                    "{} on {} ({}:{})",
                    self.outcome, placement.host, placement.address, placement.port
                );
                match self.outcome.as_str() {
                    "placed" => placed,
                    _ => format!("failed, though {} was chosen", placement.host),
                }
            }
            Some(Outcome::Unmatched) => "passed through: it names no resource".to_owned(),
            _ => self.outcome.clone(),
        }
    }

    fn hosts(&self, paint: Paint) -> String {
        let candidates = self
            .decision
            .iter()
            .flat_map(|decision| &decision.candidates);
        let candidates: Vec<_> = candidates.collect();
        if candidates.is_empty() {
            return "No hosts were compared: it was decided before.\n".to_owned();
        }
        let weights = self.weights.unwrap_or_default();
        let formula = format!(
            "= health*{} - active*{} - disconnected*{} - CPU*{} - memory*{}",
            weights.health, weights.active, weights.disconnected, weights.cpu, weights.memory
        );
        let mut table = Table::new(&[
            "host",
            "",
            "new session",
            "score",
            &formula,
            "users",
            "logons",
            "reach",
            "probe",
            "report",
        ]);
        for candidate in &candidates {
            table.row(self.row(candidate, weights));
        }
        let mut shown = table.show(paint);
        for candidate in &candidates {
            if let Some(opening) = &candidate.breaker {
                // Writing to a text cannot fail.
                let _ = writeln!(shown, "{}: {}", candidate.host, opening.told(self.at));
            }
            if let Some(why) = candidate.session_set_aside {
                let host = &candidate.host;
                // Writing to a text cannot fail.
                let _ = writeln!(
                    shown,
                    "{host}: a session of the user is reported, not believed: {why}"
                );
            }
        }
        let unknown = |c: &&Candidate| !c.score.cpu.known || !c.score.memory.known;
        if candidates.iter().any(unknown) {
            shown.push_str("? not reported: the mean of the farm's known hosts stands in\n");
        }
        shown
    }

    fn row(&self, candidate: &Candidate, weights: Weights) -> Vec<(String, Tone)> {
        let Candidate {
            host,
            score,
            reach,
            probe,
            report,
            occupancy,
            exclusion,
            order,
            breaker: _,
            session_set_aside: _,
        } = candidate;
        let decided = self.decision.as_ref().map(|decision| &decision.outcome);
        let chosen = matches!(decided, Some(Outcome::Placed(p)) if p.host == *host);
        let plain = |text: String| (text, Tone::Plain);
        let terms = format!(
            "= {}*{} - {}*{} - {}*{} - {}*{} - {}*{}",
            score.health,
            weights.health,
            score.active,
            weights.active,
            score.disconnected,
            weights.disconnected,
            figure(score.cpu),
            weights.cpu,
            figure(score.memory),
            weights.memory
        );
        let age = |since: &Timestamp| span(self.at.since(*since).as_secs());
        vec![
            (
                host.to_string(),
                if chosen { Tone::Strong } else { Tone::Plain },
            ),
            (if chosen { "chosen" } else { "" }.to_owned(), Tone::Good),
            match exclusion {
                None => ("in".to_owned(), Tone::Good),
                Some(rule) => {
                    let order = order
                        .as_ref()
                        .map(|order| format!(" ({})", order.who_and_why()));
                    (
                        format!("out: {rule}{}", order.unwrap_or_default()),
                        Tone::Bad,
                    )
                }
            },
            plain(format!("{:.1}", score.total)),
            (terms, Tone::Faint),
            plain(occupancy.users.to_string()),
            plain(format!(
                "{} of {}",
                occupancy.pending, occupancy.pending_cap
            )),
            plain(
                match reach {
                    Reach::Online => "online",
                    Reach::Unknown => "unknown",
                    Reach::Silent => "silent",
                    Reach::LastKnown => "last known",
                    Reach::Dead => "dead",
                }
                .to_owned(),
            ),
            plain(match probe {
                Probe::Unknown => "not yet".to_owned(),
                Probe::Answering { since } => format!("answers for {}", age(since)),
                Probe::Failing { since } => format!("fails for {}", age(since)),
            }),
            plain(match report {
                None => "no agent".to_owned(),
                Some(at) => format!("{} old", age(at)),
            }),
        ]
    }
}

fn figure(figure: Figure) -> String {
    let mark = if figure.known { "" } else { "?" };
    format!("{mark}{:.0}", figure.percent)
}

impl Rewritten {
    fn show(&self) -> String {
        let parts = [
            ("cleared", &self.cleared),
            ("set", &self.set),
            ("not known to this guacd", &self.unknown),
        ];
        let mut said = vec!["host and port".to_owned()];
        for (what, names) in parts {
            if !names.is_empty() {
                said.push(format!("{what}: {}", names.join(" ")));
            }
        }
        said.join("; ")
    }
}
