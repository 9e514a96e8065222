//! What an earlier life of the process left in the store, taken over at the start.

use super::*;
use crate::placement::{Timestamp, UserKey};
use crate::store::counted;

const LINGER: Duration = Duration::from_secs(900);

/// Users whose tunnels ended, and users whose tunnels stood when the process was killed.
const ENDED: u64 = 3_000;
const STOOD: u64 = 300;

fn left(nth: u64, now: Timestamp) -> (LeaseKey, LeaseRecord) {
    let user = UserKey::new(&format!("user{nth}"), "").unwrap();
    let (host, tunnel) = (if nth.is_multiple_of(2) { "a" } else { "b" }, "gone".into());
    let mut record = LeaseRecord::default();
    let claimed = record.claim(&"office".into(), &host.into(), &tunnel, Trust::Plain, now);
    assert!(claimed);
    record.stood(&tunnel, &user, LINGER, now);
    if nth < ENDED {
        record.end(&tunnel, LINGER, now);
    }
    (LeaseKey::of_user(&user), record)
}

#[tokio::test]
async fn thousands_of_leases_are_taken_over_in_one_picture_and_few_commits() {
    let (store, disk) = counted::store();
    let store = Arc::new(store);
    let now = Clock::start().now();
    let mut writing = JoinSet::new();
    for nth in 0..ENDED + STOOD {
        let store = Arc::clone(&store);
        writing.spawn(async move {
            let (key, record) = left(nth, now);
            let written = store.replace(&key, Version::ABSENT, record, None).await;
            assert!(written.unwrap().is_done());
        });
    }
    writing.join_all().await;

    let before = disk.syncs();
    let farm = directory(&["a", "b"]);
    let house = House::open(farm, |_| Arc::clone(&store) as Arc<dyn Store>).await;
    let syncs = disk.syncs() - before;
    let snapshot = house.fleet.snapshot();
    for host in ["a", "b"] {
        let view = &snapshot.hosts[&HostId::from(host)];
        assert_eq!(view.lingering.len() as u64, (ENDED + STOOD) / 2);
        assert_eq!(view.tunnels.len(), 0, "the tunnels went with their process");
    }
    // A picture copies what the one before it has: one a lease would take a day for a million.
    assert!(snapshot.generation <= STOOD + 10, "{}", snapshot.generation);
    // The records of those that stood are written, together.
    assert!(syncs <= 30, "{syncs} syncs for {STOOD} records");
    let (key, _) = left(ENDED, now);
    let kept = store.read(&key).await.unwrap();
    let views: Vec<_> = kept.record.views(now).map(|view| view.state).collect();
    assert_eq!(views, [LeaseState::Lingering]);
}
