//! The leases that linger on one host, with their ends.
//!
//! One more lingers with nearly every tunnel that ends, and there may be
//! thousands. So they are kept in parts: a change copies one part, and who
//! counts looks into those parts alone in which something has run out.

use std::sync::Arc;

use super::count::Name;
use super::lease_key::LeaseKey;
use super::time::Timestamp;

/// Into so many parts.
const PARTS: usize = 16;

/// Leases without a tunnel on one host, each with its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LingeringLeases {
    /// By the key's name. `None`: an empty part.
    parts: [Option<Arc<Part>>; PARTS],
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    // INVARIANT: not empty, in key order, no key twice.
    leases: Vec<(LeaseKey, Timestamp)>,
    // INVARIANT: the first of the ends.
    first: Timestamp,
}

impl LingeringLeases {
    /// The lease lingers until then. Two farms' leases on one host are one user
    /// there: the later end counts.
    pub fn insert(&mut self, key: LeaseKey, until: Timestamp) {
        let Some(part) = self.parts.get_mut(place(&key)) else {
            return;
        };
        let part = part.get_or_insert_with(|| {
            let leases = Vec::with_capacity(1);
            Arc::new(Part {
                leases,
                first: until,
            })
        });
        Arc::make_mut(part).insert(key, until);
    }

    /// Its end, where it lingered.
    pub fn remove(&mut self, key: &LeaseKey) -> Option<Timestamp> {
        let part = self.parts.get_mut(place(key))?;
        let known = part.as_mut()?;
        let at = known.find(key).ok()?;
        if known.leases.len() == 1 {
            return part.take().map(|part| part.first);
        }
        let known = Arc::make_mut(known);
        let (_, until) = known.leases.remove(at);
        if until == known.first {
            known.first = known.ends().min().unwrap_or(until);
        }
        Some(until)
    }

    /// Its end, where it lingers.
    pub fn get(&self, key: &LeaseKey) -> Option<Timestamp> {
        let part = self.parts.get(place(key))?.as_ref()?;
        let at = part.find(key).ok()?;
        part.leases.get(at).map(|(_, until)| *until)
    }

    /// All of them, run out or not.
    pub fn iter(&self) -> impl Iterator<Item = (&LeaseKey, Timestamp)> {
        let leases = self.parts().flat_map(|part| &part.leases);
        leases.map(|(key, until)| (key, *until))
    }

    /// Those that have not run out.
    pub fn left(&self, now: Timestamp) -> impl Iterator<Item = (&LeaseKey, Timestamp)> {
        self.iter().filter(move |(_, until)| *until > now)
    }

    /// Those that have run out.
    pub fn over(&self, now: Timestamp) -> impl Iterator<Item = &LeaseKey> {
        let parts = self.parts().filter(move |part| part.first <= now);
        let leases = parts.flat_map(|part| &part.leases);
        leases.filter_map(move |(key, until)| (*until <= now).then_some(key))
    }

    /// How many have not run out.
    pub fn count_left(&self, now: Timestamp) -> usize {
        let left = self.parts().map(|part| {
            if part.first > now {
                part.leases.len()
            } else {
                part.ends().filter(|until| *until > now).count()
            }
        });
        left.sum()
    }

    /// The first end after `now`.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let next = self.parts().filter_map(|part| {
            if part.first > now {
                Some(part.first)
            } else {
                part.ends().filter(|until| *until > now).min()
            }
        });
        next.min()
    }

    /// How many there are, run out or not.
    pub fn len(&self) -> usize {
        self.parts().map(|part| part.leases.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().flatten().map(AsRef::as_ref)
    }
}

/// In which part a key is.
fn place(key: &LeaseKey) -> usize {
    usize::from(Name::of_key(key).index()) % PARTS
}

impl Part {
    fn find(&self, key: &LeaseKey) -> Result<usize, usize> {
        self.leases.binary_search_by(|(known, _)| known.cmp(key))
    }

    fn insert(&mut self, key: LeaseKey, until: Timestamp) {
        match self.find(&key) {
            Err(at) => {
                self.leases.insert(at, (key, until));
                self.first = self.first.min(until);
            }
            Ok(at) => {
                if let Some((_, known)) = self.leases.get_mut(at) {
                    *known = until.max(*known);
                }
                // It may have been the first.
                self.first = self.ends().min().unwrap_or(until);
            }
        }
    }

    fn ends(&self) -> impl Iterator<Item = Timestamp> {
        self.leases.iter().map(|(_, until)| *until)
    }
}

impl FromIterator<(LeaseKey, Timestamp)> for LingeringLeases {
    fn from_iter<T: IntoIterator<Item = (LeaseKey, Timestamp)>>(leases: T) -> Self {
        let mut all = Self::default();
        for (key, until) in leases {
            all.insert(key, until);
        }
        all
    }
}
