//! A changed mode's line in the audit trail, with the field names of the
//! Elastic Common Schema; what it has no name for stands under `sessionguard`.

use serde_json::{Map, Value, json};

use super::{Changed, HostChanged, Target};
use crate::audit::Entry;
use crate::clock::rfc3339;
use crate::placement::{FarmId, HostId, Mode, Order};

pub(super) struct ModeChanged {
    order: Order,
    host: HostId,
    /// The farm it was ordered for, if it was a whole one.
    farm: Option<FarmId>,
    before: Mode,
    /// Farms that it leaves without a usable host.
    emptied: Vec<FarmId>,
}

impl ModeChanged {
    pub(super) fn of(target: &Target, changed: &Changed, host: &HostChanged) -> Self {
        Self {
            order: changed.order.clone(),
            host: host.host.clone(),
            farm: match target {
                Target::Farm(farm) => Some(farm.clone()),
                Target::Host(_) => None,
            },
            before: host.before,
            emptied: changed.emptied.iter().map(|e| e.farm.clone()).collect(),
        }
    }
}

impl Entry for ModeChanged {
    fn line(&self) -> String {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                line.insert(name.to_owned(), value);
            }
        };
        let order = &self.order;
        put("@timestamp", json!(rfc3339(order.at)));
        put("ecs.version", json!("8.11.0"));
        put("event.kind", json!("event"));
        put("event.category", json!(["configuration"]));
        put("event.type", json!(["change"]));
        put("event.action", json!("host-mode-changed"));
        put("event.outcome", json!("success"));
        put("event.reason", json!(order.reason));
        put("user.id", json!(order.by.uid().map(|uid| uid.to_string())));
        put("user.name", json!(order.by.name()));
        put("sessionguard.actor", json!(order.by.to_string()));
        put("host.id", json!(self.host));
        put("host.name", json!(self.host));
        put("message", json!(order.message));
        put("sessionguard.farm", json!(self.farm));
        put("sessionguard.mode", json!(order.mode));
        put("sessionguard.mode_before", json!(self.before));
        put("sessionguard.from", json!(order.from.map(rfc3339)));
        put("sessionguard.until", json!(order.until.map(rfc3339)));
        if !self.emptied.is_empty() {
            put("sessionguard.farms_without_host", json!(self.emptied));
        }
        Value::Object(line).to_string()
    }
}
