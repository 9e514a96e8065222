//! How many claims one sync to disk carries.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::*;
use crate::store::counted;

const CROWD: usize = 200;

async fn claim(store: Arc<Embedded>, user: String) {
    let (key, written) = (key(&user), record("a", &user));
    let done = store.replace(&key, Version::ABSENT, written, None).await;
    assert!(done.unwrap().is_done(), "{user}");
}

#[tokio::test]
async fn claims_that_wait_together_share_a_commit() {
    let (store, disk) = counted::store();
    let store = Arc::new(store);
    let before = disk.syncs();
    claim(Arc::clone(&store), "alone".to_owned()).await;
    let one = disk.syncs() - before;
    assert!(one > 0, "a claim is on disk before it is answered");

    // While the disk is busy with one claim, a crowd lines up behind it.
    let held = disk.hold();
    let first = tokio::spawn(claim(Arc::clone(&store), "first".to_owned()));
    while !disk.is_waited_for() {
        tokio::task::yield_now().await;
    }
    let before = disk.syncs();
    let lined_up = Arc::new(AtomicUsize::new(0));
    let mut crowd = JoinSet::new();
    for n in 0..CROWD {
        let (store, lined_up) = (Arc::clone(&store), Arc::clone(&lined_up));
        crowd.spawn(async move {
            lined_up.fetch_add(1, Ordering::SeqCst);
            claim(store, format!("user{n}")).await;
        });
    }
    // One thread: whoever had a turn has put the claim into the queue, which holds them all.
    while lined_up.load(Ordering::SeqCst) < CROWD {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        crowd.try_join_next().map(drop),
        None,
        "answered before the commit"
    );
    drop(held);
    crowd.join_all().await;
    first.await.unwrap();
    // One of the first, one of all others, and one where the file had to grow for them.
    let both = disk.syncs() - before;
    assert!(
        both <= 3 * one,
        "{both} syncs for {CROWD} claims, one alone takes {one}"
    );
    assert_eq!(store.after(None, 10_000).await.unwrap().len(), CROWD + 2);
}

#[tokio::test]
async fn who_comes_while_a_crowd_does_shares_its_commit() {
    let (store, disk) = counted::store();
    let store = Arc::new(store);
    // The file grows now, and for nobody later.
    claim(Arc::clone(&store), "first".to_owned()).await;
    let before = disk.syncs();
    let mut crowd = JoinSet::new();
    for lane in 0..CROWD / 10 {
        let store = Arc::clone(&store);
        crowd.spawn(async move {
            for nth in 0..10 {
                claim(Arc::clone(&store), format!("user{lane}-{nth}")).await;
            }
        });
    }
    crowd.join_all().await;
    let syncs = disk.syncs() - before;
    assert!(syncs <= CROWD / 2, "{syncs} syncs for {CROWD} claims");
}
