//! Says what should be looked into: once when it begins, once when it is over.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::Leases;
use crate::placement::{Alarm, alarms};

/// What was said and is not over.
#[derive(Debug, Default)]
pub(super) struct Watch(BTreeSet<Alarm>);

impl Watch {
    /// Looks at the picture as it stands; returns what began and what is over.
    pub(super) fn look(&mut self, leases: &Leases) -> (Vec<Alarm>, Vec<Alarm>) {
        let sounding = alarms(&leases.fleet.snapshot(), leases.clock.now());
        let begun: Vec<_> = sounding.difference(&self.0).cloned().collect();
        let over: Vec<_> = self.0.difference(&sounding).cloned().collect();
        for alarm in &begun {
            warn!("{}", alarm.to_string());
        }
        for alarm in &over {
            info!("Over: {alarm}");
        }
        self.0 = sounding;
        (begun, over)
    }
}
