//! Who changed what: one line in the log and one in the audit trail.

use std::sync::Arc;

use tracing::info;

use super::Api;
use crate::audit::{Entry, Event, Line};
use crate::commands::Command;
use crate::placement::{Actor, FarmId, HostId, LeaseKey, TunnelId, UserKey};

/// Something an administrator did.
#[derive(Debug)]
struct Deed(Line);

impl Entry for Deed {
    fn line(&self) -> String {
        self.0.to_string()
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
        deed.put("sessionguard.tunnel", id);
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
        deed.put("sessionguard.lease", key);
        deed.put("sessionguard.farm", farm);
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
            deed.put("event.outcome", result);
            deed.put("message", &outcome.message);
        }
        self.leave(deed);
    }

    fn command(&self, action: &str, actor: &Actor, command: &Command) -> Line {
        let mut deed = self.deed(action, actor, None, Some(&command.host));
        deed.put("user.target.name", &command.target.user);
        deed.put("user.target.domain", &command.target.domain);
        deed.put("sessionguard.command", &command.id);
        deed.put("sessionguard.command_type", command.kind);
        deed.put("sessionguard.command_target", &command.target);
        deed.put("sessionguard.asked_by", &command.asked_by);
        deed
    }

    fn deed(
        &self,
        action: &str,
        actor: &Actor,
        user: Option<&UserKey>,
        host: Option<&HostId>,
    ) -> Line {
        let event = Event {
            kind: "event",
            category: &["session", "configuration"],
            change: "change",
            action,
            outcome: "success",
        };
        let mut deed = Line::of(self.clock.now(), event);
        deed.by(actor);
        // And to whom.
        deed.put("user.target.name", user.map(UserKey::user));
        deed.put("user.target.domain", user.and_then(UserKey::domain));
        deed.on(host);
        deed
    }

    fn leave(&self, deed: Line) {
        if let Some(trail) = &self.trail {
            trail.tell(Arc::new(Deed(deed)));
        }
    }
}
