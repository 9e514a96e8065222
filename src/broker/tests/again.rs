//! A tunnel whose host failed it is placed once more: its claim moves in one
//! write, and what it had is not left behind.

use std::sync::Mutex;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;
use crate::placement::{Exclusion, Reason, Timestamp};
use crate::store::StoreError;

/// A store that remembers what was written, and may fail or wait.
struct Watched {
    inner: Embedded,
    written: Mutex<Vec<LeaseRecord>>,
    fails: std::sync::atomic::AtomicBool,
    /// Writes that may pass; they wait for a permit before and after.
    before: Semaphore,
    after: Semaphore,
    entered: Semaphore,
}

impl Store for Watched {
    fn read<'a>(&'a self, key: &'a LeaseKey) -> StoreAnswer<'a, Versioned> {
        self.inner.read(key)
    }

    fn replace<'a>(
        &'a self,
        key: &'a LeaseKey,
        expected: Version,
        record: LeaseRecord,
        footing: Option<Footing>,
    ) -> StoreAnswer<'a, Replaced> {
        Box::pin(async move {
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Closed);
            }
            self.entered.add_permits(1);
            self.before.acquire().await.unwrap().forget();
            let replaced = self
                .inner
                .replace(key, expected, record.clone(), footing)
                .await?;
            if replaced.is_done() {
                self.written.lock().unwrap().push(record);
            }
            self.after.acquire().await.unwrap().forget();
            Ok(replaced)
        })
    }

    fn after<'a>(
        &'a self,
        key: Option<&'a LeaseKey>,
        most: usize,
    ) -> StoreAnswer<'a, Vec<(LeaseKey, Versioned)>> {
        self.inner.after(key, most)
    }
}

const MANY: usize = 1 << 20;

impl Watched {
    /// From here on no write passes that point.
    fn shut(gate: &Semaphore) {
        gate.forget_permits(MANY);
    }

    fn open(gate: &Semaphore) {
        gate.add_permits(MANY);
    }

    fn take_written(&self) -> Vec<LeaseRecord> {
        std::mem::take(&mut self.written.lock().unwrap())
    }
}

async fn watched(hosts: &[&str], rules: Rules) -> (House, Arc<Watched>) {
    let mut seen = None;
    let house = House::open(ruled(hosts, rules), |inner| {
        let store = Arc::new(Watched {
            inner,
            written: Mutex::default(),
            fails: false.into(),
            before: Semaphore::new(MANY),
            after: Semaphore::new(MANY),
            entered: Semaphore::new(0),
        });
        seen = Some(Arc::clone(&store));
        store
    });
    let house = house.await;
    (house, seen.unwrap())
}

fn tried<const N: usize>(hold: Hold, hosts: [&HostId; N]) -> Again {
    Again {
        hold: Some(hold),
        tried: hosts.into_iter().cloned().collect(),
    }
}

impl House {
    async fn again(&self, user: &str, tunnel: &str, again: Again) -> Answer {
        let (request, tunnel) = (request(user), tunnel.into());
        let placed = self.broker.place_again(&request, &tunnel, again, in_time());
        placed.await.unwrap()
    }

    fn holders(&self, record: &LeaseRecord) -> Vec<(String, String)> {
        let (office, now) = (FarmId::from("office"), self.broker.clock.now());
        let host = record.view(&office, now).map(|view| view.host.to_string());
        let holders = record.holders(&office, now);
        holders
            .map(|tunnel| (tunnel.to_string(), host.clone().unwrap_or_default()))
            .collect()
    }

    async fn no_seats_left(&self) {
        let wait = async {
            while self.seats() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait)
            .await
            .unwrap();
    }

    /// The lease of somebody who left it on this host a moment ago.
    async fn left_on(&self, user: &str, host: &HostId) {
        let now = self.broker.clock.now();
        let user = crate::placement::UserKey::new(user, "").unwrap();
        let key = LeaseKey::of_user(&user);
        let changed = self.broker.leases.update(&key, |record| {
            let tunnel = TunnelId::from("before");
            assert!(record.claim(&"office".into(), host, &tunnel, Trust::Plain, now));
            record.stood(&tunnel, &user, Duration::from_secs(900), now);
            record.end(&tunnel, Duration::from_secs(900), now);
        });
        changed.await.unwrap();
    }

    /// Our probe of that host fails since a minute.
    fn fails(&self, host: &HostId) -> Timestamp {
        let now = self.broker.clock.now();
        self.fleet
            .note_probe(host, false, now - Duration::from_secs(60));
        now
    }
}

fn host_of(answer: &Answer) -> (&HostId, Reason) {
    match &answer.decision.outcome {
        Outcome::Placed(placement) => (&placement.host, placement.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_claim_moves_in_one_write_and_is_not_taken_back() {
    let (house, store) = watched(&["a", "b"], Rules::default()).await;
    let (failed, hold) = house.place("ann", "t1").await;
    store.take_written();
    let answer = house.again("ann", "t1", tried(hold, [&failed])).await;
    let (host, reason) = host_of(&answer);
    assert_eq!(reason, Reason::Score);
    assert_ne!(*host, failed);
    let written: Vec<_> = store.take_written();
    let held = (String::from("t1"), host.to_string());
    let holders: Vec<_> = written.iter().map(|r| house.holders(r)).collect();
    assert_eq!(holders, [[held.clone()]]);
    assert_eq!(house.seats(), 1);
    let host = host.clone();
    let hold = answer.hold.unwrap();
    hold.stood();
    let live = Some((host.as_str(), LeaseState::Live));
    house.lease_becomes("ann", live).await;
    // What the keeper wrote meanwhile never lacked the tunnel.
    let lacks_it = |record: &LeaseRecord| !house.holders(record).contains(&held);
    assert!(!store.take_written().iter().any(lacks_it));
    drop(hold);
    let lingers = Some((host.as_str(), LeaseState::Lingering));
    house.lease_becomes("ann", lingers).await;
    assert_eq!(house.seats(), 0);
}

#[tokio::test]
async fn a_tunnel_may_be_placed_again_as_often_as_there_are_hosts() {
    let house = House::new(&["a", "b", "c"]).await;
    let (first, hold) = house.place("ann", "t1").await;
    let mut again = tried(hold, [&first]);
    for _ in 0..2 {
        let answer = house.again("ann", "t1", again).await;
        let (host, _) = host_of(&answer);
        let mut tried = answer_tried(&answer);
        assert!(tried.insert(host.clone()), "{tried:?}");
        again = Again {
            hold: answer.hold,
            tried,
        };
        assert_eq!(house.seats(), 1);
    }
    assert_eq!(again.tried.len(), 3);
    let answer = house.again("ann", "t1", again).await;
    let office = FarmId::from("office");
    assert_eq!(answer.refusal(), Some(&Refusal::Unreachable(office)));
    assert!(answer.hold.is_none());
    assert_eq!(house.seats(), 0);
    house.lease_becomes("ann", None).await;
}

fn answer_tried(answer: &Answer) -> BTreeSet<HostId> {
    let candidates = answer.decision.candidates.iter();
    let tried = candidates.filter(|c| c.exclusion == Some(Exclusion::Tried));
    tried.map(|c| c.host.clone()).collect()
}

#[tokio::test]
async fn an_older_lease_that_the_claim_replaced_is_there_again() {
    let house = House::new(&["a", "b"]).await;
    let (a, b) = (HostId::from("a"), HostId::from("b"));
    house.left_on("ann", &a).await;
    house.fails(&a);
    let (host, hold) = house.place("ann", "t1").await;
    assert_eq!(host, b);
    house.fleet.note_probe(&a, true, house.broker.clock.now());
    let answer = house.again("ann", "t1", tried(hold, [&b])).await;
    assert_eq!(host_of(&answer), (&a, Reason::Lease));
    // And one that leads nowhere leaves it as it was.
    house.fails(&a);
    let hold = answer.hold.unwrap();
    let answer = house.again("ann", "t1", tried(hold, [&a, &b])).await;
    assert!(answer.refusal().is_some() && answer.hold.is_none());
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
    assert_eq!(house.seats(), 0);
}

#[tokio::test]
async fn another_tunnel_of_the_user_decides_alone() {
    let house = House::new(&["a", "b"]).await;
    let (host, one) = house.place("ann", "t1").await;
    let (_, other) = house.place("ann", "t2").await;
    let answer = house.again("ann", "t1", tried(one, [&host])).await;
    assert_eq!(host_of(&answer), (&host, Reason::Tunnel));
    assert_eq!(house.seats(), 2);
    drop(other);
    // The other's end is written a moment later.
    let wait = async {
        while house.holders(&house.record("ann").await).len() != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .unwrap();
    let one = answer.hold.unwrap();
    let answer = house.again("ann", "t1", tried(one, [&host])).await;
    assert_eq!(host_of(&answer).1, Reason::Score);
}

#[tokio::test]
async fn what_it_has_counts_in_no_bound() {
    let house = House::ruled(&["a"], |rules| {
        rules.max_tunnels_per_user = Some(1);
        rules.max_pending_logons = 1;
        rules.max_sessions = Some(1);
    });
    let house = house.await;
    let (host, hold) = house.place("ann", "t1").await;
    let answer = house.again("ann", "t1", tried(hold, [])).await;
    assert_eq!(host_of(&answer), (&host, Reason::Score));
    assert_eq!(house.seats(), 1);
}

#[tokio::test]
async fn who_is_not_known_is_placed_again_too() {
    let house = House::new(&["a", "b"]).await;
    let (host, hold) = house.place("", "t1").await;
    let answer = house.again("", "t1", tried(hold, [&host])).await;
    assert_ne!(*host_of(&answer).0, host);
    assert_eq!(house.seats(), 1);
    drop(answer);
    assert_eq!(house.seats(), 0);
}

#[tokio::test]
async fn a_lost_race_decides_again_and_keeps_what_it_has_until_then() {
    let (house, store) = watched(&["a", "b", "c"], Rules::default()).await;
    let (failed, hold) = house.place("ann", "t1").await;
    Watched::shut(&store.before);
    let entered = store.entered.available_permits();
    let moving = moves(&house, tried(hold, [&failed]));
    until_entered(&store, entered).await;
    // Somebody is faster, on the host that failed her.
    let key = LeaseKey::of_user(&crate::placement::UserKey::new("ann", "").unwrap());
    let known = store.inner.read(&key).await.unwrap();
    let mut record = known.record;
    let now = house.broker.clock.now();
    assert!(record.claim(&"office".into(), &failed, &"t2".into(), Trust::Plain, now));
    let wrote = store.inner.replace(&key, known.version, record, None).await;
    assert!(wrote.unwrap().is_done());
    Watched::open(&store.before);
    let answer = moving.await.unwrap().unwrap();
    assert_eq!(host_of(&answer), (&failed, Reason::Tunnel));
    assert_eq!(house.seats(), 1);
    let mut holders = house.holders(&house.record("ann").await);
    holders.sort();
    let both = ["t1", "t2"].map(|tunnel| (tunnel.to_owned(), failed.to_string()));
    assert_eq!(holders, both);
}

fn moves(house: &House, again: Again) -> JoinHandle<Result<Answer, Unplaced>> {
    let broker = house.broker.clone();
    tokio::spawn(async move {
        let (request, tunnel) = (request("ann"), "t1".into());
        broker
            .place_again(&request, &tunnel, again, in_time())
            .await
    })
}

async fn until_entered(store: &Watched, before: usize) {
    while store.entered.available_permits() == before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn cancelled_in_the_middle_it_leaves_nothing_behind() {
    for written in [false, true] {
        let (house, store) = watched(&["a", "b"], Rules::default()).await;
        let (failed, hold) = house.place("ann", "t1").await;
        let gate = match written {
            true => &store.after,
            false => &store.before,
        };
        Watched::shut(gate);
        let entered = store.entered.available_permits();
        store.take_written();
        let moving = moves(&house, tried(hold, [&failed]));
        until_entered(&store, entered).await;
        while written && store.written.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        moving.abort();
        assert!(moving.await.unwrap_err().is_cancelled());
        Watched::open(gate);
        house.no_seats_left().await;
        house.lease_becomes("ann", None).await;
    }
}

#[tokio::test]
async fn out_of_time_it_leaves_nothing_behind() {
    let (house, store) = watched(&["a", "b"], Rules::default()).await;
    let (failed, hold) = house.place("ann", "t1").await;
    Watched::shut(&store.before);
    let soon = Instant::now() + Duration::from_millis(50);
    let (request, tunnel) = (request("ann"), "t1".into());
    let again = tried(hold, [&failed]);
    let placed = house
        .broker
        .place_again(&request, &tunnel, again, soon)
        .await;
    assert_eq!(placed.unwrap_err().error, PlaceError::TimedOut);
    Watched::open(&store.before);
    house.no_seats_left().await;
    house.lease_becomes("ann", None).await;
}

#[tokio::test]
async fn a_store_that_fails_ends_what_it_had_once_it_can_be_written() {
    let (house, store) = watched(&["a", "b"], Rules::default()).await;
    let (failed, hold) = house.place("ann", "t1").await;
    store.fails.store(true, Ordering::SeqCst);
    let placed = moves(&house, tried(hold, [&failed])).await.unwrap();
    assert_eq!(
        placed.unwrap_err().error,
        PlaceError::Store(StoreError::Closed)
    );
    assert_eq!(house.seats(), 0);
    store.fails.store(false, Ordering::SeqCst);
    house.lease_becomes("ann", None).await;
}

#[tokio::test]
async fn under_another_key_the_earlier_claim_ends_beside_the_new_one() {
    let (house, store) = watched(&["a", "b"], Rules::default()).await;
    let (failed, hold) = house.place("ann", "t1").await;
    let rules = Rules {
        single_session_per_user: false,
        ..Rules::default()
    };
    let now = house.broker.clock.now();
    house.fleet.apply(ruled(&["a", "b"], rules), now);
    let answer = house.again("ann", "t1", tried(hold, [&failed])).await;
    let host = host_of(&answer).0.clone();
    assert_ne!(host, failed);
    house.lease_becomes("ann", None).await;
    answer.hold.as_ref().unwrap().stood();
    let key = answer.decision.key.clone().unwrap();
    let live = async {
        loop {
            let record = store.inner.read(&key).await.unwrap().record;
            let office = FarmId::from("office");
            let view = record.view(&office, house.broker.clock.now());
            if view.is_some_and(|v| v.state == LeaseState::Live && *v.host == host) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), live)
        .await
        .unwrap();
    assert_eq!(house.seats(), 1);
}
