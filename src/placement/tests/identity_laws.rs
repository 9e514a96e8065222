//! One person, one key, over all of Unicode.

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use crate::placement::*;

fn key(user: &str) -> Option<UserKey> {
    UserKey::new(user, "")
}

/// A name without what splits it.
pub(super) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[\\PC&&[^\\\\@]]{1,12}",
        // Letters that fold, compose and decompose in uncommon ways.
        proptest::collection::vec(
            prop_oneof![
                Just('\u{df}'),
                Just('\u{1e9e}'),
                Just('\u{130}'),
                Just('\u{131}'),
                Just('\u{345}'),
                Just('\u{301}'),
                Just('\u{308}'),
                Just('\u{327}'),
                Just('\u{3b1}'),
                Just('\u{1fb7}'),
                Just('\u{390}'),
                Just('\u{149}'),
                Just('\u{212a}'),
                Just('\u{1c4}'),
                Just('\u{ac00}'),
                Just('\u{1100}'),
                Just('\u{1161}'),
                Just('\u{13a0}'),
                Just('\u{ab70}'),
                Just('I'),
            ],
            1..8
        )
        .prop_map(String::from_iter),
    ]
}

proptest! {
    #[test]
    fn folding_is_idempotent(name in name()) {
        if let Some(once) = key(&name) {
            prop_assert_eq!(key(once.user()), Some(once));
        }
    }

    #[test]
    fn composition_and_case_make_no_difference(name in name()) {
        let expected = key(&name);
        let nfd: String = name.nfd().collect();
        let nfc: String = name.nfc().collect();
        prop_assert_eq!(&key(&nfd), &expected);
        prop_assert_eq!(&key(&nfc), &expected);
        let folded = caseless::default_case_fold_str(&nfd);
        prop_assert_eq!(&key(&folded), &expected);
    }

    #[test]
    fn latin_greek_and_cyrillic_are_one_in_either_case(name in "[a-zà-öø-þα-ρτ-ωа-я0-9 .-]{1,16}") {
        prop_assert_eq!(key(&name.to_uppercase()), key(&name));
    }

    #[test]
    fn every_way_to_write_a_domain_is_one_key(name in name(), domain in "[A-Za-z0-9.-]{1,12}") {
        let name = name.trim().to_owned();
        prop_assume!(!name.is_empty());
        let expected = UserKey::new(&name, &domain);
        prop_assert_eq!(&key(&format!("{domain}\\{name}")), &expected);
        prop_assert_eq!(&key(&format!("{name}@{domain}")), &expected);
        prop_assert_eq!(&key(&name).map(|k| k.qualified_by(Some(&domain))), &expected);
        prop_assert_eq!(&UserKey::new(&name, &domain.to_uppercase()), &expected);
    }

    #[test]
    fn a_key_is_never_nobody_and_never_panics(user in any::<String>(), domain in any::<String>()) {
        if let Some(key) = UserKey::new(&user, &domain) {
            prop_assert!(!key.user().is_empty());
            prop_assert!(key.domain().is_none_or(|d| !d.is_empty()));
            prop_assert!(key.matches_session(&key));
        } else {
            prop_assert!(user.trim().is_empty());
        }
    }

    #[test]
    fn two_keys_are_one_lease_only_where_they_are_one(a in any::<(String, String)>(), b in any::<(String, String)>()) {
        if let (Some(a), Some(b)) = (UserKey::new(&a.0, &a.1), UserKey::new(&b.0, &b.1)) {
            prop_assert_eq!(LeaseKey::of_user(&a) == LeaseKey::of_user(&b), a == b);
        }
    }

    #[test]
    fn a_key_survives_the_store(user in any::<String>(), domain in any::<String>()) {
        if let Some(key) = UserKey::new(&user, &domain) {
            let text = serde_json::to_string(&key).unwrap();
            prop_assert_eq!(serde_json::from_str::<UserKey>(&text).unwrap(), key);
        }
    }
}

#[test]
fn people_everywhere_have_one_key_each() {
    for (a, b) in [
        ("Jürgen", "JU\u{308}RGEN"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("Иван", "ИВАН"),
        ("李小龍", "李小龍"),
        ("Groß", "GROSS"),
        ("한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"),
    ] {
        assert_eq!(key(a), key(b), "{a}");
    }
    for (a, b) in [
        ("ilker", "ılker"),
        ("李", "王"),
        ("é", "e"),
        ("ann", "ann\u{301}"),
    ] {
        assert_ne!(key(a), key(b), "{a} {b}");
    }
}
