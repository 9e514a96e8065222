//! What is kept, what is dropped, and that nobody waits for either.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::placement::{Claims, Timestamp};
use crate::store::{Answer, Bounds, Embedded, Kept};

/// An archive that is not there, or stuck, as it is told.
#[derive(Default)]
struct Ill {
    stuck: AtomicBool,
    asked: AtomicU64,
    released: Notify,
}

impl Archive for Ill {
    fn keep(&self, _: Vec<Kept>, _: bool) -> Answer<'_, ()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            if self.stuck.load(Ordering::SeqCst) {
                self.released.notified().await;
            }
            Err(StoreError::Closed)
        })
    }

    fn decision(&self, _: u128) -> Answer<'_, Option<String>> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn decisions<'a>(&'a self, _: Option<&'a str>, _: usize) -> Answer<'a, Vec<String>> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn prune(&self, _: Bounds) -> Answer<'_, usize> {
        Box::pin(async { Ok(0) })
    }
}

fn record(user: &str) -> Record {
    let claims = Claims {
        username: user.to_owned(),
        ..Claims::default()
    };
    let at = Timestamp::from_millis(1);
    Record::bare(DecisionId::mint(), Act::Placement, Asked::by(&claims), at)
}

fn user(name: &str) -> Option<UserKey> {
    UserKey::new(name, "")
}

#[tokio::test]
async fn the_latest_are_found_in_memory_alone() {
    let decisions = Decisions::in_memory();
    let first = record("ann");
    let id = first.id;
    decisions.keep(first.clone());
    for round in 1..RECENT {
        decisions.keep(record(if round % 2 == 0 { "ann" } else { "bob" }));
    }
    assert_eq!(*decisions.find(id).await.unwrap().unwrap(), first);
    let bobs = decisions.newest(user("BOB").as_ref(), 3).await.unwrap();
    assert!(bobs.iter().all(|record| record.asked.username == "bob"));
    assert!(bobs.is_sorted_by(|newer, older| newer.id > older.id));
    // One more, and the first is forgotten.
    decisions.keep(record("carl"));
    assert_eq!(decisions.find(id).await, Ok(None));
    assert_eq!(
        decisions.newest(None, RECENT * 2).await.unwrap().len(),
        RECENT
    );
}

#[tokio::test]
async fn a_stuck_archive_makes_nobody_wait_and_what_is_dropped_is_counted() {
    let ill = Arc::new(Ill::default());
    ill.stuck.store(true, Ordering::SeqCst);
    let (decisions, recorder) =
        Decisions::stored(ill.clone(), None, Clock::start(), Arc::default());
    let stop = CancellationToken::new();
    let recorder = tokio::spawn(recorder.run(stop.clone()));
    let started = Instant::now();
    let count = QUEUE + 500;
    for _ in 0..count {
        decisions.keep(record("ann"));
    }
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(decisions.losses().decisions, 500);
    // The latest are explained all the same.
    let newest = decisions.newest(None, 10).await.unwrap();
    assert_eq!(newest.len(), 10);
    ill.stuck.store(false, Ordering::SeqCst);
    ill.released.notify_waiters();
    stop.cancel();
    recorder.await.unwrap();
    assert!(ill.asked.load(Ordering::SeqCst) >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_archive_is_tried_again_and_not_in_a_hurry() {
    let ill = Arc::new(Ill::default());
    let (decisions, recorder) =
        Decisions::stored(ill.clone(), None, Clock::start(), Arc::default());
    let stop = CancellationToken::new();
    let recorder = tokio::spawn(recorder.run(stop.clone()));
    decisions.keep(record("ann"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = ill.asked.load(Ordering::SeqCst);
    assert!((5..=12).contains(&asked), "{asked}");
    stop.cancel();
    recorder.await.unwrap();
}

#[tokio::test]
async fn everything_kept_is_stored_by_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.redb");
    let open = || Arc::new(Embedded::open(&path).unwrap());
    let (decisions, recorder) = Decisions::stored(open(), None, Clock::start(), Arc::default());
    let records: Vec<_> = (0..600).map(|_| record("ann")).collect();
    for record in &records {
        decisions.keep(record.clone());
    }
    let stop = CancellationToken::new();
    stop.cancel();
    recorder.run(stop).await;
    drop(decisions);

    let (decisions, _recorder) = Decisions::stored(open(), None, Clock::start(), Arc::default());
    for record in &records {
        assert_eq!(*decisions.find(record.id).await.unwrap().unwrap(), *record);
    }
    // Memory and archive together name each once.
    decisions.keep(record("ann"));
    decisions.keep(records[599].clone());
    let found = decisions.newest(user("ann").as_ref(), 1000).await.unwrap();
    assert_eq!(found.len(), 601);
}
