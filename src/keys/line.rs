//! What became of a key, as a line of the audit trail, with the field names of
//! the Elastic Common Schema.

use serde_json::{Map, Value, json};

use super::record::Record;
use super::{KeyId, Role};
use crate::audit::Entry;
use crate::clock::rfc3339;
use crate::placement::{Actor, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Created,
    Enrolled,
    Approved,
    Revoked,
}

pub(super) struct Line {
    at: Timestamp,
    act: Act,
    id: KeyId,
    role: Role,
    label: String,
    expires_at: Option<Timestamp>,
    actor: Actor,
}

impl Line {
    pub(super) fn new(at: Timestamp, act: Act, id: &KeyId, record: &Record, actor: &Actor) -> Self {
        Self {
            at,
            act,
            id: id.clone(),
            role: record.role.clone(),
            label: record.label.clone(),
            expires_at: record.expires_at,
            actor: actor.clone(),
        }
    }
}

impl Entry for Line {
    fn line(&self) -> String {
        let (action, kind) = match self.act {
            Act::Created => ("key-created", "creation"),
            Act::Enrolled => ("key-enrolled", "creation"),
            Act::Approved => ("key-approved", "change"),
            Act::Revoked => ("key-revoked", "deletion"),
        };
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                line.insert(name.to_owned(), value);
            }
        };
        put("@timestamp", json!(rfc3339(self.at)));
        put("ecs.version", json!("8.11.0"));
        put("event.kind", json!("event"));
        put("event.category", json!(["iam"]));
        put("event.type", json!([kind]));
        put("event.action", json!(action));
        put("event.outcome", json!("success"));
        put("host.id", json!(self.role.host()));
        put(
            "user.id",
            json!(self.actor.uid().map(|uid| uid.to_string())),
        );
        put("user.name", json!(self.actor.name()));
        put("sessionguard.actor", json!(self.actor.to_string()));
        put("sessionguard.key", json!(self.id));
        put("sessionguard.role", json!(self.role.word()));
        put(
            "sessionguard.label",
            json!(Some(&self.label).filter(|label| !label.is_empty())),
        );
        put("sessionguard.expires", json!(self.expires_at.map(rfc3339)));
        Value::Object(line).to_string()
    }
}
