//! Which writing of what is stored is in the picture, so that an answer that
//! was long under way puts nothing older in its place.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::store::Version;

/// One asking for all that was changed; which one it is, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Poll(u64);

impl Poll {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The writings known, by what they are of.
#[derive(Debug)]
pub(super) struct Writings<K> {
    known: HashMap<K, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    version: Version,
    /// The last poll that had begun by then: what it and those before it tell
    /// may be older, or may not know of it at all.
    polled: Poll,
}

impl<K> Default for Writings<K> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash + Clone> Writings<K> {
    /// Whether what was read or written here is to be taken over.
    pub(super) fn note(&mut self, key: &K, version: Version, polled: Poll) -> bool {
        let new = Known { version, polled };
        match self.known.get_mut(key) {
            Some(known) if version < known.version => false,
            Some(known) => {
                let is_news = version > known.version;
                *known = new;
                is_news
            }
            None => {
                self.known.insert(key.clone(), new);
                true
            }
        }
    }

    /// Whether something newer is known.
    pub(super) fn is_beyond(&self, key: &K, version: Version) -> bool {
        self.known
            .get(key)
            .is_some_and(|known| known.version > version)
    }

    /// Whether what a poll tells is to be taken over. One that tells of all there
    /// is may lead back to an older writing: the newer one is lost.
    pub(super) fn hear(&mut self, key: &K, version: Version, poll: Poll, whole: bool) -> bool {
        let lost = |known: &Known| whole && known.polled < poll && version != known.version;
        let is_news = self
            .known
            .get(key)
            .is_none_or(|known| version > known.version || lost(known));
        if is_news {
            let known = Known {
                version,
                polled: self.known.get(key).map_or(Poll(0), |known| known.polled),
            };
            self.known.insert(key.clone(), known);
        }
        is_news
    }

    /// What a poll of all there is does not tell of: it is there no more.
    pub(super) fn missing(&mut self, told: &HashSet<&K>, poll: Poll) -> Vec<K> {
        let known = self.known.iter();
        let missing = known.filter(|(key, known)| !told.contains(key) && known.polled < poll);
        let missing: Vec<_> = missing.map(|(key, _)| key.clone()).collect();
        for key in &missing {
            self.known.remove(key);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [Poll; 3] = [Poll(1), Poll(2), Poll(3)];

    #[test]
    fn what_comes_late_puts_nothing_older_in_place() {
        let [first, second, _] = SOME;
        let mut writings = Writings::default();
        assert!(writings.hear(&"a", Version::nth(5), first, false));
        assert!(
            !writings.hear(&"a", Version::nth(5), first, false),
            "told again"
        );
        // We wrote while the second poll was under way.
        assert!(writings.note(&"a", Version::nth(7), second));
        assert!(!writings.hear(&"a", Version::nth(6), second, false));
        assert!(!writings.hear(&"a", Version::nth(6), second, true));
        assert!(writings.missing(&HashSet::new(), second).is_empty());
        assert!(writings.hear(&"a", Version::nth(8), second, false));
        assert!(!writings.note(&"a", Version::nth(7), second), "read before");
    }

    #[test]
    fn what_a_database_lost_is_lost_here_too() {
        let [first, second, third] = SOME;
        let mut writings = Writings::default();
        assert!(writings.note(&"a", Version::nth(7), first));
        assert!(writings.note(&"b", Version::nth(8), first));
        assert!(!writings.hear(&"a", Version::nth(6), second, false));
        assert!(writings.hear(&"a", Version::nth(6), second, true));
        assert_eq!(writings.missing(&HashSet::from([&"a"]), second), ["b"]);
        assert!(
            writings.hear(&"b", Version::nth(3), third, false),
            "it is new"
        );
    }
}
