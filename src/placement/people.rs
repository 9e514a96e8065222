//! Who connected through us: by which qualified name, and to which hosts, for
//! as long as our history goes back.
//!
//! To know a bare name by, and to tell which of a host's claims our own history
//! supports. Many thousands may be known and somebody new is learnt with every
//! first logon, so that they are kept in parts, and one part is copied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arcstr::ArcStr;

use super::count::Name;
use super::identity::UserKey;
use super::ids::HostId;
use super::lease::HISTORY;
use super::rules::Rules;
use super::time::Timestamp;

/// Within this time nobody is learnt anew: history is exact to a day.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The people who connected through us in the last 30 days.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct People {
    parts: BTreeMap<u8, Arc<Part>>,
}

/// User part to those who go by it.
// INVARIANT: no list is empty or names a domain twice.
type Part = BTreeMap<ArcStr, Vec<Person>>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Person {
    domain: Option<ArcStr>,
    seen: Timestamp,
    /// On which hosts, and when last, by host. Most are on one, for which a list
    /// takes a tenth of what a map does.
    hosts: Vec<(HostId, Timestamp)>,
}

impl Person {
    fn last_on(&self, host: &HostId) -> Option<Timestamp> {
        let found = self.hosts.binary_search_by(|(known, _)| known.cmp(host));
        found
            .ok()
            .and_then(|at| self.hosts.get(at))
            .map(|(_, at)| *at)
    }

    fn was_on(&mut self, host: &HostId, at: Timestamp) {
        match self.hosts.binary_search_by(|(known, _)| known.cmp(host)) {
            Ok(found) => {
                if let Some((_, known)) = self.hosts.get_mut(found) {
                    *known = at.max(*known);
                }
            }
            Err(place) => {
                self.hosts.reserve_exact(1);
                self.hosts.insert(place, (host.clone(), at));
            }
        }
    }
}

impl People {
    /// Remembers that this user was on that host.
    pub fn remember(&mut self, user: &UserKey, host: &HostId, at: Timestamp) {
        let part = self.parts.entry(Name::of_user(user).index()).or_default();
        let known = Arc::make_mut(part);
        // Shared with whoever has the key: there are many.
        let (domain, name) = user.parts();
        let known = known
            .entry(name.clone())
            .or_insert_with(|| Vec::with_capacity(1));
        let by_domain = |person: &&mut Person| person.domain.as_deref() == user.domain();
        match known.iter_mut().find(by_domain) {
            Some(person) => {
                person.seen = at.max(person.seen);
                person.was_on(host, at);
            }
            None => known.push(Person {
                domain: domain.cloned(),
                seen: at,
                hosts: vec![(host.clone(), at)],
            }),
        }
    }

    /// Whether there is nothing to learn from this.
    pub fn remembers(&self, user: &UserKey, host: &HostId, at: Timestamp) -> bool {
        let mut known = self.named(user.user()).iter();
        known
            .find(|person| person.domain.as_deref() == user.domain())
            .and_then(|person| person.last_on(host))
            .is_some_and(|known| at < known + DAY)
    }

    /// Whether nobody of that name was here, in whatever domain.
    pub fn is_new(&self, user: &UserKey) -> bool {
        self.named(user.user()).is_empty()
    }

    /// Whether this name is known; a bare one always is.
    pub fn knows(&self, user: &UserKey) -> bool {
        let known = |domain| self.domains(user.user()).any(|known| known == domain);
        user.domain().is_none_or(known)
    }

    /// Whether exactly this user was on that host through us.
    pub(super) fn took(&self, user: &UserKey, host: &HostId) -> bool {
        let mut known = self.named(user.user()).iter();
        let own = known.find(|person| person.domain.as_deref() == user.domain());
        own.is_some_and(|person| person.last_on(host).is_some())
    }

    /// Whether the user of a reported session was on that host through us; one
    /// reported without a domain may be any of that name.
    pub fn was_on(&self, session: &UserKey, host: &HostId) -> bool {
        let fits = |person: &&Person| {
            session.domain().is_none() || session.domain() == person.domain.as_deref()
        };
        let mut theirs = self.named(session.user()).iter().filter(fits);
        theirs.any(|person| person.last_on(host).is_some())
    }

    /// Forgets whoever was not here for as long as our history goes back.
    pub fn forget(&mut self, now: Timestamp) {
        let over = |at: &Timestamp| *at + HISTORY <= now;
        let outdated = |p: &Person| over(&p.seen) || p.hosts.iter().any(|(_, at)| over(at));
        for part in self.parts.values_mut() {
            if !part.values().flatten().any(outdated) {
                continue;
            }
            Arc::make_mut(part).retain(|_, known| {
                known.retain(|person| !over(&person.seen));
                let hosts = known.iter_mut().map(|person| &mut person.hosts);
                hosts.for_each(|hosts| hosts.retain(|(_, at)| !over(at)));
                !known.is_empty()
            });
        }
        self.parts.retain(|_, part| !part.is_empty());
    }

    /// A bare name takes the one domain it is known with; true where it is known
    /// with several, so that it stays as it is.
    pub(super) fn qualified(&self, user: UserKey, rules: &Rules) -> (UserKey, bool) {
        if user.domain().is_some() {
            return (user, false);
        }
        // A name may have been stored before the table knew its domain.
        let known = self.domains(user.user());
        let known: BTreeSet<_> = known
            .map(|domain| rules.domains.get(domain).map_or(domain, String::as_str))
            .collect();
        let ambiguous = known.len() > 1;
        let only = known.first().filter(|_| !ambiguous).copied();
        (user.qualified_by(only), ambiguous)
    }

    /// The domains a user part was seen with.
    fn domains(&self, user: &str) -> impl Iterator<Item = &str> {
        let known = self.named(user).iter();
        known.filter_map(|person| person.domain.as_deref())
    }

    fn named(&self, user: &str) -> &[Person] {
        let part = self.parts.get(&Name::of_user_part(user).index());
        part.and_then(|part| part.get(user))
            .map_or(&[], Vec::as_slice)
    }
}
