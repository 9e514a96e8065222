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
async fn a_file_has_one_writer_who_is_never_behind_and_has_nothing_to_be_told() {
    let (_folder, store) = embedded();
    for (user, version) in [("ann", 7), ("bob", 0)] {
        let host = HostId::from("a");
        let standing = Standing { version, claims: 1 };
        let room = 0;
        let footing = Some(Footing {
            host,
            standing,
            room,
        });
        let claimed = store
            .replace(&key(user), Version::ABSENT, record("a", user), footing)
            .await;
        assert!(claimed.unwrap().is_done(), "{user}");
    }
    let told = store.changes(Mark::default()).await;
    assert_eq!(told, Ok(Changed::default()));
}
