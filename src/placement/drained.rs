//! When a host that is drained for a restart may be restarted.

use std::sync::Arc;

use super::hearing::was_left_by;
use super::ids::HostId;
use super::mode::{Mode, Order};
use super::snapshot::Snapshot;
use super::time::Timestamp;

/// The order in force by which a host is restarted once nobody is on it, where
/// there is one.
pub fn restart_order(snapshot: &Snapshot, host: &HostId, now: Timestamp) -> Option<Arc<Order>> {
    let view = snapshot.hosts.get(host)?;
    let order = view.modes.orders.at(now)?;
    (order.mode == Mode::Drain && order.restart_when_drained).then(|| Arc::clone(order))
}

/// Whether nobody is on a host, by a fresh report made since `since`: no
/// session, no tunnel, and no lease left after that report, which may stand for
/// a session that it could not show yet.
pub fn is_drained(snapshot: &Snapshot, host: &HostId, since: Timestamp, now: Timestamp) -> bool {
    let rules = snapshot.directory.rules();
    let view = snapshot.hosts.get(host);
    view.is_some_and(|view| {
        let Some(report) = &view.report else {
            return false;
        };
        let fresh = report.taken >= since && now.since(report.taken) <= rules.offline_after;
        let mut left = view.lingering.left(now);
        fresh
            && report.sessions.is_empty()
            && view.tunnels.is_empty()
            && left.all(|(_, until)| was_left_by(until, rules.lease, report.taken))
    })
}
