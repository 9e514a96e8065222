//! A decision's line in the audit trail.

use super::record::Record;
use crate::audit::{Entry, Event, Line};
use crate::placement::{Outcome, Trust};

impl Entry for Record {
    fn line(&self) -> String {
        let decision = self.decision.as_ref();
        let user = decision.and_then(|d| d.user.as_ref());
        let (outcome, reason) = self.summary();
        let event = Event {
            kind: "event",
            category: &["session"],
            change: "info",
            action: "placement",
            outcome,
        };
        let mut line = Line::of(self.at, event);
        line.put("event.reason", &reason);
        line.put("user.name", user.map(|user| user.user()));
        line.put("user.domain", user.and_then(|user| user.domain()));
        if let Some(Outcome::Placed(placement)) = decision.map(|d| &d.outcome) {
            line.on(Some(&placement.host));
            line.put("destination.address", &placement.address);
            line.put("destination.port", placement.port);
        }
        line.put("sessionguard.decision_id", self.id);
        line.put("sessionguard.tunnel", &self.tunnel);
        line.put("sessionguard.act", self.act);
        line.put(
            "sessionguard.resource",
            decision.and_then(|d| d.resource.as_ref()),
        );
        line.put("sessionguard.farm", decision.and_then(|d| d.farm.as_ref()));
        line.put("sessionguard.reason", &reason);
        line.put("sessionguard.configuration", self.configuration);
        let login = &self.asked.login;
        line.put(
            "sessionguard.login",
            Some(login).filter(|login| !login.is_empty()),
        );
        if decision.is_some_and(|d| d.trust != Trust::Plain) {
            line.put("sessionguard.trust", decision.map(|d| d.trust));
        }
        line.to_string()
    }
}

impl Record {
    /// The outcome in the schema's words, and why.
    fn summary(&self) -> (&'static str, String) {
        if let Some(failure) = &self.failure {
            return ("failure", failure.clone());
        }
        match self.decision.as_ref().map(|d| &d.outcome) {
            Some(Outcome::Placed(placement)) => ("success", placement.reason.to_string()),
            Some(Outcome::Refused(refusal)) => ("failure", refusal.to_string()),
            Some(Outcome::Unmatched) => {
                ("success", "passed through: it names no resource".to_owned())
            }
            None => ("unknown", "nothing was decided".to_owned()),
        }
    }
}
