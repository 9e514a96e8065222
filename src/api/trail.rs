//! Who changed what: one line in the log and one in the audit trail.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tracing::info;

use super::Api;
use crate::audit::Entry;
use crate::clock::rfc3339;
use crate::commands::Command;
use crate::placement::{Actor, FarmId, HostId, LeaseKey, Timestamp, TunnelId, UserKey};

/// Something an administrator did, as a line of the trail with the field names
/// of the Elastic Common Schema.
#[derive(Debug)]
struct Deed(Map<String, Value>);

impl Entry for Deed {
    fn line(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }
}

impl Api {
    /// An administrator ended a tunnel.
    pub(super) fn tell_of_ended(
        &self,
        actor: &Actor,
        id: &TunnelId,
        user: Option<&UserKey>,
        host: Option<&HostId>,
    ) {
        info!(
            tunnel = %id,
            user = user.map(ToString::to_string),
            host = host.map(HostId::as_str),
            %actor,
            "Tunnel ended by an administrator"
        );
        let mut deed = self.deed("tunnel-ended", actor, user, host);
        deed.insert("sessionguard.tunnel".to_owned(), json!(id));
        self.leave(deed);
    }

    /// An administrator released a lease.
    pub(super) fn tell_of_released(
        &self,
        actor: &Actor,
        key: &LeaseKey,
        (farm, host): (&FarmId, &HostId),
    ) {
        info!(lease = %key, %farm, %host, %actor, "Lease released by an administrator");
        let user = key.user();
        let mut deed = self.deed("lease-released", actor, Some(&user), Some(host));
        deed.insert("sessionguard.lease".to_owned(), json!(key));
        deed.insert("sessionguard.farm".to_owned(), json!(farm));
        self.leave(deed);
    }

    /// An administrator asks an agent to do something.
    pub(super) fn tell_of_asked(&self, actor: &Actor, command: &Command) {
        let (id, kind, host) = (&command.id, command.kind.word(), &command.host);
        info!(command = %id, kind, %host, %actor, "Command given by an administrator");
        self.leave(self.command("command-given", actor, command));
    }

    /// An agent says what came of that.
    pub(super) fn tell_of_answered(&self, actor: &Actor, command: &Command) {
        let mut deed = self.command("command-answered", actor, command);
        if let Some(outcome) = &command.outcome {
            let result = if outcome.ok { "success" } else { "failure" };
            deed.insert("event.outcome".to_owned(), json!(result));
            deed.insert("message".to_owned(), json!(outcome.message));
        }
        self.leave(deed);
    }

    fn command(&self, action: &str, actor: &Actor, command: &Command) -> Map<String, Value> {
        let mut deed = self.deed(action, actor, None, Some(&command.host));
        let facts = [
            ("user.target.name", json!(command.target.user)),
            ("user.target.domain", json!(command.target.domain)),
            ("sessionguard.command", json!(command.id)),
            ("sessionguard.command_type", json!(command.kind)),
            ("sessionguard.command_target", json!(command.target)),
            ("sessionguard.asked_by", json!(command.asked_by)),
        ];
        let facts = facts.into_iter().filter(|(_, value)| !value.is_null());
        deed.extend(facts.map(|(name, value)| (name.to_owned(), value)));
        deed
    }

    fn deed(
        &self,
        action: &str,
        actor: &Actor,
        user: Option<&UserKey>,
        host: Option<&HostId>,
    ) -> Map<String, Value> {
        deed(self.clock.now(), action, actor, user, host)
    }

    fn leave(&self, deed: Map<String, Value>) {
        if let Some(trail) = &self.trail {
            trail.tell(Arc::new(Deed(deed)));
        }
    }
}

fn deed(
    at: Timestamp,
    action: &str,
    actor: &Actor,
    user: Option<&UserKey>,
    host: Option<&HostId>,
) -> Map<String, Value> {
    let uid = actor.uid().map(|uid| uid.to_string());
    let fields = [
        ("@timestamp", json!(rfc3339(at))),
        ("ecs.version", json!("8.11.0")),
        ("event.kind", json!("event")),
        ("event.category", json!(["session", "configuration"])),
        ("event.type", json!(["change"])),
        ("event.action", json!(action)),
        ("event.outcome", json!("success")),
        // Who did it, and to whom.
        ("user.id", json!(uid)),
        ("user.name", json!(actor.name())),
        ("user.target.name", json!(user.map(UserKey::user))),
        ("user.target.domain", json!(user.and_then(UserKey::domain))),
        ("host.id", json!(host)),
        ("host.name", json!(host)),
        ("sessionguard.actor", json!(actor.to_string())),
    ];
    let told = fields.into_iter().filter(|(_, value)| !value.is_null());
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}
