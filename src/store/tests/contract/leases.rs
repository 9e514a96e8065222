//! What every store promises about leases.

use super::super::*;

pub(in crate::store::tests) async fn what_was_written_is_read_back(store: Arc<dyn Whole>) {
    let ann = key("ann");
    assert_eq!(store.read(&ann).await.unwrap(), Versioned::default());
    let written = record("a", "t1");
    let done = store
        .replace(&ann, Version::ABSENT, written.clone(), None)
        .await;
    assert!(done.unwrap().is_done());
    let read = store.read(&ann).await.unwrap();
    assert_eq!(read.record, written);
    assert_ne!(read.version, Version::ABSENT);
    assert_eq!(store.read(&key("bob")).await.unwrap(), Versioned::default());
}

pub(in crate::store::tests) async fn a_writer_who_read_before_another_wrote_loses_and_changes_nothing(
    store: Arc<dyn Whole>,
) {
    let ann = key("ann");
    let first = record("a", "t1");
    store
        .replace(&ann, Version::ABSENT, first.clone(), None)
        .await
        .unwrap();
    let late = store
        .replace(&ann, Version::ABSENT, record("b", "t2"), None)
        .await;
    assert_eq!(late, Ok(Replaced::Conflict));
    assert_eq!(store.read(&ann).await.unwrap().record, first);
}

pub(in crate::store::tests) async fn an_empty_record_removes_the_key_and_an_old_version_stays_old(
    store: Arc<dyn Whole>,
) {
    let ann = key("ann");
    store
        .replace(&ann, Version::ABSENT, record("a", "t1"), None)
        .await
        .unwrap();
    let old = store.read(&ann).await.unwrap().version;
    let removed = store.replace(&ann, old, LeaseRecord::default(), None).await;
    assert!(removed.unwrap().is_done());
    assert_eq!(store.read(&ann).await.unwrap(), Versioned::default());
    store
        .replace(&ann, Version::ABSENT, record("b", "t2"), None)
        .await
        .unwrap();
    let stale = store.replace(&ann, old, record("c", "t3"), None).await;
    assert_eq!(stale, Ok(Replaced::Conflict));
}

pub(in crate::store::tests) async fn of_many_writers_at_once_exactly_one_wins(
    store: Arc<dyn Whole>,
) {
    let ann = key("ann");
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..50 {
        let (store, ann) = (Arc::clone(&store), ann.clone());
        let record = record("a", &format!("t{n}"));
        writers.spawn(async move { store.replace(&ann, Version::ABSENT, record, None).await });
    }
    let outcomes = writers.join_all().await;
    let won = outcomes
        .iter()
        .filter(|o| o.as_ref().is_ok_and(|o| o.is_done()))
        .count();
    assert_eq!(won, 1, "{outcomes:?}");
}

pub(in crate::store::tests) async fn all_lists_every_record_in_key_order(store: Arc<dyn Whole>) {
    for user in ["carl", "ann", "bob"] {
        let written = record("a", user);
        store
            .replace(&key(user), Version::ABSENT, written, None)
            .await
            .unwrap();
    }
    let all = store.after(None, 10_000).await.unwrap();
    let keys: Vec<_> = all.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, [key("ann"), key("bob"), key("carl")]);
}

pub(in crate::store::tests) async fn records_are_read_a_few_at_a_time_after_a_key(
    store: Arc<dyn Whole>,
) {
    for user in ["ann", "bob", "carl"] {
        let written = record("a", user);
        let replaced = store
            .replace(&key(user), Version::ABSENT, written, None)
            .await;
        assert!(replaced.unwrap().is_done());
    }
    // Between two keys as well as at one, and past the last.
    for (after, most, wanted) in [
        (None, 2, &["ann", "bob"][..]),
        (Some("ann"), 2, &["bob", "carl"]),
        (Some("anna"), 1, &["bob"]),
        (Some("carl"), 5, &[]),
        (None, 0, &[]),
    ] {
        let after = after.map(key);
        let some = store.after(after.as_ref(), most).await.unwrap();
        let keys: Vec<_> = some.into_iter().map(|(key, _)| key).collect();
        let wanted: Vec<_> = wanted.iter().map(|user| key(user)).collect();
        assert_eq!(keys, wanted, "{most} after {after:?}");
    }
}

pub(in crate::store::tests) async fn a_write_gives_the_version_to_name_next_removals_included(
    store: Arc<dyn Whole>,
) {
    let ann = key("ann");
    let mut known = Version::ABSENT;
    for tunnel in ["t1", "t2", "", "t3", "", "t4"] {
        let next = match tunnel {
            "" => LeaseRecord::default(),
            tunnel => record("a", tunnel),
        };
        let written = store.replace(&ann, known, next.clone(), None).await;
        let Ok(Replaced::Done(version)) = written else {
            panic!("{tunnel}: {written:?}")
        };
        let read = store.read(&ann).await.unwrap();
        assert_eq!(read.record, next);
        assert!(next.is_empty() || read.version == version, "{read:?}");
        known = version;
    }
}
