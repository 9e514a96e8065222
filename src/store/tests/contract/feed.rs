//! What every store that replicas share promises to tell of what others write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;

use super::super::*;
use super::documents::edit;

async fn write(store: &Postgres, user: &str, tunnel: &str) -> Version {
    let known = store.read(&key(user)).await.unwrap();
    let record = record("a", tunnel);
    let written = store.replace(&key(user), known.version, record, None).await;
    match written.unwrap() {
        Replaced::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

async fn remove(store: &Postgres, user: &str, version: Version) -> Version {
    let removed = store
        .replace(&key(user), version, LeaseRecord::default(), None)
        .await;
    match removed.unwrap() {
        Replaced::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

fn users(told: &Changed) -> Vec<LeaseKey> {
    let mut keys: Vec<_> = told.leases.iter().map(|(key, _)| key.clone()).collect();
    keys.sort();
    keys
}

pub(in crate::store::tests) async fn at_first_it_tells_all_there_is_and_then_what_changed(
    [one, other]: [Arc<Postgres>; 2],
) {
    let empty = one.changes(Mark::default()).await.unwrap();
    let mark = empty.mark;
    let nothing = Changed {
        mark,
        whole: true,
        ..Changed::default()
    };
    assert_eq!(empty, nothing);

    let ann = write(&one, "ann", "t1").await;
    write(&one, "bob", "t2").await;
    remove(&one, "ann", ann).await;
    let orders = ["a", "b"].map(|id| edit(Kind::Mode, id, None, Some("drain")));
    one.edit(orders.to_vec(), true).await.unwrap();
    let gone = edit(Kind::Mode, "b", None, None);
    one.edit(vec![gone], true).await.unwrap();

    let told = other.changes(Mark::default()).await.unwrap();
    assert!(told.whole);
    assert_eq!(users(&told), [key("bob")], "what was removed is not there");
    assert_eq!(told.leases[0].1, one.read(&key("bob")).await.unwrap());
    let mode = one.document(Kind::Mode, "a").await.unwrap();
    assert_eq!(told.documents, [(Kind::Mode, "a".to_owned(), mode)]);
    assert_eq!(told.standings.len(), 2);

    // What was removed since a moment is told to whoever knew it then.
    let told = other.changes(mark).await.unwrap();
    assert!(!told.whole);
    assert_eq!(users(&told), [key("ann"), key("bob")]);
    let ann = told.leases.iter().find(|(of, _)| *of == key("ann"));
    let ann = &ann.unwrap().1;
    assert!(ann.record.is_empty() && ann.version > Version::ABSENT);
    let gone = (Kind::Mode, "b".to_owned(), None);
    assert!(told.documents.contains(&gone), "{told:?}");

    // Of what changed after that, nothing else.
    let told = until_quiet(&other, told.mark).await;
    let report = edit(Kind::Report, "a", None, Some("fine"));
    one.edit(vec![report], false).await.unwrap();
    let told = other.changes(told.mark).await.unwrap();
    assert_eq!((told.leases.len(), told.standings.len()), (0, 0));
    let report = one.document(Kind::Report, "a").await.unwrap();
    assert_eq!(told.documents, [(Kind::Report, "a".to_owned(), report)]);
}

/// Until everything is told: other tests' transactions on the same server hold
/// the moment back.
async fn until_quiet(store: &Postgres, mut mark: Mark) -> Changed {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let told = store.changes(mark).await.unwrap();
        assert!(!told.whole);
        if (told.leases.len(), told.documents.len()) == (0, 0) && told.standings.is_empty() {
            return told;
        }
        assert!(std::time::Instant::now() < until, "{told:?}");
        mark = told.mark;
    }
}

pub(in crate::store::tests) async fn what_many_write_at_once_is_told_in_order_and_to_the_end(
    [one, other]: [Arc<Postgres>; 2],
) {
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (other, done) = (Arc::clone(&other), Arc::clone(&done));
        tokio::spawn(async move {
            let mut known: BTreeMap<LeaseKey, Versioned> = BTreeMap::new();
            let mut mark = Mark::default();
            loop {
                let is_last = done.load(Ordering::SeqCst);
                let told = other.changes(mark).await.unwrap();
                mark = told.mark;
                for (key, versioned) in told.leases {
                    if let Some(before) = known.get(&key) {
                        assert!(before.version <= versioned.version, "{key:?} went back");
                    }
                    known.insert(key, versioned);
                }
                if is_last {
                    return known;
                }
            }
        })
    };
    let mut writers = JoinSet::new();
    for n in 0..4 {
        let store = Arc::clone([&one, &other][n % 2]);
        writers.spawn(async move {
            for turn in 0..30 {
                // Two write to each, so that creations and removals meet.
                let user = key(&format!("user{}", turn % 3));
                let known = store.read(&user).await.unwrap();
                let next = match turn % 4 {
                    3 => LeaseRecord::default(),
                    _ => record("a", &format!("t{n}-{turn}")),
                };
                let written = store.replace(&user, known.version, next, None);
                written.await.unwrap();
            }
        });
    }
    writers.join_all().await;
    done.store(true, Ordering::SeqCst);
    let mut known = reader.await.unwrap();
    known.retain(|_, versioned| !versioned.record.is_empty());
    let all = one.after(None, 10_000).await.unwrap();
    assert_eq!(known.into_iter().collect::<Vec<_>>(), all);
}

pub(in crate::store::tests) async fn what_is_committed_late_is_told_then_and_the_rest_before(
    [one, other]: [Arc<Postgres>; 2],
) {
    let begun = one.begin_claim(&key("ann"), &record("a", "t1"), None).await;
    let first = write(&other, "bob", "t2").await;
    let told = other.changes(Mark::default()).await.unwrap();
    assert_eq!(users(&told), [key("bob")]);
    // It began before what was told, and so that comes again, told apart by its version.
    let second = write(&other, "carl", "t3").await;
    let told = other.changes(told.mark).await.unwrap();
    assert!(!told.whole);
    assert_eq!(users(&told), [key("bob"), key("carl")]);
    let mut versions: Vec<_> = told.leases.iter().map(|(_, one)| one.version).collect();
    versions.sort();
    assert_eq!(versions, [first, second]);
    begun.commit().await;
    let told = other.changes(told.mark).await.unwrap();
    assert!(users(&told).contains(&key("ann")), "{told:?}");
}

pub(in crate::store::tests) async fn after_another_server_or_too_long_it_tells_all_there_is(
    [one, other]: [Arc<Postgres>; 2],
) {
    write(&one, "ann", "t1").await;
    let mark = other.changes(Mark::default()).await.unwrap().mark;
    assert!(!other.changes(mark).await.unwrap().whole);
    let day = 24 * 3600 * 1000;
    let elsewhere = Mark {
        server: mark.server - 1,
        ..mark
    };
    let long_ago = Mark {
        at: mark.at - day,
        ..mark
    };
    for since in [elsewhere, long_ago] {
        let told = other.changes(since).await.unwrap();
        assert!(told.whole);
        assert_eq!(users(&told), [key("ann")]);
    }
}
