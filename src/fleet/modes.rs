//! Takes orders on hosts' modes over into the live picture.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fleet, State};
use crate::placement::{HostId, Orders};

impl Fleet {
    /// Makes these the orders of the hosts they name, all in one step: from then
    /// on no decision is made by the earlier ones. Those of hosts that are not
    /// configured wait until they are.
    pub fn note_orders(&self, orders: &BTreeMap<HostId, Arc<Orders>>) {
        self.change(|state| state.note_orders(orders));
    }
}

impl State {
    fn note_orders(&mut self, orders: &BTreeMap<HostId, Arc<Orders>>) {
        for (id, orders) in orders {
            self.orders.insert(id.clone(), Arc::clone(orders));
            self.host(id, |view| view.modes.orders = Arc::clone(orders));
        }
    }
}

#[cfg(test)]
mod tests;
