//! What the embedded store's journal promises: whatever was answered is there after
//! the process was killed, at any moment, and nothing is there that was not written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::store::embedded::{
    beside, on_a_disk_that_fails, on_disks_that_fail, set_another_version_aside,
};

/// The files as a kill would leave them now.
fn killed(path: &Path, into: &Path) -> PathBuf {
    let copy = into.join("copy.redb");
    for (from, to) in [
        (path.to_owned(), copy.clone()),
        (beside(path), beside(&copy)),
    ] {
        fs::copy(from, to).unwrap();
    }
    copy
}

async fn write(store: &Embedded, user: &str, expected: Version, tunnel: Option<&str>) -> Version {
    let record = tunnel.map_or_else(LeaseRecord::default, |tunnel| record("a", tunnel));
    let (key, written) = (key(user), record);
    match store.replace(&key, expected, written, None).await.unwrap() {
        Replaced::Done(version) => version,
        other => panic!("{user}: {other:?}"),
    }
}

async fn all(store: &Embedded) -> Vec<(LeaseKey, Versioned)> {
    store.after(None, usize::MAX).await.unwrap()
}

#[tokio::test]
async fn a_kill_after_any_answer_takes_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = Embedded::open(&path).unwrap();
    let before = write(&store, "ann", Version::ABSENT, Some("t1")).await;
    let decision = contract::archive::kept(1, &["ann"]);
    for step in 0..6 {
        match step {
            0 => drop(write(&store, "bob", Version::ABSENT, Some("t2")).await),
            1 => drop(write(&store, "ann", before, Some("t3")).await),
            // Neither takes the journal along, and both leave it right.
            2 => Archive::keep(&store, vec![decision.clone()], false)
                .await
                .unwrap(),
            3 => drop(write(&store, "carl", Version::ABSENT, Some("t4")).await),
            // This one does.
            4 => Archive::keep(&store, vec![decision.clone()], true)
                .await
                .unwrap(),
            _ => {
                let bob = store.read(&key("bob")).await.unwrap().version;
                write(&store, "bob", bob, None).await;
            }
        }
        let mut known = Vec::new();
        for user in ["ann", "bob", "carl"] {
            known.push(store.read(&key(user)).await.unwrap());
        }
        let copy = Embedded::open(&killed(&path, folder.path())).unwrap();
        for (user, known) in ["ann", "bob", "carl"].into_iter().zip(known) {
            assert_eq!(
                copy.read(&key(user)).await.unwrap(),
                known,
                "{user}, {step}"
            );
        }
        // And no number is given out twice.
        let next = write(&copy, "dora", Version::ABSENT, Some("t5")).await;
        let others = all(&copy).await;
        let others = others.iter().filter(|(of, _)| *of != key("dora"));
        assert!(
            others
                .map(|(_, known)| known.version)
                .all(|version| version < next)
        );
    }
}

#[tokio::test]
async fn a_row_that_a_power_cut_tore_is_no_row_and_those_before_it_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = Embedded::open(&path).unwrap();
    write(&store, "ann", Version::ABSENT, Some("t1")).await;
    let one = used(&beside(&path));
    write(&store, "bob", Version::ABSENT, Some("t2")).await;
    let both = used(&beside(&path));
    assert!(both > one);
    for torn in one..both {
        let copy = killed(&path, folder.path());
        let mut bytes = fs::read(beside(&copy)).unwrap();
        match torn % 2 {
            0 => bytes.truncate(torn),
            _ => bytes[torn] ^= 0x20,
        }
        fs::write(beside(&copy), bytes).unwrap();
        let copy = Embedded::open(&copy).unwrap();
        let found = all(&copy).await;
        assert_eq!(found.len(), 1, "{torn}");
        assert_eq!(found[0].1.record, record("a", "t1"), "{torn}");
    }
}

/// Up to where something is written.
fn used(journal: &Path) -> usize {
    let bytes = fs::read(journal).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[tokio::test]
async fn a_journal_counts_for_no_other_database_and_for_no_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = Embedded::open(&path).unwrap();
    write(&store, "ann", Version::ABSENT, Some("t1")).await;
    // The database was moved away, and the journal was forgotten.
    let copy = killed(&path, folder.path());
    fs::remove_file(&copy).unwrap();
    let new = Embedded::open(&copy).unwrap();
    assert_eq!(all(&new).await, []);
    drop(new);
    // It stays forgotten, though the new one counts as the old one did.
    assert_eq!(all(&Embedded::open(&copy).unwrap()).await, []);
    // A release that knows of no journal wrote in between.
    let copy = killed(&path, folder.path());
    set_another_version_aside(&copy);
    assert_eq!(all(&Embedded::open(&copy).unwrap()).await, []);
}

#[tokio::test]
async fn what_is_closed_is_all_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = Embedded::open(&path).unwrap();
    write(&store, "ann", Version::ABSENT, Some("t1")).await;
    drop(store);
    assert_eq!(fs::metadata(beside(&path)).unwrap().len(), 0);
    fs::remove_file(beside(&path)).unwrap();
    assert_eq!(all(&Embedded::open(&path).unwrap()).await.len(), 1);
}

#[tokio::test]
async fn a_journal_is_taken_along_before_it_grows_and_all_is_read_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let store = Arc::new(Embedded::open(&path).unwrap());
    for round in 0..10 {
        let mut writing = tokio::task::JoinSet::new();
        for nth in 0..300 {
            let store = Arc::clone(&store);
            writing.spawn(async move {
                let user = format!("user{round}-{nth}");
                let version = write(&store, &user, Version::ABSENT, Some("t1")).await;
                assert_eq!(store.read(&key(&user)).await.unwrap().version, version);
                // Some leave again, at once or later.
                if nth % 3 == 0 {
                    write(&store, &user, version, None).await;
                }
            });
        }
        writing.join_all().await;
        let length = fs::metadata(beside(&path)).unwrap().len();
        assert!(length < 512 << 10, "{length}");
    }
    let copy = Embedded::open(&killed(&path, folder.path())).unwrap();
    assert_eq!(all(&copy).await.len(), 2000);
    assert_eq!(all(&copy).await, all(&store).await);
}

#[tokio::test]
async fn a_disk_that_fails_while_the_journal_is_taken_along_takes_nothing() {
    let (store, full) = on_a_disk_that_fails();
    let mut answered = Vec::new();
    for nth in 0..40 {
        let user = format!("user{nth}");
        write(&store, &user, Version::ABSENT, Some("t1")).await;
        answered.push(user);
        if nth % 10 == 9 {
            full.store(true, Ordering::SeqCst);
            let decision = contract::archive::kept(nth, &["ann"]);
            let kept = Archive::keep(&store, vec![decision], true).await;
            assert!(kept.is_err(), "it had to reach the disk");
            full.store(false, Ordering::SeqCst);
        }
    }
    for user in answered {
        let known = store.read(&key(&user)).await.unwrap();
        assert_eq!(known.record, record("a", "t1"), "{user}");
    }
}

/// Edits that need not reach the disk at once: each takes a version.
async fn edit_unsynced(store: &Embedded, times: usize) {
    for nth in 0..times {
        let edit = Edit {
            kind: Kind::Report,
            id: "a".to_owned(),
            expected: None,
            text: Some(nth.to_string()),
        };
        let edited = Documents::edit(store, vec![edit], false).await.unwrap();
        assert_eq!(edited, Edited::Done);
    }
}

#[tokio::test]
async fn versions_set_aside_by_what_need_not_last_take_no_row_out_of_the_journal() {
    for edits in [900, 1025, 2100] {
        let (database, journal) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let store = on_disks_that_fail(&database, &journal);
        write(&store, "ann", Version::ABSENT, Some("t1")).await;
        edit_unsynced(&store, edits).await;
        write(&store, "bob", Version::ABSENT, Some("t2")).await;
        // The files are closed and opened again by that.
        journal.store(true, Ordering::SeqCst);
        let (carl, claimed) = (key("carl"), record("a", "t3"));
        let failed = store.replace(&carl, Version::ABSENT, claimed, None);
        assert!(failed.await.is_err(), "it had to reach the disk");
        journal.store(false, Ordering::SeqCst);
        for (user, tunnel) in [("ann", "t1"), ("bob", "t2")] {
            let known = store.read(&key(user)).await.unwrap();
            assert_eq!(known.record, record("a", tunnel), "{user}, {edits}");
        }
    }
}

#[tokio::test]
async fn there_are_versions_for_all_who_come_at_once_where_few_are_left() {
    let (store, disk) = crate::store::embedded::counted::store();
    let store = Arc::new(store);
    // Of 1,024 that an opening sets aside.
    edit_unsynced(&store, 1_020).await;
    let held = disk.hold();
    let mut writing = tokio::task::JoinSet::new();
    let waiting = Arc::clone(&store);
    writing.spawn(async move {
        let decision = contract::archive::kept(1, &["ann"]);
        Archive::keep(&*waiting, vec![decision], true)
            .await
            .unwrap();
    });
    while !disk.is_waited_for() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    for nth in 0..9 {
        let store = Arc::clone(&store);
        writing.spawn(async move {
            let user = format!("user{nth}");
            write(&store, &user, Version::ABSENT, Some("t1")).await;
        });
    }
    // All of them have asked before anybody is answered.
    tokio::task::yield_now().await;
    drop(held);
    writing.join_all().await;
    assert_eq!(all(&store).await.len(), 9);
}
