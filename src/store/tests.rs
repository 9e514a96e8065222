//! The contract, run on every store, and what only the embedded one promises.

use std::sync::Arc;

use super::*;
use crate::placement::{FarmId, HostId, Timestamp, Trust, TunnelId, UserKey};

mod commits;

fn key(user: &str) -> LeaseKey {
    LeaseKey::of_user(&UserKey::new(user, "corp").unwrap())
}

fn record(host: &str, tunnel: &str) -> LeaseRecord {
    let mut record = LeaseRecord::default();
    let now = Timestamp::from_millis(1_000);
    let farm = FarmId::from("office");
    assert!(record.claim(
        &farm,
        &HostId::from(host),
        &TunnelId::from(tunnel),
        Trust::Plain,
        now
    ));
    record
}

fn embedded() -> (tempfile::TempDir, Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("leases.redb")).unwrap();
    (folder, Arc::new(store))
}

mod contract {
    use super::*;

    #[tokio::test]
    async fn what_was_written_is_read_back() {
        let (_folder, store) = embedded();
        let ann = key("ann");
        assert_eq!(store.read(&ann).await.unwrap(), Versioned::default());
        let written = record("a", "t1");
        let done = store.replace(&ann, Version::ABSENT, written.clone()).await;
        assert_eq!(done, Ok(Replaced::Done));
        let read = store.read(&ann).await.unwrap();
        assert_eq!(read.record, written);
        assert_ne!(read.version, Version::ABSENT);
        assert_eq!(store.read(&key("bob")).await.unwrap(), Versioned::default());
    }

    #[tokio::test]
    async fn a_writer_who_read_before_another_wrote_loses_and_changes_nothing() {
        let (_folder, store) = embedded();
        let ann = key("ann");
        let first = record("a", "t1");
        store
            .replace(&ann, Version::ABSENT, first.clone())
            .await
            .unwrap();
        let late = store
            .replace(&ann, Version::ABSENT, record("b", "t2"))
            .await;
        assert_eq!(late, Ok(Replaced::Conflict));
        assert_eq!(store.read(&ann).await.unwrap().record, first);
    }

    #[tokio::test]
    async fn an_empty_record_removes_the_key_and_an_old_version_stays_old() {
        let (_folder, store) = embedded();
        let ann = key("ann");
        store
            .replace(&ann, Version::ABSENT, record("a", "t1"))
            .await
            .unwrap();
        let old = store.read(&ann).await.unwrap().version;
        let removed = store.replace(&ann, old, LeaseRecord::default()).await;
        assert_eq!(removed, Ok(Replaced::Done));
        assert_eq!(store.read(&ann).await.unwrap(), Versioned::default());
        store
            .replace(&ann, Version::ABSENT, record("b", "t2"))
            .await
            .unwrap();
        let stale = store.replace(&ann, old, record("c", "t3")).await;
        assert_eq!(stale, Ok(Replaced::Conflict));
    }

    #[tokio::test]
    async fn of_many_writers_at_once_exactly_one_wins() {
        let (_folder, store) = embedded();
        let ann = key("ann");
        let mut writers = tokio::task::JoinSet::new();
        for n in 0..50 {
            let (store, ann) = (Arc::clone(&store), ann.clone());
            let record = record("a", &format!("t{n}"));
            writers.spawn(async move { store.replace(&ann, Version::ABSENT, record).await });
        }
        let outcomes = writers.join_all().await;
        let won = outcomes
            .iter()
            .filter(|o| **o == Ok(Replaced::Done))
            .count();
        assert_eq!(won, 1, "{outcomes:?}");
    }

    #[tokio::test]
    async fn all_lists_every_record_in_key_order() {
        let (_folder, store) = embedded();
        for user in ["carl", "ann", "bob"] {
            let written = record("a", user);
            store
                .replace(&key(user), Version::ABSENT, written)
                .await
                .unwrap();
        }
        let all = store.all().await.unwrap();
        let keys: Vec<_> = all.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, [key("ann"), key("bob"), key("carl")]);
    }

    #[tokio::test]
    async fn records_are_read_a_few_at_a_time_after_a_key() {
        let (_folder, store) = embedded();
        for user in ["ann", "bob", "carl"] {
            let written = record("a", user);
            let replaced = store.replace(&key(user), Version::ABSENT, written).await;
            assert_eq!(replaced, Ok(Replaced::Done));
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
}

mod embedded_only {
    use super::*;

    #[tokio::test]
    async fn records_survive_closing_and_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder/leases.redb");
        let ann = key("ann");
        let before = {
            let store = Embedded::open(&path).unwrap();
            store
                .replace(&ann, Version::ABSENT, record("a", "t1"))
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
        super::super::embedded::write_schema(&path, 99);
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
        let (store, full) = super::super::embedded::on_a_disk_that_fails();
        let ann = key("ann");
        store
            .replace(&ann, Version::ABSENT, record("a", "t1"))
            .await
            .unwrap();
        full.store(true, std::sync::atomic::Ordering::SeqCst);
        let failed = store
            .replace(&key("bob"), Version::ABSENT, record("a", "t2"))
            .await;
        assert!(
            matches!(failed, Err(StoreError::Failed { .. })),
            "{failed:?}"
        );
        full.store(false, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(store.read(&ann).await.unwrap().record, record("a", "t1"));
        let again = store
            .replace(&key("bob"), Version::ABSENT, record("a", "t2"))
            .await;
        assert_eq!(again, Ok(Replaced::Done));
    }
}

mod documents {
    use super::*;

    fn documents() -> (tempfile::TempDir, Arc<dyn Documents>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("leases.redb")).unwrap();
        (folder, Arc::new(store))
    }

    fn edit(kind: Kind, id: &str, expected: Option<Version>, text: Option<&str>) -> Edit {
        Edit {
            kind,
            id: id.to_owned(),
            expected,
            text: text.map(str::to_owned),
        }
    }

    fn said(all: &[Document]) -> Vec<(&str, &str)> {
        let all = all.iter();
        all.map(|one| (one.id.as_str(), one.text.as_str()))
            .collect()
    }

    #[tokio::test]
    async fn a_kind_lists_its_own_documents_in_the_order_of_their_ids() {
        let (_folder, documents) = documents();
        let edits = [
            (Kind::Mode, "b", "drain"),
            (Kind::Mode, "a", "online"),
            (Kind::Report, "a", "fine"),
            (Kind::Key, "a", "k"),
        ];
        let edits = edits.map(|(kind, id, text)| edit(kind, id, None, Some(text)));
        let done = documents.edit(edits.to_vec(), true).await;
        assert_eq!(done, Ok(Replaced::Done));
        let modes = documents.documents(Kind::Mode).await.unwrap();
        assert_eq!(said(&modes), [("a", "online"), ("b", "drain")]);
        let report = documents.document(Kind::Report, "a").await.unwrap();
        assert_eq!(report.unwrap().text, "fine");
        assert_eq!(documents.document(Kind::Report, "b").await, Ok(None));
        assert_eq!(documents.documents(Kind::Command).await, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn edits_are_made_all_or_none() {
        let (_folder, documents) = documents();
        let first = edit(Kind::Mode, "a", Some(Version::ABSENT), Some("drain"));
        documents.edit(vec![first.clone()], true).await.unwrap();
        let known = documents.document(Kind::Mode, "a").await.unwrap().unwrap();

        let others = [
            edit(Kind::Mode, "b", None, Some("drain")),
            edit(Kind::Mode, "a", Some(Version::ABSENT), Some("online")),
        ];
        let late = documents.edit(others.to_vec(), true).await;
        assert_eq!(late, Ok(Replaced::Conflict));
        let all = documents.documents(Kind::Mode).await.unwrap();
        assert_eq!(all, std::slice::from_ref(&known));

        let removed = edit(Kind::Mode, "a", Some(known.version), None);
        let done = documents.edit(vec![removed.clone()], true).await;
        assert_eq!(done, Ok(Replaced::Done));
        assert_eq!(documents.documents(Kind::Mode).await, Ok(Vec::new()));
        // What was removed and came back is another writing.
        documents.edit(vec![first], true).await.unwrap();
        let stale = documents.edit(vec![removed], true).await;
        assert_eq!(stale, Ok(Replaced::Conflict));
    }

    #[tokio::test]
    async fn documents_are_there_after_closing_and_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.redb");
        let store = Embedded::open(&path).unwrap();
        let edits = vec![edit(Kind::Report, "a", None, Some("fine"))];
        store.edit(edits, false).await.unwrap();
        let before = store.documents(Kind::Report).await.unwrap();
        drop(store);
        let store = Embedded::open(&path).unwrap();
        assert_eq!(store.documents(Kind::Report).await, Ok(before));
    }
}

mod archive {
    use super::*;

    fn archive() -> (tempfile::TempDir, Arc<dyn Archive>) {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("leases.redb")).unwrap();
        (folder, Arc::new(store))
    }

    /// A decision of this millisecond.
    fn kept(millis: u64, names: &[&str]) -> Kept {
        Kept {
            id: (u128::from(millis) << 80) | 7,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            json: format!("{{\"at\":{millis}}}"),
        }
    }

    const WIDE: Bounds = Bounds {
        since: Timestamp::from_millis(0),
        rows: u64::MAX,
        bytes: u64::MAX,
    };

    #[tokio::test]
    async fn what_was_kept_is_found_by_its_id_and_by_its_names_newest_first() {
        let (_folder, archive) = archive();
        let ann = [r"corp\ann", "ann"];
        let (one, two, three) = (kept(1, &ann), kept(2, &["bob"]), kept(3, &ann[1..]));
        archive
            .keep(vec![two.clone(), one.clone()], false)
            .await
            .unwrap();
        archive.keep(vec![three.clone()], true).await.unwrap();
        assert_eq!(archive.decision(two.id).await, Ok(Some(two.json.clone())));
        assert_eq!(archive.decision(9).await, Ok(None));
        let texts = |of: &[&Kept]| Ok(of.iter().map(|kept| kept.json.clone()).collect());
        assert_eq!(
            archive.decisions(None, 9).await,
            texts(&[&three, &two, &one])
        );
        assert_eq!(archive.decisions(None, 2).await, texts(&[&three, &two]));
        assert_eq!(
            archive.decisions(Some("ann"), 9).await,
            texts(&[&three, &one])
        );
        assert_eq!(archive.decisions(Some("ann"), 1).await, texts(&[&three]));
        assert_eq!(archive.decisions(Some(ann[0]), 9).await, texts(&[&one]));
        assert_eq!(archive.decisions(Some("an"), 9).await, texts(&[]));
    }

    #[tokio::test]
    async fn kept_again_is_kept_once() {
        let (_folder, archive) = archive();
        let one = kept(1, &["ann"]);
        archive
            .keep(vec![one.clone(), one.clone()], true)
            .await
            .unwrap();
        archive.keep(vec![one.clone()], true).await.unwrap();
        assert_eq!(archive.decisions(Some("ann"), 9).await, Ok(vec![one.json]));
    }

    #[tokio::test]
    async fn the_oldest_beyond_the_bounds_are_forgotten_with_their_names() {
        let (_folder, archive) = archive();
        let all = (1..=400).map(|millis| kept(millis, &["ann"])).collect();
        archive.keep(all, true).await.unwrap();
        assert_eq!(archive.prune(WIDE).await, Ok(0));

        // In batches, until nothing is left to forget.
        let since = Timestamp::from_millis(151);
        let aged = Bounds { since, ..WIDE };
        for count in [100, 50, 0] {
            assert_eq!(archive.prune(aged).await, Ok(count));
        }
        let left = archive.decisions(Some("ann"), 2000).await.unwrap();
        assert_eq!(left.len(), 250);
        assert_eq!(archive.decision(kept(150, &[]).id).await, Ok(None));
        assert!(archive.decision(kept(151, &[]).id).await.unwrap().is_some());

        let rows = Bounds { rows: 40, ..WIDE };
        for count in [100, 100, 10, 0] {
            assert_eq!(archive.prune(rows).await, Ok(count));
        }
        // Ten bytes each; one stays.
        let bytes = Bounds { bytes: 19, ..WIDE };
        assert_eq!(archive.prune(bytes).await, Ok(39));
        let left = kept(400, &[]).json;
        assert_eq!(archive.decisions(Some("ann"), 9).await, Ok(vec![left]));
    }

    #[tokio::test]
    async fn decisions_are_there_after_closing_and_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.redb");
        let one = kept(1, &["ann"]);
        let store = Embedded::open(&path).unwrap();
        Archive::keep(&store, vec![one.clone()], true)
            .await
            .unwrap();
        drop(store);
        let store = Embedded::open(&path).unwrap();
        assert_eq!(store.decision(one.id).await, Ok(Some(one.json)));
    }
}
