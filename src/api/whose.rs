//! A user as an administrator spells them, and who is meant.

use std::collections::BTreeSet;

use super::answer::Failure;
use crate::placement::{Claims, Snapshot, UserKey};

/// Who may be meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Whose {
    /// These.
    keys: BTreeSet<UserKey>,
    /// Everybody with this user part: the name has no domain, and no rule gives
    /// it one.
    bare: Option<String>,
}

impl Whose {
    /// Reads a name by the identity rules, those of every farm among them.
    ///
    /// # Errors
    /// The name is blank.
    pub(super) fn read(name: &str, snapshot: &Snapshot) -> Result<Self, Failure> {
        let rules = snapshot.directory.rules();
        let farms = snapshot.directory.farms();
        let homes = farms.map(|farm| farm.overrides.default_domain.as_deref());
        let homes = homes.flatten().map(Some);
        let claims = Claims {
            username: name.to_owned(),
            domain: String::new(),
            name: name.to_owned(),
        };
        let globally = rules.default_domain.as_deref();
        let meant = std::iter::once(globally)
            .chain(homes)
            .filter_map(|home| claims.who(rules, home, &snapshot.people).user);
        let mut keys: BTreeSet<_> = meant.collect();
        // Who came before the rules gave the name a domain is found as well.
        keys.extend(UserKey::new(name, ""));
        if keys.is_empty() {
            return Err(Failure::bad("user is blank"));
        }
        let qualified = keys.iter().any(|key| key.domain().is_some());
        let bare = keys.iter().find(|_| !qualified);
        let bare = bare.map(|key| key.user().to_owned());
        Ok(Self { keys, bare })
    }

    /// Whether this user may be meant.
    pub(super) fn is(&self, user: &UserKey) -> bool {
        self.keys.contains(user) || self.bare.as_deref() == Some(user.user())
    }

    /// Whether this reported session may be the user's.
    pub(super) fn is_session_of(&self, session: &UserKey) -> bool {
        self.is(session) || self.keys.iter().any(|key| key.matches_session(session))
    }

    /// Who may be meant, by name.
    pub(super) fn keys(&self) -> impl Iterator<Item = &UserKey> {
        self.keys.iter()
    }

    /// Whether nobody else than [`Self::keys`] may be meant.
    pub(super) fn is_known(&self) -> bool {
        self.bare.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::placement::{Directory, People, Rules, Timestamp};

    fn snapshot(default_domain: Option<&str>, known: &[&str]) -> Snapshot {
        let rules = Rules {
            default_domain: default_domain.map(str::to_owned),
            domains: [("corp.example".to_owned(), "corp".to_owned())].into(),
            ..Rules::default()
        };
        let mut people = People::default();
        for name in known {
            people.remember(&user(name), &"a".into(), Timestamp::default());
        }
        Snapshot {
            directory: Arc::new(Directory::new(rules, [], [], [])),
            people: Arc::new(people),
            ..Snapshot::default()
        }
    }

    fn user(name: &str) -> UserKey {
        UserKey::new(name, "").unwrap()
    }

    #[test]
    fn every_spelling_finds_the_user_and_nobody_else() {
        let snapshot = snapshot(None, &["corp\\ann"]);
        for spelling in ["ann", "ANN", "CORP\\Ann", "ann@corp.example", " ann "] {
            let whose = Whose::read(spelling, &snapshot).unwrap();
            assert!(whose.is(&user("corp\\ann")), "{spelling}");
            assert!(!whose.is(&user("other\\ann")), "{spelling}");
            assert!(whose.is_session_of(&user("ann")), "{spelling}");
        }
        assert!(Whose::read("  ", &snapshot).is_err());
    }

    #[test]
    fn a_bare_name_that_no_rule_qualifies_is_everybodys() {
        let several = snapshot(None, &["corp\\ann", "other\\ann"]);
        for snapshot in [several, snapshot(None, &[])] {
            let whose = Whose::read("ann", &snapshot).unwrap();
            for name in ["ann", "corp\\ann", "other\\ann"] {
                assert!(whose.is(&user(name)), "{name}");
            }
            assert!(!whose.is_known() && !whose.is(&user("bob")));
        }
        let whose = Whose::read("ann", &snapshot(Some("corp.example"), &[])).unwrap();
        assert!(whose.is(&user("corp\\ann")) && whose.is(&user("ann")));
        assert!(whose.is_known() && !whose.is(&user("other\\ann")));
    }
}
