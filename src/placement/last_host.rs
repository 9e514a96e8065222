//! Whether orders would leave a farm without a usable host, now or later.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::directory::Farm;
use super::ids::{FarmId, HostId};
use super::mode::{Mode, Modes, Orders};
use super::reach::{Reach, Silence};
use super::snapshot::{HostView, Snapshot};
use super::time::Timestamp;

/// A farm that orders would leave without a usable host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emptied {
    /// Which farm.
    pub farm: FarmId,
    /// The first moment at which it has none.
    pub at: Timestamp,
}

/// The enabled farms that have a usable host now, or when announced orders come
/// to hold, and would have none under these orders, which replace those of the
/// hosts they name. A host is usable where its mode is `online` and, as far as
/// is known now, it can be reached.
pub fn emptied(
    snapshot: &Snapshot,
    orders: &BTreeMap<HostId, Arc<Orders>>,
    now: Timestamp,
) -> Vec<Emptied> {
    let farms = snapshot.directory.farms().filter(|farm| farm.enabled);
    farms
        .filter_map(|farm| {
            let at = first_moment(snapshot, farm, orders, now)?;
            let farm = farm.id.clone();
            Some(Emptied { farm, at })
        })
        .collect()
}

fn first_moment(
    snapshot: &Snapshot,
    farm: &Farm,
    orders: &BTreeMap<HostId, Arc<Orders>>,
    now: Timestamp,
) -> Option<Timestamp> {
    let members = snapshot.directory.members(&farm.id);
    let members = members.filter_map(|id| Some((id, snapshot.hosts.get(id)?)));
    let members: Vec<(&HostView, Modes)> = members
        .map(|(id, view)| {
            let given = orders.get(id).unwrap_or(&view.modes.orders);
            let after = Modes {
                configured: view.modes.configured,
                orders: Arc::clone(given),
            };
            (&***view, after)
        })
        .collect();
    let mut moments = vec![now];
    for (view, after) in &members {
        moments.extend(view.modes.changes_after(now));
        moments.extend(after.changes_after(now));
    }
    moments.sort_unstable();
    // As this farm's placements see it: where no agent is heard at all, those
    // that were known last take everybody.
    let silence = Silence::of(snapshot, &farm.id, now);
    let reached = |view: &HostView| {
        let reach = view.reach_amid(silence, now);
        reach.is_good() || reach == Reach::Unknown
    };
    let reachable: Vec<_> = members.iter().filter(|(view, _)| reached(view)).collect();
    moments.into_iter().find(|&at| {
        let online = |modes: &Modes| modes.at(at) == Mode::Online;
        reachable.iter().any(|(view, _)| online(&view.modes))
            && !reachable.iter().any(|(_, after)| online(after))
    })
}
