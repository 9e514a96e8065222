//! One person, one key, by every road a name can come; two persons, two keys.

use std::collections::BTreeMap;

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use super::build::NOW;
use super::identity_laws::name;
use crate::placement::*;

/// A name that is still there once its edges are trimmed.
fn person() -> impl Strategy<Value = String> {
    let trimmed = name().prop_map(|name| name.trim().to_owned());
    trimmed.prop_filter("somebody", |name| !name.is_empty())
}

fn domain() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9-]{0,8}"
}

/// The same name as other programs would write it.
fn spelled(name: &str, how: u8) -> String {
    match how % 4 {
        0 => name.to_owned(),
        1 => name.nfd().collect(),
        2 => name.nfc().collect(),
        _ => format!("  {name} "),
    }
}

/// The same person in every form; bare names are left to what is known.
fn forms(name: &str, domain: &str, how: [u8; 5]) -> Vec<Claims> {
    let [a, b, c, d, e] = how.map(|how| spelled(name, how));
    let says = |username: String, domain: String| Claims {
        username,
        domain,
        name: String::new(),
    };
    vec![
        says(format!("{domain}\\{a}"), "ignored".into()),
        says(format!("{b}@{domain}.example.com"), String::new()),
        says(c, domain.to_uppercase()),
        says(d, format!("{domain}.EXAMPLE.com")),
        says(e, String::new()),
    ]
}

fn rules(domain: &str) -> Rules {
    let dns = fold(&format!("{domain}.example.com"));
    Rules {
        domains: BTreeMap::from([(dns, fold(domain))]),
        ..Rules::default()
    }
}

fn key(claims: &Claims, rules: &Rules, people: &People) -> Option<UserKey> {
    claims.who(rules, None, people).user
}

proptest! {
    #[test]
    fn one_person_is_one_key_by_every_road(name in person(), domain in domain(), how in any::<[u8; 5]>()) {
        let expected = UserKey::new(&name, &domain).unwrap();
        let mut people = People::default();
        people.remember(&expected, &"a".into(), NOW);
        for claims in forms(&name, &domain, how) {
            let found = key(&claims, &rules(&domain), &people);
            prop_assert_eq!(found.as_ref(), Some(&expected), "{:?}", claims);
        }
    }

    #[test]
    fn a_default_domain_in_either_form_is_the_same_road(name in person(), domain in domain(), how in any::<u8>()) {
        let expected = UserKey::new(&name, &domain);
        let claims = Claims { username: spelled(&name, how), ..Claims::default() };
        for default in [domain.clone(), format!(" {domain}.Example.com ")] {
            let who = claims.who(&rules(&domain), Some(&default), &People::default());
            prop_assert_eq!(&who.user, &expected);
            prop_assert!(!who.ambiguous);
        }
    }

    #[test]
    fn two_keys_are_one_only_where_unicode_says_so(
        a in person(),
        b in person(),
        c in domain(),
        d in domain(),
    ) {
        let same = caseless::canonical_caseless_match_str(&a, &b) && c.eq_ignore_ascii_case(&d);
        let one = |name: &str, domain: &str| {
            let claims = Claims { username: name.into(), domain: domain.into(), ..Claims::default() };
            key(&claims, &Rules::default(), &People::default()).unwrap()
        };
        prop_assert_eq!(one(&a, &c) == one(&b, &d), same);
        prop_assert_eq!(LeaseKey::of_user(&one(&a, &c)) == LeaseKey::of_user(&one(&b, &d)), same);
    }

    #[test]
    fn one_person_is_never_doubted_and_another_always_is(
        name in person(),
        other in person(),
        domain in domain(),
        how in any::<[u8; 5]>(),
        at in 0..5_usize,
        login in 0..5_usize,
    ) {
        let rules = rules(&domain);
        let login_as = |claims: &Claims| match claims.domain.as_str() {
            "" | "ignored" => claims.username.clone(),
            domain => format!("{domain}\\{}", claims.username.trim()),
        };
        let mut claims = forms(&name, &domain, how)[at].clone();
        claims.name = login_as(&forms(&name, &domain, how)[login]);
        prop_assert!(!claims.who(&rules, None, &People::default()).doubtful, "{:?}", claims);
        claims.name = login_as(&forms(&other, &domain, how)[login]);
        let same = caseless::canonical_caseless_match_str(&name, &other);
        prop_assert_eq!(claims.who(&rules, None, &People::default()).doubtful, !same);
    }

    #[test]
    fn a_bare_name_takes_a_domain_only_where_there_is_one(
        name in person(),
        known in proptest::collection::btree_set("[a-c]", 0..4),
        others in proptest::collection::vec((person(), "[a-c]"), 0..4),
    ) {
        let bare = UserKey::new(&name, "").unwrap();
        let mut people = People::default();
        for domain in &known {
            people.remember(&bare.clone().qualified_by(Some(domain)), &"a".into(), NOW);
        }
        for (other, domain) in others {
            let other = UserKey::new(&other, &domain).unwrap();
            if other.user() != bare.user() {
                people.remember(&other, &"a".into(), NOW);
            }
        }
        let claims = Claims { username: name, ..Claims::default() };
        let who = claims.who(&Rules::default(), None, &people);
        let expected = match known.iter().collect::<Vec<_>>().as_slice() {
            [only] => bare.qualified_by(Some(only)),
            _ => bare,
        };
        prop_assert_eq!(who.user, Some(expected));
        prop_assert_eq!(who.ambiguous, known.len() > 1);
    }

    #[test]
    fn to_see_somebody_again_teaches_nothing(names in proptest::collection::vec((person(), "[a-c]?"), 0..8)) {
        let mut people = People::default();
        let users: Vec<_> = names.iter().map(|(n, d)| UserKey::new(n, d).unwrap()).collect();
        for user in &users {
            people.remember(user, &"a".into(), NOW);
            prop_assert!(people.knows(user));
        }
        let before = people.clone();
        for user in users.iter().rev() {
            people.remember(user, &"a".into(), NOW);
        }
        prop_assert_eq!(people, before);
    }

    #[test]
    fn nothing_anybody_says_panics(claims in any::<[String; 3]>(), default in any::<Option<String>>()) {
        let [username, domain, name] = claims;
        let claims = Claims { username, domain, name };
        let who = claims.who(&Rules::default(), default.as_deref(), &People::default());
        let said = !claims.username.trim().is_empty() || !claims.name.trim().is_empty();
        prop_assert_eq!(who.user.is_some(), said);
    }
}
