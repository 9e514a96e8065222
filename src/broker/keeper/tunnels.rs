//! The tunnels that the keeper writes for, and which of them are due: with many
//! thousands open, one that ends must not have all of them looked through.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{Kept, Part};
use crate::placement::{LeaseKey, TunnelId};

/// What is kept of each, and the order in which they are due.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    kept: BTreeMap<Part, Kept>,
    // INVARIANT: each of `kept` once, with the moment at which it is due.
    order: BTreeSet<(Instant, Part)>,
}

impl Tunnels {
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    #[cfg(test)]
    pub(super) fn get(&self, part: &Part) -> Option<&Kept> {
        self.kept.get(part)
    }

    /// In the place of what is kept of the same part.
    pub(super) fn insert(&mut self, kept: Kept) {
        let part = kept.claim.part();
        self.remove(&part);
        self.order.insert((kept.due, part.clone()));
        self.kept.insert(part, kept);
    }

    /// The same where nothing is.
    pub(super) fn insert_if_new(&mut self, kept: Kept) {
        if !self.kept.contains_key(&kept.claim.part()) {
            self.insert(kept);
        }
    }

    pub(super) fn remove(&mut self, part: &Part) {
        if let Some(kept) = self.kept.remove(part) {
            self.order.remove(&(kept.due, part.clone()));
        }
    }

    /// `None` where nothing is kept of it.
    pub(super) fn change<T>(
        &mut self,
        part: &Part,
        change: impl FnOnce(&mut Kept) -> T,
    ) -> Option<T> {
        let kept = self.kept.get_mut(part)?;
        let before = kept.due;
        let result = change(kept);
        if kept.due != before {
            self.order.remove(&(before, part.clone()));
            self.order.insert((kept.due, part.clone()));
        }
        Some(result)
    }

    /// Every part of this tunnel.
    pub(super) fn change_all_of(&mut self, tunnel: &TunnelId, change: impl Fn(&mut Kept)) {
        let least = LeaseKey::from_stored(String::new());
        let from = self.kept.range((tunnel.clone(), least)..);
        let parts = from.map(|(part, _)| part);
        let parts: Vec<_> = parts
            .take_while(|(known, _)| known == tunnel)
            .cloned()
            .collect();
        for part in &parts {
            self.change(part, &change);
        }
    }

    /// Those that have not ended.
    pub(super) fn open(&self) -> impl Iterator<Item = &Part> {
        let open = self.kept.iter();
        let open = open.filter(|(_, kept)| kept.state.ended.is_none());
        open.map(|(part, _)| part)
    }

    /// Those that are due, the longest first.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = (&Part, &Kept)> {
        let due = self.order.iter().take_while(move |(due, _)| *due <= now);
        due.filter_map(|(_, part)| self.kept.get_key_value(part))
    }
}
