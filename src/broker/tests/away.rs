//! A store that others write to: what is known of it without asking, and what
//! becomes of users and tunnels while it is away.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::placement::Reason;
use crate::store::{Losses, StoreError};

/// A store that counts its reads, and may be shared, and away.
pub(super) struct Counting {
    is_shared: bool,
    pub(super) inner: Embedded,
    reads: AtomicUsize,
    is_away: AtomicBool,
    losses: Losses,
}

impl Counting {
    fn asked<'a, T: Send + 'a>(&'a self, answer: StoreAnswer<'a, T>) -> StoreAnswer<'a, T> {
        match self.is_away.load(Ordering::SeqCst) {
            false => answer,
            true => Box::pin(async {
                Err(StoreError::Database {
                    address: "db:5432".to_owned(),
                    database: "sessionguard".to_owned(),
                    reason: "connection refused".to_owned(),
                    help: "see that it runs",
                })
            }),
        }
    }

    fn goes(&self) {
        self.is_away.store(true, Ordering::SeqCst);
        self.losses.note();
    }

    fn comes_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    pub(super) fn reads(&self) -> usize {
        self.reads.swap(0, Ordering::SeqCst)
    }

    /// What another replica, or a standby that knows less, makes of a record.
    pub(super) async fn put(&self, user: &str, change: impl FnOnce(&mut LeaseRecord)) {
        let key = key(user);
        let known = self.inner.read(&key).await.unwrap();
        let mut record = known.record;
        change(&mut record);
        let replaced = self.inner.replace(&key, known.version, record, None).await;
        assert!(replaced.unwrap().is_done());
    }
}

impl Store for Counting {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> StoreAnswer<'a, Versioned> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.asked(self.inner.read(key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> StoreAnswer<'a, Replaced> {
        self.asked(self.inner.replace(key, expected, record, footing))
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> StoreAnswer<'a, Vec<(LeaseKey, Versioned)>> {
        self.asked(self.inner.after(key, most))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

impl Counting {
    pub(super) fn of(inner: Embedded, is_shared: bool) -> Self {
        Self {
            is_shared,
            inner,
            reads: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
            losses: Losses::default(),
        }
    }
}

async fn house(hosts: &[&str], degraded: Degraded) -> (House, Arc<Counting>) {
    let mut seen = None;
    let house = House::open_for(directory(hosts), degraded, |inner| {
        let store = Arc::new(Counting::of(inner, true));
        seen = Some(Arc::clone(&store));
        store
    });
    let house = house.await;
    (house, seen.unwrap())
}

impl House {
    async fn tried(&self, user: &str, tunnel: &str) -> Result<(HostId, Reason, Hold), PlaceError> {
        let (request, tunnel) = (request(user), tunnel.into());
        let placed = self.broker.place(&request, &tunnel, in_time()).await;
        let answer = placed.map_err(|unplaced| unplaced.error)?;
        match answer.decision.outcome {
            Outcome::Placed(placement) => {
                Ok((placement.host, placement.reason, answer.hold.unwrap()))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Somebody whose desktop stood and who left it.
    async fn leaves(&self, user: &str, tunnel: &str) -> HostId {
        let (host, hold) = self.place(user, tunnel).await;
        hold.stood();
        drop(hold);
        let lingering = Some((host.as_str(), LeaseState::Lingering));
        self.lease_becomes(user, lingering).await;
        host
    }

    fn goes_into_maintenance(&self, meant: &HostId) {
        let known = Arc::clone(&self.fleet.snapshot().directory);
        let hosts = known.hosts().cloned().map(|host| Host {
            mode: match host.id == *meant {
                true => Mode::Maintenance,
                false => Mode::Online,
            },
            ..host
        });
        let (farms, resources) = (known.farms().cloned(), known.resources().cloned());
        let changed = Directory::new(Rules::default(), hosts, farms, resources);
        let now = self.broker.clock.now();
        self.fleet.apply(Arc::new(changed), now);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_is_placed_without_a_read_and_by_what_others_wrote_all_the_same() {
    let (house, store) = house(&["a", "b"], Degraded::Refuse).await;
    let host = house.leaves("ann", "t1").await;
    let written = store.inner.read(&key("ann")).await.unwrap();
    while house.broker.leases.known(&key("ann")).as_ref() != Some(&written) {
        // The store has it a moment before the keeper is answered.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.reads();
    let (again, reason, hold) = house.tried("ann", "t2").await.unwrap();
    assert_eq!((again, reason), (host.clone(), Reason::Lease));
    assert_eq!(store.reads(), 0, "what was written here is known here");
    hold.stood();
    drop(hold);
    let office = FarmId::from("office");
    while { house.record("ann").await }
        .holders(&office, house.broker.clock.now())
        .next()
        .is_some()
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Another replica has them elsewhere meanwhile, and we have not heard of it.
    let other = HostId::from(if host.as_str() == "a" { "b" } else { "a" });
    let now = house.broker.clock.now();
    store
        .put("ann", |record| {
            let office = FarmId::from("office");
            record.release(&office, now);
            assert!(record.claim(&office, &other, &"there".into(), Trust::Plain, now));
        })
        .await;
    let (placed, reason, _hold) = house.tried("ann", "t3").await.unwrap();
    assert_eq!((placed, reason), (other, Reason::Tunnel));
    assert!(
        store.reads() > 0,
        "the claim by what was known was not written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_refused_by_what_is_only_cached() {
    let (house, store) = house(&["a"], Degraded::Refuse).await;
    let host = house.leaves("ann", "t1").await;
    // Held on a host that is no member, so that all are refused; then it is over.
    let foreign = |record: &mut LeaseRecord, now| {
        let office = FarmId::from("office");
        record.release(&office, now);
        assert!(record.claim(&office, &"z".into(), &"there".into(), Trust::Plain, now));
    };
    let now = house.broker.clock.now();
    store.put("ann", |record| foreign(record, now)).await;
    let held = store.inner.read(&key("ann")).await.unwrap();
    house.broker.leases.heard(&key("ann"), held);
    let lease = Duration::from_secs(900);
    store
        .put("ann", |record| record.end(&"there".into(), lease, now))
        .await;
    let (placed, _, _hold) = house.tried("ann", "t2").await.unwrap();
    assert_eq!(placed, host);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_turns_everybody_away_in_time_and_says_why() {
    let (house, store) = house(&["a", "b"], Degraded::Refuse).await;
    house.leaves("ann", "t1").await;
    store.goes();
    for (user, tunnel) in [("ann", "t2"), ("bob", "t3")] {
        let began = Instant::now();
        let error = house.tried(user, tunnel).await.unwrap_err();
        assert_eq!(error.cause(), Cause::Store, "{error}");
        assert!(began.elapsed() < Duration::from_secs(8), "{user}");
    }
    assert_eq!(house.seats(), 0, "nobody has a seat");
    store.comes_back();
    let (_, reason, _hold) = house.tried("ann", "t4").await.unwrap();
    assert_eq!(reason, Reason::Lease);
}

#[tokio::test(flavor = "multi_thread")]
async fn degraded_who_comes_back_goes_to_the_host_of_the_lease_and_nobody_else_anywhere() {
    let (house, store) = house(&["a", "b", "c"], Degraded::ExistingLease).await;
    let host = house.leaves("ann", "t1").await;
    store.goes();
    let (back, reason, hold) = house.tried("ann", "t2").await.unwrap();
    assert_eq!((&back, reason), (&host, Reason::Degraded));
    // Beside it, too; and somebody new nowhere.
    let (beside, reason, second) = house.tried("ann", "t3").await.unwrap();
    assert_eq!((&beside, reason), (&host, Reason::Degraded));
    assert_eq!(
        house.tried("bob", "t4").await.unwrap_err().cause(),
        Cause::Store
    );
    drop(second);
    hold.stood();
    store.comes_back();
    // What was not claimed is claimed now.
    let live = Some((host.as_str(), LeaseState::Live));
    house.lease_becomes("ann", live).await;
    assert!(house.tried("bob", "t5").await.is_ok());
    drop(hold);
}

#[tokio::test(flavor = "multi_thread")]
async fn degraded_nobody_goes_back_to_a_host_in_maintenance() {
    let (house, store) = house(&["a", "b"], Degraded::ExistingLease).await;
    let host = house.leaves("ann", "t1").await;
    store.goes();
    house.goes_into_maintenance(&host);
    let error = house.tried("ann", "t2").await.unwrap_err();
    assert_eq!(error.cause(), Cause::Store, "{error}");
    assert_eq!(house.seats(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn degraded_a_user_whose_tunnel_stands_here_gets_the_next_one_there() {
    let (house, store) = house(&["a", "b"], Degraded::ExistingLease).await;
    let (host, hold) = house.place("ann", "t1").await;
    house
        .lease_becomes("ann", Some((host.as_str(), LeaseState::Claimed)))
        .await;
    store.goes();
    // Pending, it may come to nothing; standing, it proves its host.
    assert!(house.tried("ann", "t2").await.is_err());
    hold.stood();
    let (back, reason, _second) = house.tried("ann", "t3").await.unwrap();
    assert_eq!((back, reason), (host, Reason::Degraded));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_loss_nobody_is_placed_before_the_leases_of_open_tunnels_are_back() {
    let (house, store) = house(&["a", "b"], Degraded::Refuse).await;
    let mut open = Vec::new();
    for n in 0..20 {
        let (host, hold) = house.place(&format!("user{n}"), &format!("t{n}")).await;
        hold.stood();
        open.push((host, hold));
    }
    for (n, (host, _)) in open.iter().enumerate() {
        let live = Some((host.as_str(), LeaseState::Live));
        house.lease_becomes(&format!("user{n}"), live).await;
    }
    // A standby takes over that has not heard of any of them.
    store.goes();
    for n in 0..20 {
        let user = format!("user{n}");
        store
            .put(&user, |record| *record = LeaseRecord::default())
            .await;
    }
    assert!(house.broker.gate().shut().is_some());
    store.comes_back();
    let (_, _, _hold) = house.tried("bob", "late").await.unwrap();
    for (n, (host, _)) in open.iter().enumerate() {
        let record = house.record(&format!("user{n}")).await;
        let view = record.view(&"office".into(), house.broker.clock.now());
        let view = view.unwrap();
        assert_eq!((view.host, view.state), (host, LeaseState::Live), "user{n}");
    }
    assert_eq!(house.broker.gate().shut(), None);
    assert!(house.broker.gate().openings() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_held_elsewhere_by_then_stays_there_and_is_told() {
    let (house, store) = house(&["a", "b"], Degraded::Refuse).await;
    let (host, hold) = house.place("ann", "t1").await;
    hold.stood();
    house
        .lease_becomes("ann", Some((host.as_str(), LeaseState::Live)))
        .await;
    store.goes();
    let other = HostId::from(if host.as_str() == "a" { "b" } else { "a" });
    let now = house.broker.clock.now();
    store
        .put("ann", |record| {
            *record = LeaseRecord::default();
            assert!(record.claim(&"office".into(), &other, &"there".into(), Trust::Plain, now));
        })
        .await;
    store.comes_back();
    let told = async {
        while house.broker.gate().elsewhere() == 0 || house.broker.gate().shut().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), told)
        .await
        .unwrap();
    let record = house.record("ann").await;
    let view = record.view(&"office".into(), now).unwrap();
    assert_eq!(*view.host, other);
    assert_eq!(house.seats(), 1, "nobody was moved");
    drop(hold);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failover_lost_is_put_back_by_whoever_remembers_it() {
    let (house, store) = house(&["a", "b", "c", "d"], Degraded::Refuse).await;
    let host = house.leaves("ann", "t1").await;
    store.goes();
    store
        .put("ann", |record| *record = LeaseRecord::default())
        .await;
    store.comes_back();
    let (back, reason, _hold) = house.tried("ann", "t2").await.unwrap();
    assert_eq!((&back, reason), (&host, Reason::Lease));
    let record = house.record("ann").await;
    let now = house.broker.clock.now();
    assert!(record.last(&"office".into(), now).is_some(), "{record:?}");
}
