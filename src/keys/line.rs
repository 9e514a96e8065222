//! What became of a key, as a line of the audit trail.

use super::record::Record;
use super::{KeyId, Role};
use crate::audit::{self, Entry, Event};
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
        let (action, change) = match self.act {
            Act::Created => ("key-created", "creation"),
            Act::Enrolled => ("key-enrolled", "creation"),
            Act::Approved => ("key-approved", "change"),
            Act::Revoked => ("key-revoked", "deletion"),
        };
        let event = Event {
            kind: "event",
            category: &["iam"],
            change,
            action,
            outcome: "success",
        };
        let mut line = audit::Line::of(self.at, event);
        line.by(&self.actor);
        line.put("host.id", self.role.host());
        line.put("sessionguard.key", &self.id);
        line.put("sessionguard.role", self.role.word());
        let label = Some(&self.label).filter(|label| !label.is_empty());
        line.put("sessionguard.label", label);
        line.put("sessionguard.expires", self.expires_at.map(rfc3339));
        line.to_string()
    }
}
