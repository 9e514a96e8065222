//! How many strangers the first report of a host may name.
//!
//! Whoever was there before we heard of a host came without us, and is to be
//! found: agents are installed on farms at work. So the first report only says
//! who was there, unless no host of such a farm could have so many:
//!
//! - more than its `max_sessions` are more than the host is meant for;
//! - a farm whose other hosts have long been reporting shows what a host of it
//!   carries. More than twice the fullest of them is no farm's next host, and a
//!   host that lies within that draws no more users than it would by its score.
//!
//! A farm whose agents are all new has nothing to compare with: agents come one
//! after another, to full hosts and to empty ones, so that for the first day
//! of each its figures speak against nobody.

use std::time::Duration;

use super::ids::HostId;
use super::snapshot::Snapshot;
use super::time::Timestamp;
use super::trust::share_a_farm;

/// So long after its first report a host's figures are those of a farm at work.
const ROLLOUT: Duration = Duration::from_secs(24 * 3600);

/// What a host's first report may go beyond the fullest of the others.
const TIMES: u32 = 2;

/// The most users whom we never took to this host that its first report may
/// name and be believed; `None`: any number.
pub fn most_at_first(snapshot: &Snapshot, host: &HostId, now: Timestamp) -> Option<u32> {
    let caps = snapshot.directory.caps(host);
    let bound = caps.and_then(|caps| caps.max_sessions);
    let rules = snapshot.directory.rules();
    let settled = snapshot.hosts.iter().filter(|(id, view)| {
        let since = view.heard_since;
        since.is_some_and(|since| now.since(since) >= ROLLOUT)
            && view.mistrust(rules).is_none()
            && share_a_farm(snapshot, host, id)
    });
    let carried = settled.map(|(_, view)| view.users_and_pending(now).0);
    let usual = carried.max().map(|most| most.saturating_mul(TIMES));
    match (bound, usual) {
        (Some(bound), Some(usual)) => Some(bound.min(usual)),
        (bound, usual) => bound.or(usual),
    }
}
