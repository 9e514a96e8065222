//! Counts by names that come from the configuration, which may change.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Keys held at most. What has left the configuration is forgotten at the next
/// scrape; where nobody ever scrapes, here.
const MOST: usize = 100_000;

/// A count for each key seen.
#[derive(Debug)]
pub(super) struct Tally<K>(Mutex<BTreeMap<K, u64>>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord + Clone> Tally<K> {
    pub(super) fn add(&self, key: K) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST && !counts.contains_key(&key) {
            // A counter that begins anew is what its reader knows how to take.
            counts.clear();
        }
        *counts.entry(key).or_default() += 1;
    }

    /// The counts, of `known` keys alone; the others are forgotten.
    pub(super) fn keep(&self, known: impl Fn(&K) -> bool) -> Vec<(K, u64)> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|key, _| known(key));
        counts
            .iter()
            .map(|(key, count)| (key.clone(), *count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_though_nobody_looks() {
        let tally = Tally::default();
        for key in 0..MOST {
            tally.add(key);
        }
        tally.add(5);
        assert_eq!(tally.keep(|_| true).len(), MOST);
        tally.add(MOST);
        assert_eq!(tally.keep(|_| true), [(MOST, 1)]);
    }
}
