//! Who the user is: many spellings of one person become one key.
//!
//! Read by every decision and by whoever matches a reported session to a user.
//! The text on the wire is never changed by anything here.

use std::collections::BTreeMap;
use std::fmt;

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use super::people::People;
use super::rules::{IdentitySource, Rules};

/// What a connection says about its user, as it arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// RDP `username`: `user`, `DOMAIN\user` or `user@dns.domain`; may be empty.
    pub username: String,
    /// RDP `domain`; may be empty.
    pub domain: String,
    /// Guacamole login name from the `name` instruction; may be empty.
    pub name: String,
}

/// One person: domain and user, NFC and case-folded, so that two spellings of
/// one name are equal and two names are not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UserKey {
    domain: Option<ArcStr>,
    user: ArcStr,
}

impl UserKey {
    /// From user and domain as written; `None` where no user remains. A domain
    /// inside `user` (`DOMAIN\user`, `user@domain`) wins over `domain`.
    pub fn new(user: &str, domain: &str) -> Option<Self> {
        let (user, inner) = split(user.trim());
        let user = fold(user.trim());
        if user.is_empty() {
            return None;
        }
        let domain = fold(inner.unwrap_or(domain).trim());
        Some(Self {
            domain: (!domain.is_empty()).then(|| domain.into()),
            user: user.into(),
        })
    }

    /// From parts of another key.
    pub(super) fn from_parts(domain: Option<String>, user: String) -> Self {
        Self {
            domain: domain.map(ArcStr::from),
            user: user.into(),
        }
    }

    /// The same person, a bare name qualified by `domain`.
    #[must_use]
    pub fn qualified_by(mut self, domain: Option<&str>) -> Self {
        if self.domain.is_none() {
            let domain = domain.map(|d| fold(d.trim()));
            self.domain = domain.filter(|d| !d.is_empty()).map(ArcStr::from);
        }
        self
    }

    /// The same person, a DNS domain or UPN suffix replaced by the domain it
    /// stands for. Both columns of `domains` are folded.
    #[must_use]
    pub fn translated(mut self, domains: &BTreeMap<String, String>) -> Self {
        self.domain = self.domain.map(|domain| {
            domains
                .get(&*domain)
                .map_or(domain, |to| ArcStr::from(to.as_str()))
        });
        self
    }

    /// Whether both could be one person: the same user part, and no two
    /// domains that differ.
    fn agrees_with(&self, other: &Self) -> bool {
        let domains = self.domain.as_ref().zip(other.domain.as_ref());
        self.user == other.user && domains.is_none_or(|(a, b)| a == b)
    }

    /// The folded domain, where one is known.
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// The folded user part.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The folded domain and user part, to be kept by others, too.
    pub(super) fn parts(&self) -> (Option<&ArcStr>, &ArcStr) {
        (self.domain.as_ref(), &self.user)
    }

    /// Whether a reported session is this user's: both parts equal; a session
    /// reported without a domain matches the user part.
    pub fn matches_session(&self, session: &Self) -> bool {
        self.user == session.user && (session.domain.is_none() || session.domain == self.domain)
    }
}

impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(domain) => write!(f, "{domain}\\{}", self.user),
            None => f.write_str(&self.user),
        }
    }
}

impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who a connection's user turned out to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Who {
    /// The user; `None` where Guacamole will prompt.
    pub user: Option<UserKey>,
    /// The Guacamole login and the RDP user are not one person: somebody may
    /// only say to be this user until the logon is seen.
    pub doubtful: bool,
    /// A bare name that several qualified ones share, so it stays its own key.
    pub ambiguous: bool,
}

impl Claims {
    /// The user by the first source in the rules' order that names one. A bare
    /// name takes `default_domain`, else the one domain it is known with.
    pub fn who(&self, rules: &Rules, default_domain: Option<&str>, people: &People) -> Who {
        let named = |user: &str, domain: &str| {
            UserKey::new(user, domain).map(|key| key.translated(&rules.domains))
        };
        let username = named(&self.username, &self.domain);
        let name = named(&self.name, "");
        let doubtful = match (&username, &name) {
            (Some(username), Some(name)) => !username.agrees_with(name),
            _ => false,
        };
        let user = rules.identity_order.iter().find_map(|source| match source {
            IdentitySource::Username => username.clone(),
            IdentitySource::Name => name.clone(),
        });
        let home = default_domain.map(|domain| fold(domain.trim()));
        let home = home
            .as_deref()
            .map(|domain| translate(&rules.domains, domain));
        let Some(user) = user.map(|user| user.qualified_by(home)) else {
            return Who::default();
        };
        let (user, ambiguous) = people.qualified(user, rules);
        Who {
            user: Some(user),
            doubtful,
            ambiguous,
        }
    }
}

/// The domain that a folded DNS domain or UPN suffix stands for, else itself.
fn translate<'a>(domains: &'a BTreeMap<String, String>, domain: &'a str) -> &'a str {
    domains.get(domain).map_or(domain, String::as_str)
}

/// `DOMAIN\user` at the first backslash, else `user@domain` at the last at
/// sign (a UPN's user part may hold one), else bare. A side left empty does not
/// split: `@home` and `CORP\` stay whole.
fn split(text: &str) -> (&str, Option<&str>) {
    if let Some((domain, user)) = text.split_once('\\')
        && !domain.is_empty()
        && !user.is_empty()
    {
        return (user, Some(domain));
    }
    if let Some((user, domain)) = text.rsplit_once('@')
        && !domain.is_empty()
        && !user.is_empty()
    {
        return (user, Some(domain));
    }
    (text, None)
}

/// NFC of the full case folding of the canonical decomposition: folding first
/// would miss letters whose accents are written apart.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let decomposed: String = text.nfd().collect();
    caseless::default_case_fold_str(&decomposed).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(user: &str, domain: &str) -> Option<String> {
        UserKey::new(user, domain).map(|k| k.to_string())
    }

    #[test]
    fn one_person_in_every_spelling_is_one_key() {
        for (user, domain) in [
            ("CORP\\Ann", ""),
            ("ann@corp", ""),
            ("ANN", "Corp"),
            ("corp\\ann", "ignored"),
            (" ann ", " corp "),
        ] {
            assert_eq!(shown(user, domain).as_deref(), Some("corp\\ann"), "{user}");
        }
    }

    #[test]
    fn composed_and_decomposed_letters_are_one_person() {
        assert_eq!(
            UserKey::new("J\u{fc}rgen", ""),
            UserKey::new("JU\u{308}RGEN", "")
        );
        assert_eq!(UserKey::new("STRASSE", ""), UserKey::new("stra\u{df}e", ""));
        assert_eq!(
            UserKey::new("\u{418}\u{412}\u{410}\u{41d}", ""),
            UserKey::new("\u{438}\u{432}\u{430}\u{43d}", "")
        );
    }

    #[test]
    fn different_people_stay_apart() {
        assert_ne!(UserKey::new("ann", "corp"), UserKey::new("ann", "other"));
        assert_ne!(UserKey::new("ann", "corp"), UserKey::new("ann", ""));
        // Turkish dotless i is another letter than i.
        assert_ne!(UserKey::new("\u{131}lker", ""), UserKey::new("ilker", ""));
    }

    #[test]
    fn nobody_has_no_key() {
        assert_eq!(shown("", "corp"), None);
        assert_eq!(shown("   ", ""), None);
    }

    #[test]
    fn half_a_qualified_name_stays_whole() {
        assert_eq!(shown("@home", "").as_deref(), Some("@home"));
        assert_eq!(shown("CORP\\", "").as_deref(), Some("corp\\"));
        assert_eq!(shown("a@b@corp", "").as_deref(), Some("corp\\a@b"));
    }

    #[test]
    fn a_bare_name_takes_the_default_domain_and_a_qualified_one_keeps_its_own() {
        let key = |user| UserKey::new(user, "").map(|k| k.qualified_by(Some("CORP")).to_string());
        assert_eq!(key("ann").as_deref(), Some("corp\\ann"));
        assert_eq!(key("other\\ann").as_deref(), Some("other\\ann"));
    }

    fn who(claims: &Claims, rules: &Rules) -> Option<String> {
        let who = claims.who(rules, None, &People::default());
        who.user.map(|key| key.to_string())
    }

    #[test]
    fn the_rdp_username_comes_before_the_login_and_the_order_may_be_turned() {
        let claims = Claims {
            username: "ann".into(),
            domain: "corp".into(),
            name: "guac-ann".into(),
        };
        let mut rules = Rules::default();
        assert_eq!(who(&claims, &rules).as_deref(), Some("corp\\ann"));
        rules.identity_order.reverse();
        assert_eq!(who(&claims, &rules).as_deref(), Some("guac-ann"));
        let prompt = Claims {
            username: String::new(),
            ..claims
        };
        assert_eq!(who(&prompt, &Rules::default()).as_deref(), Some("guac-ann"));
        assert_eq!(who(&Claims::default(), &rules), None);
    }

    #[test]
    fn a_session_without_a_domain_matches_by_user_alone() {
        let ann = UserKey::new("ann", "corp").unwrap();
        let session = |user, domain| UserKey::new(user, domain).unwrap();
        assert!(ann.matches_session(&session("ANN", "CORP")));
        assert!(ann.matches_session(&session("ann", "")));
        assert!(!ann.matches_session(&session("ann", "other")));
        assert!(!ann.matches_session(&session("bob", "corp")));
    }
}
