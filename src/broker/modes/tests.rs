//! Orders are written, then done, then answered; the last host of a farm is
//! not taken by accident.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::broker::{Answer, Broker, Keeper};
use crate::placement::{
    Carriers, Claims, Farm, FarmOverrides, Host, Outcome, ParameterValues, Request, Rules,
    Timestamp, TunnelId,
};
use crate::store::{Answer as StoreAnswer, Document, Embedded};

const MINUTE: Duration = Duration::from_secs(60);

fn directory(hosts: &[&str]) -> Arc<Directory> {
    let host = |id: &&str| Host {
        id: (*id).into(),
        address: format!("{id}.example.com"),
        port: 3389,
        farm_ids: vec!["office".into()],
        tags: BTreeMap::new(),
        mode: Mode::Online,
        max_sessions: None,
        max_pending_logons: None,
        parameters: ParameterValues::default(),
    };
    let farm = |id: &str, enabled| Farm {
        id: id.into(),
        name: id.to_owned(),
        enabled,
        agent_ids: hosts.iter().map(|id| (*id).into()).collect(),
        required_tags: BTreeMap::new(),
        overrides: FarmOverrides::default(),
    };
    let empty = Farm {
        agent_ids: Vec::new(),
        ..farm("empty", true)
    };
    let farms = [farm("office", true), farm("closed", false), empty];
    let rules = Rules {
        default_farm: Some("office".into()),
        ..Rules::default()
    };
    Arc::new(Directory::new(rules, hosts.iter().map(host), farms, []))
}

struct House {
    store: Arc<Embedded>,
    fleet: Arc<Fleet>,
    modes: Modes,
    clock: Clock,
    _folder: tempfile::TempDir,
}

impl House {
    async fn of(hosts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Embedded::open(&folder.path().join("store.redb")).unwrap());
        let (fleet, clock) = (Fleet::new(directory(hosts)), Clock::start());
        for host in hosts {
            fleet.note_probe(&(*host).into(), true, clock.now());
        }
        let modes = Modes::open(store.clone(), Arc::clone(&fleet), None, clock);
        Self {
            modes: modes.await.unwrap(),
            store,
            fleet,
            clock,
            _folder: folder,
        }
    }

    async fn change(&self, target: Target, wish: Wish) -> Result<Changed, ModeError> {
        self.modes.change(target, wish, root()).await
    }

    fn mode_at(&self, host: &str, now: Timestamp) -> Mode {
        self.fleet.snapshot().hosts[&HostId::from(host)].mode(now)
    }

    fn mode(&self, host: &str) -> Mode {
        self.mode_at(host, self.clock.now())
    }

    async fn broker(&self) -> (Broker, Keeper) {
        let opened = Broker::open(Arc::clone(&self.fleet), self.store.clone(), self.clock);
        opened.await.unwrap()
    }
}

fn root() -> Actor {
    Actor::User {
        uid: Some(0),
        name: Some("root".to_owned()),
    }
}

fn host(id: &str) -> Target {
    Target::Host(id.into())
}

fn farm(id: &str) -> Target {
    Target::Farm(id.into())
}

fn to(mode: Mode) -> Wish {
    Wish {
        mode,
        ..Wish::default()
    }
}

fn forced(mode: Mode) -> Wish {
    Wish {
        force: true,
        ..to(mode)
    }
}

async fn place(broker: &Broker, user: &str) -> Answer {
    let request = Request {
        carriers: Carriers {
            any_host: true,
            ..Carriers::default()
        },
        claims: Claims {
            username: user.to_owned(),
            ..Claims::default()
        },
        ..Request::default()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let tunnel = TunnelId::from(user);
    broker.place(&request, &tunnel, deadline).await.unwrap()
}

#[tokio::test]
async fn an_answered_order_holds_at_once_and_in_the_next_life() {
    let house = House::of(&["a", "b"]).await;
    let changed = house.change(host("a"), to(Mode::Drain)).await.unwrap();
    assert_eq!(house.mode("a"), Mode::Drain);
    assert_eq!(changed.hosts[0].before, Mode::Online);
    assert_eq!(changed.hosts[0].mode, Mode::Drain);
    assert_eq!(changed.emptied, []);

    let next = Fleet::new(directory(&["a", "b"]));
    let modes = Modes::open(house.store.clone(), Arc::clone(&next), None, house.clock);
    modes.await.unwrap();
    let view = &next.snapshot().hosts[&HostId::from("a")];
    assert_eq!(view.mode(house.clock.now()), Mode::Drain);
    let order = view.modes.orders.at(house.clock.now()).unwrap();
    assert_eq!(**order, changed.order);
    assert_eq!(order.by, root());
}

#[tokio::test]
async fn the_last_usable_host_of_an_enabled_farm_asks_for_force() {
    let house = House::of(&["a", "b"]).await;
    house.change(host("a"), to(Mode::Drain)).await.unwrap();
    for mode in [Mode::Drain, Mode::Maintenance] {
        let error = house.change(host("b"), to(mode)).await.unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("farm office would have") && said.contains("with force"),
            "{said}"
        );
        assert!(!said.contains("closed"), "{said}");
    }
    assert_eq!(house.mode("b"), Mode::Online);
    // Of a host that is in drain already nothing more can be taken.
    house
        .change(host("a"), to(Mode::Maintenance))
        .await
        .unwrap();
    let changed = house.change(host("b"), forced(Mode::Drain)).await.unwrap();
    assert_eq!(changed.emptied[0].farm, "office".into());
    assert_eq!(house.mode("b"), Mode::Drain);
    house.change(host("b"), to(Mode::Online)).await.unwrap();
}

#[tokio::test]
async fn a_host_that_is_down_is_nobodys_reserve() {
    let house = House::of(&["a", "b"]).await;
    house
        .fleet
        .note_probe(&"a".into(), false, house.clock.now());
    let error = house.change(host("b"), to(Mode::Drain)).await.unwrap_err();
    assert!(matches!(error, ModeError::LastHost { .. }), "{error}");
    // The one that is down serves nobody as it is.
    house.change(host("a"), to(Mode::Drain)).await.unwrap();
}

#[tokio::test]
async fn an_announced_order_is_weighed_at_the_time_it_will_hold() {
    let house = House::of(&["a", "b"]).await;
    let now = house.clock.now();
    let tonight = |force| Wish {
        from: Some(now + 60 * MINUTE),
        until: Some(now + 120 * MINUTE),
        force,
        ..to(Mode::Maintenance)
    };
    house.change(host("a"), tonight(false)).await.unwrap();
    assert_eq!(house.mode("a"), Mode::Online);
    // Both at once tonight, and one from now on over the night of the other.
    let error = house.change(host("b"), tonight(false)).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("on farm office would"), "{said}");
    let error = house.change(host("b"), to(Mode::Drain)).await.unwrap_err();
    assert!(matches!(error, ModeError::LastHost { .. }), "{error}");
    // Until the night begins it may go.
    let until = Wish {
        until: Some(now + 60 * MINUTE),
        ..to(Mode::Drain)
    };
    house.change(host("b"), until).await.unwrap();
    assert_eq!(house.mode("b"), Mode::Drain);
    assert_eq!(house.mode_at("b", now + 60 * MINUTE), Mode::Online);
    assert_eq!(house.mode_at("a", now + 60 * MINUTE), Mode::Maintenance);
    assert_eq!(house.mode_at("a", now + 120 * MINUTE), Mode::Online);
}

#[tokio::test]
async fn a_farm_is_changed_as_a_whole_or_not_at_all() {
    let house = House::of(&["a", "b", "c"]).await;
    let error = house.change(farm("office"), to(Mode::Drain)).await;
    assert!(matches!(error, Err(ModeError::LastHost { .. })));
    let modes = || ["a", "b", "c"].map(|id| house.mode(id));
    assert_eq!(modes(), [Mode::Online; 3]);
    let before = house.fleet.snapshot().generation;
    let changed = house.change(farm("office"), forced(Mode::Drain)).await;
    assert_eq!(changed.unwrap().hosts.len(), 3);
    assert_eq!(house.fleet.snapshot().generation, before + 1);
    assert_eq!(modes(), [Mode::Drain; 3]);
    house
        .change(farm("office"), to(Mode::Online))
        .await
        .unwrap();
    assert_eq!(modes(), [Mode::Online; 3]);
}

#[tokio::test]
async fn who_is_not_there_is_named_with_who_may_be_meant() {
    let house = House::of(&["rds-1", "rds-2"]).await;
    for (target, said) in [
        (
            host("rsd-1"),
            "host rsd-1 is not configured: was rds-1 meant?",
        ),
        (host("elsewhere"), "host elsewhere is not configured"),
        (
            farm("offcie"),
            "farm offcie is not configured: was office meant?",
        ),
        (farm("empty"), "farm empty has no host"),
    ] {
        let error = house.change(target, to(Mode::Drain)).await.unwrap_err();
        assert_eq!(error.to_string(), said);
    }
}

#[tokio::test]
async fn announcements_have_a_bound_and_online_clears_them() {
    let house = House::of(&["a", "b"]).await;
    let now = house.clock.now();
    let nth = |nth: u32| Wish {
        from: Some(now + nth * 2 * MINUTE),
        until: Some(now + (nth * 2 + 1) * MINUTE),
        ..to(Mode::Drain)
    };
    for n in 1..=16 {
        house.change(host("a"), nth(n)).await.unwrap();
    }
    let error = house.change(host("a"), nth(17)).await.unwrap_err();
    assert!(matches!(error, ModeError::TooManyTimed(_)), "{error}");
    let changed = house.change(host("a"), to(Mode::Online)).await.unwrap();
    assert_eq!(changed.hosts[0].effect.cancelled.len(), 16);
    house.change(host("a"), nth(17)).await.unwrap();
}

/// Documents that another broker writes in between, so many times.
struct Contended {
    inner: Arc<Embedded>,
    left: AtomicUsize,
}

impl Documents for Contended {
    fn documents(&self, kind: Kind) -> StoreAnswer<'_, Vec<Document>> {
        self.inner.documents(kind)
    }

    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> StoreAnswer<'a, Option<Document>> {
        self.inner.document(kind, id)
    }

    fn edit(&self, edits: Vec<Edit>, sync: bool) -> StoreAnswer<'_, Edited> {
        Box::pin(async move {
            let take = |left: usize| left.checked_sub(1);
            let turn = self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
            if turn.is_ok() {
                let orders = Orders::default();
                let (theirs, _) = orders.give(Mode::Online, announced());
                let intrusion = Edit {
                    kind: Kind::Mode,
                    id: "a".to_owned(),
                    expected: None,
                    text: Some(serde_json::to_string(&theirs).unwrap()),
                };
                self.inner.edit(vec![intrusion], true).await?;
            }
            self.inner.edit(edits, sync).await
        })
    }
}

/// What the other broker announces, far from now.
fn announced() -> Order {
    Order {
        mode: Mode::Maintenance,
        by: Actor::User {
            uid: Some(7),
            name: None,
        },
        reason: None,
        message: None,
        at: Timestamp::from_millis(1),
        from: Some(Timestamp::from_millis(u64::MAX - 1)),
        until: None,
        restart_when_drained: false,
        online_after_restart: false,
    }
}

#[tokio::test]
async fn a_conflict_is_tried_again_on_what_the_other_wrote() {
    for (times, done) in [(1, true), (usize::MAX, false)] {
        let house = House::of(&["a", "b"]).await;
        let documents = Arc::new(Contended {
            inner: Arc::clone(&house.store),
            left: AtomicUsize::new(times),
        });
        let modes = Modes::open(documents, Arc::clone(&house.fleet), None, house.clock);
        let modes = modes.await.unwrap();
        let changed = modes.change(host("a"), to(Mode::Drain), root()).await;
        if done {
            // What the other announced is there still.
            let changed = changed.unwrap();
            assert_eq!(*changed.hosts[0].effect.kept[0], announced());
            assert_eq!(house.mode("a"), Mode::Drain);
        } else {
            assert_eq!(changed.unwrap_err(), ModeError::Contended);
            assert_eq!(house.mode("a"), Mode::Online);
        }
    }
}

#[tokio::test]
async fn two_who_drain_the_last_two_hosts_at_once_do_not_both_succeed() {
    let house = House::of(&["a", "b"]).await;
    let (one, other) = tokio::join!(
        house.change(host("a"), to(Mode::Drain)),
        house.change(host("b"), to(Mode::Drain)),
    );
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
}

#[tokio::test]
async fn a_change_nobody_waits_for_any_more_is_done_all_the_same() {
    let house = House::of(&["a", "b"]).await;
    let change = house.change(host("a"), to(Mode::Drain));
    // Long enough to begin and too short to be written.
    let _ = tokio::time::timeout(Duration::ZERO, change).await;
    let until = Instant::now() + Duration::from_secs(20);
    while house.mode("a") != Mode::Drain {
        assert!(Instant::now() < until);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_cannot_be_read_keeps_the_broker_from_starting() {
    let house = House::of(&["a"]).await;
    let edit = Edit {
        kind: Kind::Mode,
        id: "a".to_owned(),
        expected: None,
        text: Some("{\"standing\": {\"mode\": \"asleep\"}}".to_owned()),
    };
    house.store.edit(vec![edit], true).await.unwrap();
    let opened = Modes::open(house.store.clone(), house.fleet.clone(), None, house.clock);
    let said = opened.await.unwrap_err().to_string();
    assert!(said.contains("the mode of host a cannot be read"), "{said}");
}

#[tokio::test]
async fn a_placement_does_not_outlast_maintenance_and_outlasts_drain() {
    let house = House::of(&["a", "b"]).await;
    let (broker, _keeper) = house.broker().await;
    let answer = place(&broker, "ann").await;
    let Outcome::Placed(placement) = &answer.decision.outcome else {
        panic!("{answer:?}");
    };
    let on = Target::Host(placement.host.clone());
    let holds = || broker.still_holds(&answer.decision, &answer.directory);
    assert!(holds());
    house.change(on.clone(), to(Mode::Drain)).await.unwrap();
    assert!(holds(), "it was made before");
    house
        .change(on.clone(), to(Mode::Maintenance))
        .await
        .unwrap();
    assert!(!holds());
    house.change(on, to(Mode::Online)).await.unwrap();
    assert!(holds());
}

#[tokio::test]
async fn a_refusal_knows_the_orders_behind_it() {
    let house = House::of(&["a", "b"]).await;
    let (broker, _keeper) = house.broker().await;
    let wish = Wish {
        reason: Some("new disks".to_owned()),
        ..forced(Mode::Maintenance)
    };
    house.change(farm("office"), wish).await.unwrap();
    let refused = place(&broker, "ann").await;
    let orders = broker.orders_behind(&refused.decision).unwrap();
    assert_eq!(
        orders,
        "a in maintenance by root: new disks; b in maintenance by root: new disks"
    );
    let refusal = refused.refusal().unwrap().to_string();
    assert!(!refusal.contains("disks"), "{refusal}");
}
