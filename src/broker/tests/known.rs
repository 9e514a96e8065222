//! The embedded store is asked for a record only where what is known of it was wrong.

use super::away::Counting;
use super::*;

async fn house() -> (House, Arc<Counting>) {
    let mut asked = None;
    let house = House::with(&["a", "b"], |inner| {
        let store = Arc::new(Counting::of(inner, false));
        asked = Some(Arc::clone(&store));
        store
    });
    (house.await, asked.unwrap())
}

/// Returns once it is known that the lease is no tunnel's any more: the store has it
/// a moment before.
async fn lingers(house: &House, user: &str) {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let known = house.broker.leases.known(&key(user)).unwrap();
        let mut views = known.record.views(house.broker.clock.now());
        if views.any(|view| view.state == LeaseState::Lingering) {
            return;
        }
        assert!(Instant::now() < patience, "{user}: {:?}", known.record);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn newcomers_and_who_comes_back_are_placed_and_leave_without_a_read() {
    let (house, store) = house().await;
    let mut before = None;
    for tunnel in ["t1", "t2", "t3"] {
        let (host, hold) = house.place("ann", tunnel).await;
        assert_eq!(*before.get_or_insert(host.clone()), host);
        hold.stood();
        drop(hold);
        lingers(&house, "ann").await;
    }
    assert_eq!(store.reads(), 0);
}

#[tokio::test]
async fn a_record_that_is_not_known_leads_to_its_host_all_the_same() {
    let (house, store) = house().await;
    let now = house.broker.clock.now();
    for (user, host) in [("ann", "a"), ("bob", "b"), ("carl", "a"), ("dora", "b")] {
        let (tunnel, host) = (TunnelId::from("elsewhere"), HostId::from(host));
        let claim = |record: &mut LeaseRecord| {
            assert!(record.claim(&"office".into(), &host, &tunnel, Trust::Plain, now));
        };
        store.put(user, claim).await;
        store.reads();
        let (placed, _hold) = house.place(user, "t1").await;
        assert_eq!(placed, host, "{user}");
        assert_eq!(store.reads(), 1, "{user}");
    }
}

#[tokio::test]
async fn what_changed_behind_our_back_is_changed_as_it_is_now() {
    let (house, store) = house().await;
    let (host, hold) = house.place("ann", "t1").await;
    let key = key("ann");
    // Somebody else has a tunnel there as well.
    let (theirs, now) = (TunnelId::from("theirs"), house.broker.clock.now());
    let claim = |record: &mut LeaseRecord| {
        assert!(record.claim(&"office".into(), &host, &theirs, Trust::Plain, now));
    };
    store.put("ann", claim).await;
    hold.stood();
    drop(hold);
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let now = house.broker.clock.now();
        let record = store.inner.read(&key).await.unwrap().record;
        let left: Vec<_> = record.tunnels(now).cloned().collect();
        if left == [theirs.clone()] {
            return;
        }
        assert!(
            left.contains(&theirs) && Instant::now() < patience,
            "{left:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
