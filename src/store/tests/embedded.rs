//! What only the embedded store promises: its file.

use super::*;

#[tokio::test]
async fn records_survive_closing_and_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/leases.redb");
    let ann = key("ann");
    let before = {
        let store = Embedded::open(&path).unwrap();
        store
            .replace(&ann, Version::ABSENT, record("a", "t1"), None)
            .await
            .unwrap();
        store.read(&ann).await.unwrap()
    };
    let store = Embedded::open(&path).unwrap();
    assert_eq!(store.read(&ann).await.unwrap(), before);
}

#[tokio::test]
async fn no_opening_gives_out_a_version_of_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    let mut last = Version::ABSENT;
    for opening in 0..3 {
        let store = Embedded::open(&path).unwrap();
        for nth in 0..3 {
            let key = key(&format!("user{opening}{nth}"));
            let written = store.replace(&key, Version::ABSENT, record("a", "t1"), None);
            let Replaced::Done(version) = written.await.unwrap() else {
                panic!("nobody else writes");
            };
            assert!(version > last, "{version:?} after {last:?}");
            assert_eq!(store.read(&key).await.unwrap().version, version);
            last = version;
        }
    }
}

#[tokio::test]
async fn a_second_opening_is_told_that_the_file_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    let _first = Embedded::open(&path).unwrap();
    let second = Embedded::open(&path).unwrap_err();
    assert_eq!(second, StoreError::InUse { path: path.clone() });
    assert!(second.to_string().contains("in use by another process"));
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "shopping list\n".repeat(1000)).unwrap();
    let error = Embedded::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
    assert!(error.to_string().contains("move it away"), "{error}");
    assert!(
        std::fs::read_to_string(&path)
            .unwrap()
            .starts_with("shopping")
    );
}

#[test]
fn a_file_of_a_newer_release_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    crate::store::embedded::write_schema(&path, 99);
    let error = Embedded::open(&path).unwrap_err();
    let (found, known) = (99, 1);
    assert_eq!(error, StoreError::Newer { path, found, known });
}

#[test]
fn a_damaged_file_is_named_and_does_not_take_the_process_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    drop(Embedded::open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte = 0xa5;
    }
    std::fs::write(&path, bytes).unwrap();
    let error = Embedded::open(&path).unwrap_err();
    assert!(error.to_string().contains("leases.redb"), "{error}");
}

#[test]
fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    let _store = Embedded::open(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_disk_that_failed_and_is_back_is_used_again() {
    let (store, full) = crate::store::embedded::on_a_disk_that_fails();
    let ann = key("ann");
    store
        .replace(&ann, Version::ABSENT, record("a", "t1"), None)
        .await
        .unwrap();
    full.store(true, std::sync::atomic::Ordering::SeqCst);
    let failed = store
        .replace(&key("bob"), Version::ABSENT, record("a", "t2"), None)
        .await;
    assert!(
        matches!(failed, Err(StoreError::Failed { .. })),
        "{failed:?}"
    );
    full.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(store.read(&ann).await.unwrap().record, record("a", "t1"));
    let again = store
        .replace(&key("bob"), Version::ABSENT, record("a", "t2"), None)
        .await;
    assert!(again.unwrap().is_done());
}

#[tokio::test]
async fn documents_are_there_after_closing_and_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    let store = Embedded::open(&path).unwrap();
    let edits = vec![contract::documents::edit(
        Kind::Report,
        "a",
        None,
        Some("fine"),
    )];
    store.edit(edits, false).await.unwrap();
    let before = store.documents(Kind::Report).await.unwrap();
    drop(store);
    let store = Embedded::open(&path).unwrap();
    assert_eq!(store.documents(Kind::Report).await, Ok(before));
}
#[tokio::test]
async fn decisions_are_there_after_closing_and_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.redb");
    let one = contract::archive::kept(1, &["ann"]);
    let store = Embedded::open(&path).unwrap();
    Archive::keep(&store, vec![one.clone()], true)
        .await
        .unwrap();
    drop(store);
    let store = Embedded::open(&path).unwrap();
    assert_eq!(store.decision(one.id).await, Ok(Some(one.json)));
}

#[tokio::test]
async fn a_lone_writer_is_never_behind_and_who_asks_is_told_all_and_then_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store.redb")).unwrap();
    let claim = async |user, version| {
        let standing = Standing { version, claims: 1 };
        let footing = Some(Footing {
            host: HostId::from("a"),
            standing,
            room: 0,
        });
        let record = record("a", user);
        let (key, record) = (key(user), record);
        let claimed = store.replace(&key, Version::ABSENT, record, footing);
        claimed.await.unwrap().is_done()
    };
    for (user, version) in [("ann", 7), ("bob", 0)] {
        assert!(claim(user, version).await, "{user}");
    }
    let all = store.changes(Mark::default()).await.unwrap();
    assert!(all.whole && all.leases.len() == 2 && all.standings.is_empty());
    let same = store.changes(all.mark).await.unwrap();
    assert!(!same.whole && same.leases.is_empty());
    // Now it is noted who is where, and a removal is news as well.
    assert!(claim("carl", 0).await);
    let ann = store.read(&key("ann")).await.unwrap();
    let key_of_ann = key("ann");
    let gone = store.replace(&key_of_ann, ann.version, LeaseRecord::default(), None);
    assert!(gone.await.unwrap().is_done());
    let news = store.changes(all.mark).await.unwrap();
    let of = |user| news.leases.iter().find(|(known, _)| *known == key(user));
    assert!(!news.whole && news.leases.len() == 2 && news.standings.len() == 1);
    let (_, removed) = of("ann").unwrap();
    assert!(removed.record.is_empty() && removed.version > ann.version);
    // Another process that has not seen it is behind; who has, is not.
    let other = async |user, standing, room| {
        let footing = Footing {
            host: HostId::from("a"),
            standing,
            room,
        };
        let written = (record("a", user), Some(footing));
        store
            .replace_as(1, key(user), Version::ABSENT, written)
            .await
    };
    let unseen = other("dora", Standing::default(), 0).await;
    assert_eq!(unseen, Ok(Replaced::Behind));
    let seen = news.standings[0].1;
    assert!(other("dora", seen, 0).await.unwrap().is_done());
    // Its own is nothing that it would have to see.
    let own = other("emil", seen, 0).await;
    assert!(own.unwrap().is_done());
}
