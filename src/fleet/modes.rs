//! Takes orders on hosts' modes over into the live picture.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fleet, State};
use crate::placement::{HostId, Orders};
use crate::store::Version;

impl Fleet {
    /// Makes these the orders of the hosts they name, all in one step: from then
    /// on no decision is made by the earlier ones. Those of hosts that are not
    /// configured wait until they are.
    #[cfg(test)]
    pub(crate) fn note_orders(&self, orders: &BTreeMap<HostId, Arc<Orders>>) {
        self.change(|state| state.note_orders(orders));
    }

    /// The same of orders that were written in the place of these versions, or
    /// read as them. What a poll told that is newer stays, and what one will tell
    /// that is no newer comes late.
    pub fn note_stored_orders(&self, orders: &BTreeMap<HostId, (Version, Arc<Orders>)>) {
        self.change(|state| {
            let polled = state.polled;
            let mut noted = BTreeMap::new();
            for (host, (version, orders)) in orders {
                if !state.writings.orders.is_beyond(host, *version) {
                    state.writings.orders.note(host, *version, polled);
                    noted.insert(host.clone(), Arc::clone(orders));
                }
            }
            state.note_orders(&noted);
        });
    }
}

impl State {
    pub(super) fn note_orders(&mut self, orders: &BTreeMap<HostId, Arc<Orders>>) {
        for (id, orders) in orders {
            self.orders.insert(id.clone(), Arc::clone(orders));
            self.host(id, |view| view.modes.orders = Arc::clone(orders));
        }
    }
}

#[cfg(test)]
mod tests;
