//! What is counted on a host, counted once for as long as it stays so.
//!
//! A decision looks at every host of a farm, and most of them are as they were
//! a moment ago. So a view keeps its counts with the span of time in which they
//! are right: from when they were counted until the first moment at which time
//! alone changes them.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::identity::UserKey;
use super::lease_key::LeaseKey;
use super::rules::Caps;
use super::snapshot::{HostView, Load, Occupancy, UNSEEN};
use super::time::Timestamp;

/// A host's view with what was counted in it. Whoever changes the view, through
/// [`DerefMut`], has it counted anew.
#[derive(Debug, Default)]
pub struct Known {
    view: HostView,
    // INVARIANT: counted in `view` as it stands, or nothing.
    counted: Mutex<Option<Counts>>,
    /// The same of what time does not change: read for every host of every
    /// decision, so without a lock.
    named: OnceLock<Named>,
}

/// Whom a host has something of.
#[derive(Debug, Clone, Copy)]
struct Named {
    /// Whose sessions are reported.
    sessions: Names,
    /// Whose tunnels are open.
    tunnels: Names,
}

/// Counts, and when they are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    from: Timestamp,
    /// The first moment at which they may be otherwise; `None`: never.
    until: Option<Timestamp>,
    load: Load,
    users: u32,
    pending: u32,
}

/// A set of names that may claim one it does not hold, and never denies one it
/// does: enough to pass over most hosts without a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Names([u64; 4]);

/// A name as [`Names`] holds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name(u8);

impl Name {
    /// Of a user's sessions, whatever their domain.
    pub(super) fn of_user(user: &UserKey) -> Self {
        Self::of_user_part(user.user())
    }

    /// The same of a folded user part.
    pub(super) fn of_user_part(user: &str) -> Self {
        Self::of(user)
    }

    /// Which of 256.
    pub(super) fn index(self) -> u8 {
        self.0
    }

    /// Of a lease key's tunnels.
    pub(super) fn of_key(key: &LeaseKey) -> Self {
        Self::of(key.as_str())
    }

    fn of(text: &str) -> Self {
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [.., top] = (hash ^ (hash >> 32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes();
        Self(top)
    }
}

impl Names {
    fn with(mut self, name: Name) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(name.0 >> 6)) {
            *word |= 1 << (name.0 & 63);
        }
        self
    }

    fn may_hold(self, name: Name) -> bool {
        let word = self.0.get(usize::from(name.0 >> 6));
        word.is_some_and(|word| word >> (name.0 & 63) & 1 == 1)
    }
}

impl Counts {
    fn are_right_at(&self, now: Timestamp) -> bool {
        self.from <= now && self.until.is_none_or(|until| now < until)
    }
}

impl HostView {
    fn count(&self, now: Timestamp) -> Counts {
        let (users, pending) = self.users_and_pending(now);
        Counts {
            from: now,
            until: self.next_change(now),
            load: self.load(now),
            users,
            pending,
        }
    }

    fn name(&self) -> Named {
        let sessions = self.report.iter().flat_map(|report| &report.sessions);
        let keys = self.tunnels.iter().filter_map(|tunnel| tunnel.key.as_ref());
        Named {
            sessions: sessions.fold(Names::default(), |names, session| {
                names.with(Name::of_user(&session.user))
            }),
            tunnels: keys.fold(Names::default(), |names, key| names.with(Name::of_key(key))),
        }
    }

    /// The first moment from now on at which time alone changes a count.
    fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let tunnels = self.tunnels.iter();
        let unseen = tunnels.flat_map(|t| [Some(t.since), t.stood]).flatten();
        let unseen = unseen.map(|at| at + UNSEEN);
        let unseen = unseen.filter(|at| *at > now).min();
        unseen.into_iter().chain(self.lingering.next_end(now)).min()
    }
}

impl Known {
    /// As [`HostView::load`].
    pub fn load(&self, now: Timestamp) -> Load {
        self.counts(now).load
    }

    /// As [`HostView::occupancy`].
    pub fn occupancy(&self, caps: Caps, now: Timestamp) -> Occupancy {
        let (_, occupancy) = self.load_and_occupancy(caps, now);
        occupancy
    }

    /// Both at once.
    pub(super) fn load_and_occupancy(&self, caps: Caps, now: Timestamp) -> (Load, Occupancy) {
        let counts = self.counts(now);
        let occupancy = Occupancy {
            users: counts.users,
            pending: counts.pending,
            pending_cap: self.view.pending_cap(caps, now),
        };
        (counts.load, occupancy)
    }

    /// False only where no session of that name is reported.
    pub(super) fn may_show(&self, name: Name) -> bool {
        self.named().sessions.may_hold(name)
    }

    /// False only where no tunnel of that name is open.
    pub(super) fn may_have_tunnel(&self, name: Name) -> bool {
        self.named().tunnels.may_hold(name)
    }

    fn named(&self) -> &Named {
        self.named.get_or_init(|| self.view.name())
    }

    fn counts(&self, now: Timestamp) -> Counts {
        // Nothing is half done behind a panic.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match *counted {
            Some(counts) if counts.are_right_at(now) => counts,
            _ => *counted.insert(self.view.count(now)),
        }
    }
}

impl From<HostView> for Known {
    fn from(view: HostView) -> Self {
        Self {
            view,
            counted: Mutex::default(),
            named: OnceLock::new(),
        }
    }
}

impl Clone for Known {
    /// Whoever clones it is about to change it.
    fn clone(&self) -> Self {
        self.view.clone().into()
    }
}

impl Deref for Known {
    type Target = HostView;

    fn deref(&self) -> &HostView {
        &self.view
    }
}

impl DerefMut for Known {
    fn deref_mut(&mut self) -> &mut HostView {
        *self
            .counted
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner) = None;
        self.named.take();
        &mut self.view
    }
}
