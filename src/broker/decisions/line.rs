//! A decision's line in the audit trail, with the field names of the Elastic
//! Common Schema; what it has no name for stands under `sessionguard`.

use serde_json::{Map, Value, json};

use super::record::Record;
use crate::audit::Entry;
use crate::clock::rfc3339;
use crate::placement::{Outcome, Trust};

impl Entry for Record {
    fn line(&self) -> String {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                line.insert(name.to_owned(), value);
            }
        };
        let decision = self.decision.as_ref();
        let user = decision.and_then(|d| d.user.as_ref());
        let (outcome, reason) = self.summary();
        put("@timestamp", json!(rfc3339(self.at)));
        put("ecs.version", json!("8.11.0"));
        put("event.kind", json!("event"));
        put("event.category", json!(["session"]));
        put("event.type", json!(["info"]));
        put("event.action", json!("placement"));
        put("event.outcome", json!(outcome));
        put("event.reason", json!(reason));
        put("user.name", json!(user.map(|user| user.user())));
        put("user.domain", json!(user.and_then(|user| user.domain())));
        if let Some(Outcome::Placed(placement)) = decision.map(|d| &d.outcome) {
            put("host.id", json!(placement.host));
            put("host.name", json!(placement.host));
            put("destination.address", json!(placement.address));
            put("destination.port", json!(placement.port));
        }
        put("sessionguard.decision_id", json!(self.id));
        put("sessionguard.tunnel", json!(self.tunnel));
        put("sessionguard.act", json!(self.act));
        put(
            "sessionguard.resource",
            json!(decision.and_then(|d| d.resource.as_ref())),
        );
        put(
            "sessionguard.farm",
            json!(decision.and_then(|d| d.farm.as_ref())),
        );
        put("sessionguard.reason", json!(reason));
        put("sessionguard.configuration", json!(self.configuration));
        let login = &self.asked.login;
        put(
            "sessionguard.login",
            json!(Some(login).filter(|login| !login.is_empty())),
        );
        if decision.is_some_and(|d| d.trust != Trust::Plain) {
            put("sessionguard.trust", json!(decision.map(|d| d.trust)));
        }
        Value::Object(line).to_string()
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
