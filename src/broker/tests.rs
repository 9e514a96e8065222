//! Claims: one user one host, whoever else writes; what a hold leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::placing::PENDING_PAUSE;
use super::*;
use crate::placement::{
    Carriers, Claims, Directory, Farm, FarmId, FarmOverrides, HISTORY, Host, HostId, LeaseRecord,
    LeaseState, Mode, ParameterValues, Resource, ResourceKind, Rules, Trust, TunnelId,
};
use crate::store::{Answer as StoreAnswer, Embedded, Footing, Replaced, Version, Versioned};

mod again;
mod attempts;
mod away;
mod commits;
mod doubt;
mod known;
mod names;
mod reload;
mod reports;
mod start;
mod visits;
mod waiting;

fn directory(hosts: &[&str]) -> Arc<Directory> {
    ruled(hosts, Rules::default())
}

fn ruled(hosts: &[&str], rules: Rules) -> Arc<Directory> {
    let host = |id: &&str| Host {
        id: HostId::from(*id),
        address: format!("{id}.example.com"),
        port: 3389,
        farm_ids: vec!["office".into()],
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    };
    let farm = Farm {
        id: "office".into(),
        name: "Office".to_owned(),
        enabled: true,
        agent_ids: Vec::new(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    let resource = Resource {
        id: "desktop".into(),
        name: "Desktop".to_owned(),
        kind: ResourceKind::Desktop,
        farm_id: Some("office".into()),
        enabled: true,
        guacamole_connection_id: None,
        guacamole_connection_name: None,
        source: None,
        hostnames: Vec::new(),
        load_balance_info: None,
        attempt_deadline: None,
        keep_parameters: BTreeSet::new(),
        parameters: ParameterValues::default(),
    };
    let hosts = hosts.iter().map(host);
    Arc::new(Directory::new(rules, hosts, [farm], [resource]))
}

fn request(user: &str) -> Request {
    signed_in(user, "")
}

/// Somebody who is logged in to Guacamole as `login`.
fn signed_in(user: &str, login: &str) -> Request {
    Request {
        carriers: Carriers {
            resource: Some("desktop".into()),
            ..Carriers::default()
        },
        claims: Claims {
            username: user.to_owned(),
            name: login.to_owned(),
            ..Claims::default()
        },
        ..Request::default()
    }
}

fn key(user: &str) -> LeaseKey {
    LeaseKey::of_user(&crate::placement::UserKey::new(user, "").unwrap())
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// A store that lets another writer in before each of the first writes.
struct Contended {
    inner: Embedded,
    left: AtomicUsize,
    intruder: LeaseRecord,
}

impl Store for Contended {
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
            let turn = self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if turn.is_ok() {
                self.inner
                    .replace(key, expected, self.intruder.clone(), None)
                    .await?;
            }
            self.inner.replace(key, expected, record, footing).await
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

pub(super) struct House {
    pub(super) broker: Broker,
    pub(super) store: Arc<dyn Store>,
    pub(super) fleet: Arc<Fleet>,
    _folder: tempfile::TempDir,
}

impl House {
    pub(super) async fn new(hosts: &[&str]) -> Self {
        Self::with(hosts, |embedded| Arc::new(embedded)).await
    }

    pub(super) async fn ruled(hosts: &[&str], change: impl FnOnce(&mut Rules)) -> Self {
        let mut rules = Rules::default();
        change(&mut rules);
        Self::open(ruled(hosts, rules), |embedded| Arc::new(embedded)).await
    }

    async fn with(hosts: &[&str], wrap: impl FnOnce(Embedded) -> Arc<dyn Store>) -> Self {
        Self::open(directory(hosts), wrap).await
    }

    async fn open(
        directory: Arc<Directory>,
        wrap: impl FnOnce(Embedded) -> Arc<dyn Store>,
    ) -> Self {
        Self::open_for(directory, Degraded::Refuse, wrap).await
    }

    async fn open_for(
        directory: Arc<Directory>,
        degraded: Degraded,
        wrap: impl FnOnce(Embedded) -> Arc<dyn Store>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = wrap(Embedded::open(&folder.path().join("leases.redb")).unwrap());
        let fleet = Fleet::new(Arc::clone(&directory));
        let clock = Clock::start();
        for host in directory.hosts() {
            fleet.note_probe(&host.id, true, clock.now());
        }
        let opened = Broker::open_for(Arc::clone(&fleet), Arc::clone(&store), clock, degraded);
        let (broker, keeper) = opened.await.unwrap();
        tokio::spawn(keeper.run());
        Self {
            broker,
            store,
            fleet,
            _folder: folder,
        }
    }

    async fn place(&self, user: &str, tunnel: &str) -> (HostId, Hold) {
        self.place_as(&request(user), tunnel).await
    }

    async fn place_as(&self, request: &Request, tunnel: &str) -> (HostId, Hold) {
        let placed = self.broker.place(request, &tunnel.into(), in_time()).await;
        let Answer { decision, hold, .. } = placed.unwrap();
        match decision.outcome {
            Outcome::Placed(placement) => (placement.host, hold.unwrap()),
            other => panic!("{other:?}"),
        }
    }

    async fn outcome(&self, user: &str, tunnel: &str) -> Outcome {
        let placed = self
            .broker
            .place(&request(user), &tunnel.into(), in_time())
            .await;
        placed.unwrap().decision.outcome
    }

    /// The tunnels that are counted on all hosts together.
    fn seats(&self) -> usize {
        let snapshot = self.fleet.snapshot();
        snapshot.hosts.values().map(|view| view.tunnels.len()).sum()
    }

    pub(super) async fn record(&self, user: &str) -> LeaseRecord {
        let key = LeaseKey::of_user(&crate::placement::UserKey::new(user, "").unwrap());
        self.store.read(&key).await.unwrap().record
    }

    /// Waits until the user's lease looks as described: the keeper writes a
    /// moment after it was told.
    pub(super) async fn lease_becomes(&self, user: &str, wanted: Option<(&str, LeaseState)>) {
        let office = FarmId::from("office");
        let wait = async {
            loop {
                let record = self.record(user).await;
                let view = record.view(&office, self.broker.clock.now());
                let seen = view.map(|view| (view.host.to_string(), view.state));
                let wanted = wanted.map(|(host, state)| (host.to_owned(), state));
                if seen == wanted {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        assert!(waited.is_ok(), "lease is {:?}", self.record(user).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connects_of_one_user_at_one_instant_land_on_one_host() {
    let house = House::new(&["a", "b", "c", "d"]).await;
    let mut connects = JoinSet::new();
    for n in 0..32 {
        let broker = house.broker.clone();
        connects.spawn(async move {
            let deadline = Instant::now() + Duration::from_secs(10);
            let tunnel = TunnelId::from(format!("t{n}"));
            broker
                .place(&request("ann"), &tunnel, deadline)
                .await
                .unwrap()
        });
    }
    let answers = connects.join_all().await;
    let hosts: BTreeSet<_> = answers
        .iter()
        .map(|answer| match &answer.decision.outcome {
            Outcome::Placed(placement) => placement.host.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(hosts.len(), 1, "{hosts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_come_at_one_instant_are_spread_by_the_seats_taken() {
    let house = House::new(&["a", "b", "c", "d"]).await;
    let mut connects = JoinSet::new();
    for n in 0..40 {
        let broker = house.broker.clone();
        connects.spawn(async move {
            let deadline = Instant::now() + Duration::from_secs(10);
            let user = format!("user{n}");
            broker
                .place(&request(&user), &TunnelId::from(user), deadline)
                .await
                .unwrap()
        });
    }
    let _answers = connects.join_all().await;
    let snapshot = house.fleet.snapshot();
    let counts: Vec<_> = snapshot
        .hosts
        .values()
        .map(|view| view.tunnels.len())
        .collect();
    assert_eq!(counts, [10, 10, 10, 10]);
}

#[tokio::test]
async fn a_lost_race_decides_again_on_what_the_winner_wrote() {
    let intruder = {
        let mut record = LeaseRecord::default();
        let office = FarmId::from("office");
        let now = Clock::start().now();
        assert!(record.claim(&office, &"b".into(), &"other".into(), Trust::Plain, now));
        record
    };
    for _ in 0..8 {
        let intruder = intruder.clone();
        let house = House::with(&["a", "b"], |inner| {
            let left = AtomicUsize::new(1);
            Arc::new(Contended {
                inner,
                left,
                intruder,
            })
        });
        let house = house.await;
        // Whoever is to win the tie by score: the intruder's claim rules.
        let (host, _hold) = house.place("ann", "t1").await;
        assert_eq!(host, HostId::from("b"));
    }
}

#[tokio::test]
async fn a_hold_that_stood_leaves_a_lingering_lease() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("ann", "t1").await;
    house
        .lease_becomes("ann", Some(("a", LeaseState::Claimed)))
        .await;
    hold.stood();
    house
        .lease_becomes("ann", Some(("a", LeaseState::Live)))
        .await;
    drop(hold);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
}

#[tokio::test]
async fn a_hold_that_never_stood_leaves_nothing_behind() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("ann", "t1").await;
    drop(hold);
    house.lease_becomes("ann", None).await;
    let snapshot = house.fleet.snapshot();
    assert!(snapshot.hosts.values().all(|view| view.tunnels.is_empty()));
}

#[tokio::test]
async fn a_return_that_fails_finds_the_older_lease_as_it_was() {
    let house = House::new(&["a", "b"]).await;
    let (first, hold) = house.place("ann", "t1").await;
    hold.stood();
    drop(hold);
    let lingering = Some((first.as_str(), LeaseState::Lingering));
    house.lease_becomes("ann", lingering).await;
    let (again, hold) = house.place("ann", "t2").await;
    assert_eq!(again, first);
    drop(hold);
    house.lease_becomes("ann", lingering).await;
}

#[tokio::test]
async fn leases_of_an_earlier_life_linger_and_bare_claims_are_given_back() {
    let house = House::new(&["a", "b"]).await;
    let (stood_on, stood) = house.place("ann", "t1").await;
    let (_, claimed) = house.place("bob", "t2").await;
    stood.stood();
    house
        .lease_becomes("ann", Some((stood_on.as_str(), LeaseState::Live)))
        .await;
    // The process dies: nobody tells the store anything any more.
    std::mem::forget((stood, claimed));
    let clock = Clock::start();
    let fleet = Fleet::new(directory(&["a", "b"]));
    let next = Broker::open(Arc::clone(&fleet), Arc::clone(&house.store), clock).await;
    let (_broker, _keeper) = next.unwrap();
    let lingering = Some((stood_on.as_str(), LeaseState::Lingering));
    house.lease_becomes("ann", lingering).await;
    house.lease_becomes("bob", None).await;
    assert_eq!(fleet.snapshot().hosts[&stood_on].lingering.len(), 1);
}

#[tokio::test]
async fn a_fleet_that_is_not_probed_in_time_times_out() {
    let house = House::new(&["a"]).await;
    let blind = Fleet::new(directory(&["a"]));
    let broker = Broker {
        fleet: blind,
        ..house.broker.clone()
    };
    let deadline = Instant::now() + Duration::from_millis(50);
    let placed = broker.place(&request("ann"), &"t1".into(), deadline).await;
    assert_eq!(placed.unwrap_err().error, PlaceError::TimedOut);
}

#[tokio::test]
async fn an_open_tunnel_whose_lease_was_lost_claims_it_again() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("ann", "t1").await;
    house
        .lease_becomes("ann", Some(("a", LeaseState::Claimed)))
        .await;
    let (key, known) = house.store.after(None, 10_000).await.unwrap().remove(0);
    let lost = house
        .store
        .replace(&key, known.version, LeaseRecord::default(), None);
    assert!(lost.await.unwrap().is_done());
    house.lease_becomes("ann", None).await;
    hold.stood();
    house
        .lease_becomes("ann", Some(("a", LeaseState::Live)))
        .await;
    drop(hold);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
}

#[tokio::test]
async fn a_lease_that_ran_out_leaves_the_store() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place("ann", "t1").await;
    hold.stood();
    drop(hold);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
    // The keeper looks once a second; the moment is far ahead for it.
    let far = house.broker.clock.now() + Duration::from_secs(901);
    // The picture follows the store a moment later.
    let swept = loop {
        let swept = house.fleet.expire_leases(far);
        if !swept.is_empty() {
            break swept;
        }
        tokio::task::yield_now().await;
    };
    for key in swept {
        let expired = house
            .broker
            .leases
            .update(&key, |record| record.expire(far));
        expired.await.unwrap();
    }
    let record = house.record("ann").await;
    assert_eq!(record.views(house.broker.clock.now()).count(), 0);
    // Where she was last is no lease, and goes in its own time.
    house.broker.leases.sweep(far + HISTORY).await.unwrap();
    assert_eq!(
        house.store.after(None, 10_000).await.unwrap(),
        [],
        "history ends, too"
    );
}
