//! Lease keys and records as text: unambiguous whatever the names contain.

use std::collections::BTreeSet;

use super::build::*;
use crate::placement::*;

const HOSTILE: [&str; 12] = [
    "a", "b", "|", "\\", "%", "a|b", "a\\b", "a%7cb", "%7c", "%5c", "%25", "a|b|c",
];

/// Domain and user exactly as given, past the splitting of `DOMAIN\user`.
fn raw(domain: &str, user: &str) -> UserKey {
    let value = serde_json::json!({ "domain": domain, "user": user });
    serde_json::from_value(value).unwrap()
}

#[test]
fn keys_read_as_people_write_them() {
    let ann = user("CORP\\Ann");
    let farm = FarmId::from("office");
    assert_eq!(LeaseKey::of_user(&ann).as_str(), "corp\\ann");
    assert_eq!(LeaseKey::of_user(&user("ann")).as_str(), "ann");
    let key = LeaseKey::of_resource(&ann, &farm, Some(&"sage".into()));
    assert_eq!(key.as_str(), "corp\\ann|office|sage");
    let key = LeaseKey::of_resource(&ann, &farm, None);
    assert_eq!(key.as_str(), "corp\\ann|office|");
    let odd = LeaseKey::of_resource(&raw("a|b", "c%\\"), &"f|g".into(), Some(&"%7c".into()));
    assert_eq!(odd.as_str(), "a%7cb\\c%25%5c|f%7cg|%257c");
}

#[test]
fn no_two_users_share_a_key() {
    let mut seen = BTreeSet::new();
    for user in HOSTILE {
        let bare: UserKey =
            serde_json::from_value(serde_json::json!({ "domain": null, "user": user })).unwrap();
        assert!(seen.insert(LeaseKey::of_user(&bare)), "{user}");
        for domain in HOSTILE {
            assert!(
                seen.insert(LeaseKey::of_user(&raw(domain, user))),
                "{domain} {user}"
            );
        }
    }
}

#[test]
fn no_two_of_user_farm_and_resource_share_a_key() {
    let mut seen = BTreeSet::new();
    for user in HOSTILE {
        seen.insert(LeaseKey::of_user(&raw("d", user)));
        for farm in HOSTILE {
            for resource in HOSTILE {
                let (farm, resource) = (FarmId::from(farm), ResourceId::from(resource));
                let key = LeaseKey::of_resource(&raw("d", user), &farm, Some(&resource));
                assert!(seen.insert(key.clone()), "{key}");
            }
        }
    }
}

#[test]
fn a_key_says_whose_it_is() {
    for user in HOSTILE {
        let bare: UserKey =
            serde_json::from_value(serde_json::json!({ "domain": null, "user": user })).unwrap();
        assert_eq!(LeaseKey::of_user(&bare).user(), bare);
        for domain in HOSTILE {
            let whose = raw(domain, user);
            assert_eq!(LeaseKey::of_user(&whose).user(), whose);
            let key = LeaseKey::of_resource(&whose, &domain.into(), Some(&user.into()));
            assert_eq!(key.user(), whose, "{key}");
        }
    }
}

#[test]
fn what_a_user_types_cannot_reach_another_users_key() {
    let victim = LeaseKey::of_resource(&user("ann"), &"office".into(), Some(&"sage".into()));
    for typed in [
        "ann|office|sage",
        "ann|office|sage|",
        "ann%7coffice%7csage",
        "ANN|OFFICE|SAGE",
    ] {
        assert_ne!(LeaseKey::of_user(&user(typed)), victim, "{typed}");
    }
}

#[test]
fn a_key_survives_the_store() {
    for user in HOSTILE {
        let key = LeaseKey::of_resource(&raw("d|", user), &"f".into(), None);
        assert_eq!(LeaseKey::from_stored(key.as_str().to_owned()), key);
        let text = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<LeaseKey>(&text).unwrap(), key);
    }
}

#[test]
fn a_record_survives_the_store_in_every_state() {
    let (office, erp) = (FarmId::from("office"), FarmId::from("e|r\\p"));
    let mut record = LeaseRecord::default();
    let keeps = |record: &LeaseRecord| {
        let text = serde_json::to_string(record).unwrap();
        assert_eq!(
            &serde_json::from_str::<LeaseRecord>(&text).unwrap(),
            record,
            "{text}"
        );
    };
    keeps(&record);
    assert!(record.claim(&office, &"a".into(), &"t1".into(), Trust::Plain, NOW));
    keeps(&record);
    record.stood(&"t1".into(), &user("ann"), secs(900), NOW);
    keeps(&record);
    record.end(&"t1".into(), secs(900), NOW);
    keeps(&record);
    assert!(record.claim(&office, &"b".into(), &"t2".into(), Trust::Plain, NOW));
    assert!(record.claim(&erp, &"c".into(), &"t3".into(), Trust::Plain, NOW));
    keeps(&record);
}

/// What is stored today must be read by the next release.
#[test]
fn the_stored_form_is_pinned() {
    let mut record = LeaseRecord::default();
    let (office, at) = (FarmId::from("office"), Timestamp::from_millis(1000));
    assert!(record.claim(&office, &"a".into(), &"t1".into(), Trust::Plain, at));
    record.stood(&"t1".into(), &user("CORP\\Ann"), secs(9), at);
    record.end(&"t1".into(), secs(9), at);
    assert!(record.claim(&office, &"b".into(), &"t2".into(), Trust::Plain, at));
    let expected = serde_json::json!({
        "leases": { "office": {
            "host": "b",
            "lingers_until": null,
            "holders": [{ "tunnel": "t2", "stood": false, "until": 46_000 }],
            "replaced": { "host": "a", "until": 10_000 },
        }},
        "history": { "office": { "host": "a", "at": 1000 } },
        "user": { "domain": "corp", "user": "ann" },
    });
    assert_eq!(serde_json::to_value(&record).unwrap(), expected);
}
