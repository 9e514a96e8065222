//! The leases of one host in parts are what one map of them would be.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::build::*;
use crate::placement::*;

#[derive(Debug, Clone)]
enum Step {
    Insert(u32, u64),
    Remove(u32),
}

fn key(nth: u32) -> LeaseKey {
    LeaseKey::of_user(&user(&format!("user{nth}")))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..60_u32, 0..30_u64).prop_map(|(nth, at)| Step::Insert(nth, at)),
        1 => (0..60_u32).prop_map(Step::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn they_are_what_one_map_of_them_is(steps in prop::collection::vec(step(), 0..120), now in 0..32_u64) {
        let (mut leases, mut map) = (LingeringLeases::default(), BTreeMap::new());
        let before = leases.clone();
        for step in steps {
            match step {
                Step::Insert(nth, at) => {
                    let until = NOW + secs(at);
                    leases.insert(key(nth), until);
                    let known = map.entry(key(nth)).or_insert(until);
                    *known = until.max(*known);
                }
                Step::Remove(nth) => prop_assert_eq!(leases.remove(&key(nth)), map.remove(&key(nth))),
            }
        }
        prop_assert!(before.is_empty(), "a copy keeps what it had");
        let now = NOW + secs(now);
        let all: BTreeMap<_, _> = leases.iter().map(|(key, until)| (key.clone(), until)).collect();
        prop_assert_eq!(&all, &map);
        prop_assert_eq!((leases.len(), leases.is_empty()), (map.len(), map.is_empty()));
        for nth in 0..60 {
            prop_assert_eq!(leases.get(&key(nth)), map.get(&key(nth)).copied());
        }
        let left: BTreeMap<_, _> = map.iter().filter(|(_, until)| **until > now).collect();
        prop_assert_eq!(leases.left(now).count(), left.len());
        prop_assert_eq!(leases.count_left(now), left.len());
        prop_assert_eq!(leases.next_end(now), left.values().map(|until| **until).min());
        let mut over: Vec<_> = leases.over(now).collect();
        over.sort();
        let known = map.iter().filter(|(_, until)| **until <= now).map(|(key, _)| key);
        prop_assert_eq!(over, known.collect::<Vec<_>>());
        let collected: LingeringLeases = map.into_iter().collect();
        prop_assert_eq!(collected, leases);
    }
}
