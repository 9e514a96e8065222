//! Says what should be looked into: once when it begins, once when it is over.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::Leases;
use crate::placement::{Alarm, Snapshot, Timestamp, alarms, on_two_hosts};

/// What was said and is not over.
#[derive(Debug, Default)]
pub(super) struct Watch(BTreeSet<Alarm>);

impl Watch {
    /// Looks at the picture as it stands; returns what began and what is over.
    pub(super) fn look(&mut self, leases: &Leases) -> (Vec<Alarm>, Vec<Alarm>) {
        let (snapshot, now) = (leases.fleet.snapshot(), leases.clock.now());
        let sounding = alarms(&snapshot, now);
        let begun: Vec<_> = sounding.difference(&self.0).cloned().collect();
        let over: Vec<_> = self.0.difference(&sounding).cloned().collect();
        for alarm in &begun {
            say(alarm, &snapshot, now);
        }
        for alarm in &over {
            info!("Over: {alarm}");
        }
        self.0 = sounding;
        (begun, over)
    }
}

fn say(alarm: &Alarm, snapshot: &Snapshot, now: Timestamp) {
    if let Alarm::UsersOnTwoHosts(farm) = alarm
        && let Some(found) = on_two_hosts(snapshot, now).remove(farm)
        && let Some((user, hosts)) = found.first_key_value()
    {
        // One of them to begin with: a liar may name everybody.
        let users = found.len();
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        warn!(users, first = %user, hosts = hosts.join(" "), "{alarm}");
    } else {
        warn!("{alarm}");
    }
}
