//! A changed mode's line in the audit trail.

use super::{Changed, HostChanged, Target};
use crate::audit::{Entry, Event, Line};
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
        let order = &self.order;
        let event = Event {
            kind: "event",
            category: &["configuration"],
            change: "change",
            action: "host-mode-changed",
            outcome: "success",
        };
        let mut line = Line::of(order.at, event);
        line.by(&order.by);
        line.on(Some(&self.host));
        line.put("event.reason", &order.reason);
        line.put("message", &order.message);
        line.put("sessionguard.farm", &self.farm);
        line.put("sessionguard.mode", order.mode);
        line.put("sessionguard.mode_before", self.before);
        line.put("sessionguard.from", order.from.map(rfc3339));
        line.put("sessionguard.until", order.until.map(rfc3339));
        if !self.emptied.is_empty() {
            line.put("sessionguard.farms_without_host", &self.emptied);
        }
        line.to_string()
    }
}
