//! What orders are behind a refusal.

use crate::broker::Broker;
use crate::placement::{Decision, HostId, Mode, Order, Outcome, Refusal};

/// Orders named in one log line.
const NAMED: usize = 4;

impl Broker {
    /// The orders that keep hosts out of this refusal's farm, each with who gave
    /// it and why: for the log, never for the page.
    pub fn orders_behind(&self, decision: &Decision) -> Option<String> {
        let said = |host: &HostId, order: &Order| {
            format!("{host} in {} {}", order.mode, order.who_and_why())
        };
        let mut behind: Vec<_> = decision
            .candidates
            .iter()
            .filter_map(|c| c.order.as_ref().map(|order| said(&c.host, order)))
            .collect();
        if let Outcome::Refused(Refusal::HeldElsewhere(host)) = &decision.outcome {
            let (snapshot, now) = (self.fleet.snapshot(), self.clock.now());
            let view = snapshot.hosts.get(host);
            let order = view.and_then(|view| view.modes.orders.at(now));
            let order = order.filter(|order| order.mode == Mode::Maintenance);
            behind.extend(order.map(|order| said(host, order)));
        }
        let more = behind.len().saturating_sub(NAMED);
        behind.truncate(NAMED);
        if more > 0 {
            behind.push(format!("and {more} more"));
        }
        (!behind.is_empty()).then(|| behind.join("; "))
    }
}
