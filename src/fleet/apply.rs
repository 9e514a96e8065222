//! Takes a new configuration over into the live picture, in one step.
//!
//! What is known of a host stays known for as long as it is the same host at
//! the same place; what the files say of it counts from the next decision on. A
//! host that is taken out keeps its tunnels, and what is counted of them, until
//! the last one has ended.

use std::sync::Arc;

use super::{Fleet, State};
use crate::placement::{
    Directory, Host, HostId, HostView, Known, Mode, Modes, Orders, Probe, Snapshot, Standing,
    Timestamp,
};

impl Fleet {
    /// Makes this the configuration in force; returns its number. A decision
    /// sees either all of it or nothing of it.
    pub fn apply(&self, directory: Arc<Directory>, now: Timestamp) -> u64 {
        self.change(|state| state.apply(directory, now))
    }
}

impl State {
    fn apply(&mut self, directory: Arc<Directory>, now: Timestamp) -> u64 {
        let before = std::mem::replace(&mut self.snapshot.directory, directory);
        let mut known = std::mem::take(&mut self.snapshot.hosts);
        for host in self.snapshot.directory.hosts() {
            let view = match known.remove(&host.id) {
                Some(view) => carried_over(view, before.host(&host.id), host, now),
                None => {
                    let standing = self.standings.get(&host.id).copied();
                    let orders = self.orders.get(&host.id);
                    fresh(host, orders, standing.unwrap_or_default())
                }
            };
            self.snapshot.hosts.insert(host.id.clone(), view);
        }
        // The rest is configured no more.
        self.snapshot.hosts.append(&mut known);
        self.forget_all_gone();
        self.snapshot.configuration += 1;
        self.snapshot.configuration
    }

    /// Forgets a host that is neither configured nor in use.
    pub(super) fn forget_if_gone(&mut self, id: &HostId) {
        let view = self.snapshot.hosts.get(id);
        if view.is_some_and(|view| is_idle(view)) && self.snapshot.directory.host(id).is_none() {
            self.snapshot.hosts.remove(id);
        }
    }

    pub(super) fn forget_all_gone(&mut self) {
        let directory = &self.snapshot.directory;
        self.snapshot
            .hosts
            .retain(|id, view| directory.host(id).is_some() || !is_idle(view));
    }
}

/// A host that nothing is known of yet but what was ordered for it.
pub(super) fn fresh(host: &Host, orders: Option<&Arc<Orders>>, standing: Standing) -> Arc<Known> {
    let view = HostView {
        modes: Modes {
            configured: host.mode,
            orders: orders.cloned().unwrap_or_default(),
        },
        standing,
        ..HostView::default()
    };
    Arc::new(view.into())
}

/// What is known of a host, under its new configuration. `before` is the old
/// one; `None` for a host that was taken out and is put back while it is still
/// in use: nobody has probed it meanwhile.
fn carried_over(
    mut view: Arc<Known>,
    before: Option<&Host>,
    host: &Host,
    now: Timestamp,
) -> Arc<Known> {
    if view.modes.configured != host.mode {
        let view = Arc::make_mut(&mut view);
        let was = view.mode(now);
        view.modes.configured = host.mode;
        view.reset_breaker();
        if was != Mode::Online && view.mode(now) == Mode::Online {
            view.usable_since = Some(now);
        }
    }
    if before.is_none_or(|before| !same_place(before, host)) {
        let view = Arc::make_mut(&mut view);
        view.probe = Probe::Unknown;
        view.reset_breaker();
    }
    view
}

/// Whether both are reached at one address.
pub(super) fn same_place(one: &Host, other: &Host) -> bool {
    (&one.address, one.port) == (&other.address, other.port)
}

/// Whether every configured host has been probed.
pub(super) fn is_probed(snapshot: &Snapshot) -> bool {
    let mut views = snapshot
        .directory
        .hosts()
        .filter_map(|host| snapshot.hosts.get(&host.id));
    views.all(|view| view.probe != Probe::Unknown)
}

fn is_idle(view: &HostView) -> bool {
    view.tunnels.is_empty() && view.lingering.is_empty()
}

#[cfg(test)]
mod tests;
