//! The embedded store is asked for a record only where what is known of it was wrong.

use super::*;

/// A store that counts how often single records are asked for.
struct Asked {
    inner: Embedded,
    reads: AtomicUsize,
}

impl Store for Asked {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> StoreAnswer<'a, Versioned> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.read(key)
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> StoreAnswer<'a, Replaced> {
        self.inner.replace(key, expected, record, footing)
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> StoreAnswer<'a, Vec<(LeaseKey, Versioned)>> {
        self.inner.after(key, most)
    }
}

async fn house() -> (House, Arc<Asked>) {
    let mut asked = None;
    let house = House::with(&["a", "b"], |inner| {
        let reads = AtomicUsize::new(0);
        let store = Arc::new(Asked { inner, reads });
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
    assert_eq!(store.reads.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_record_that_is_not_known_leads_to_its_host_all_the_same() {
    let (house, store) = house().await;
    let now = house.broker.clock.now();
    for (user, host) in [("ann", "a"), ("bob", "b"), ("carl", "a"), ("dora", "b")] {
        let tunnel = TunnelId::from("elsewhere");
        let mut record = LeaseRecord::default();
        assert!(record.claim(&"office".into(), &host.into(), &tunnel, Trust::Plain, now));
        let key = key(user);
        let written = store.inner.replace(&key, Version::ABSENT, record, None);
        assert!(written.await.unwrap().is_done());
        let before = store.reads.load(Ordering::SeqCst);
        let (placed, _hold) = house.place(user, "t1").await;
        assert_eq!(placed, HostId::from(host), "{user}");
        assert_eq!(store.reads.load(Ordering::SeqCst), before + 1, "{user}");
    }
}

#[tokio::test]
async fn what_changed_behind_our_back_is_changed_as_it_is_now() {
    let (house, store) = house().await;
    let (host, hold) = house.place("ann", "t1").await;
    let key = key("ann");
    // Somebody else has a tunnel there as well.
    let known = store.inner.read(&key).await.unwrap();
    let (mut record, now) = (known.record, house.broker.clock.now());
    let theirs = TunnelId::from("theirs");
    assert!(record.claim(&"office".into(), &host, &theirs, Trust::Plain, now));
    let written = store.inner.replace(&key, known.version, record, None);
    assert!(written.await.unwrap().is_done());
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
