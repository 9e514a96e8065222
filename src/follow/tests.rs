//! Several replicas on one store, which is in memory: what one did binds and
//! counts at the others.

mod rooms;
mod shared;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use tokio::time::timeout;

use super::*;
use crate::broker::{Answer, Hold, Target, Wish};
use crate::config::{Secrets, load_text};
use crate::placement::{Carriers, Claims, Directory, Outcome, Refusal, Request, TunnelId};
use crate::reports::Keeping;
use crate::store::Store;
use shared::Shared;

/// One replica, its follower running.
struct Replica {
    store: Arc<Shared>,
    fleet: Arc<Fleet>,
    broker: Broker,
    modes: Modes,
    intake: Intake,
    keys: Keyring,
    commands: Commands,
    directory: Arc<Directory>,
    catch_up: CatchUp,
    clock: Clock,
    stop: CancellationToken,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// So many hosts of one farm, each for so many users.
fn directory(hosts: usize, rules: &str) -> Arc<Directory> {
    let mut text = format!(
        "[broker]\ndefault_farm = \"office\"\n\n[[farms]]\nid = \"office\"\nname = \"Office\"\n{rules}\n"
    );
    text += "[[resources]]\nid = \"desktop\"\nname = \"Desktop\"\nkind = \"desktop\"\nfarm_id = \"office\"\n";
    for host in 0..hosts {
        text += &format!(
            "[[hosts]]\nid = \"h{host}\"\naddress = \"10.0.0.{host}\"\nfarm_ids = [\"office\"]\n"
        );
    }
    load_text("a.toml", &text).unwrap().config.directory
}

impl Replica {
    async fn start(store: Shared, directory: &Arc<Directory>) -> Self {
        Self::at(store, directory, Clock::start()).await
    }

    async fn at(store: Shared, directory: &Arc<Directory>, clock: Clock) -> Self {
        let store = Arc::new(store);
        let fleet = Fleet::new(Arc::clone(directory));
        let me = replica();
        fleet.shares_as(me.clone());
        let secrets = Secrets::default();
        let (keys, _uses) = Keyring::open(store.clone(), &secrets, None, clock)
            .await
            .unwrap();
        let modes = Modes::open(store.clone(), Arc::clone(&fleet), None, clock)
            .await
            .unwrap();
        let (broker, keeper) = Broker::open(Arc::clone(&fleet), store.clone(), clock)
            .await
            .unwrap();
        let catch_up = CatchUp::default();
        let broker = broker.following(catch_up.clone());
        let commands = Commands::open(store.clone(), clock).await.unwrap();
        commands.share();
        let (intake, keeping): (_, Keeping) =
            Intake::open(Arc::clone(&fleet), store.clone(), clock)
                .await
                .unwrap();
        for host in directory.hosts() {
            fleet.note_probe(&host.id, true, clock.now());
        }
        let follower = Follower {
            store: store.clone(),
            catch_up: catch_up.clone(),
            fleet: Arc::clone(&fleet),
            broker: broker.clone(),
            intake: intake.clone(),
            keys: keys.clone(),
            commands: commands.clone(),
            clock,
            rests: std::sync::Arc::default(),
        };
        let guests = GuestList {
            store: store.clone(),
            fleet: Arc::clone(&fleet),
            me,
            clock,
        };
        let stop = CancellationToken::new();
        tokio::spawn(follower.run(stop.clone()));
        tokio::spawn(guests.run(stop.clone()));
        tokio::spawn(keeping.run(stop.clone()));
        tokio::spawn(stop.clone().run_until_cancelled_owned(keeper.run()));
        Self {
            store,
            fleet,
            broker,
            modes,
            intake,
            keys,
            commands,
            directory: Arc::clone(directory),
            catch_up,
            clock,
            stop,
        }
    }

    async fn place(&self, user: Option<&str>, tunnel: &str) -> Answer {
        let request = Request {
            carriers: Carriers {
                resource: Some("desktop".into()),
                ..Carriers::default()
            },
            claims: Claims {
                username: user.unwrap_or_default().to_owned(),
                ..Claims::default()
            },
            ..Request::default()
        };
        let by = Instant::now() + Duration::from_secs(20);
        let tunnel = TunnelId::from(tunnel);
        let placed = self.broker.place(&request, &tunnel, by);
        placed.await.unwrap()
    }

    /// Returns once it is so.
    async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let waited = timeout(Duration::from_secs(60), async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(waited.await.is_ok(), "{what}");
    }

    fn tunnels(&self, host: &str) -> Vec<String> {
        let snapshot = self.fleet.snapshot();
        let view = &snapshot.hosts[&HostId::from(host)];
        let mut ids: Vec<_> = view.tunnels.iter().map(|t| t.tunnel.to_string()).collect();
        ids.sort();
        ids
    }

    async fn order(&self, host: &str, mode: Mode) {
        let wish = Wish {
            mode,
            force: true,
            ..Wish::default()
        };
        let by = Actor::User {
            uid: Some(0),
            name: None,
        };
        let target = Target::Host(host.into());
        self.modes.change(target, wish, by).await.unwrap();
    }
}

fn host(answer: &Answer) -> Option<&str> {
    match &answer.decision.outcome {
        Outcome::Placed(placement) => Some(placement.host.as_str()),
        _ => None,
    }
}

fn hold(answer: Answer) -> Hold {
    answer.hold.unwrap()
}

async fn two(directory: &Arc<Directory>) -> [Replica; 2] {
    let store = Shared::default();
    let other = store.another(1);
    [
        Replica::start(store, directory).await,
        Replica::start(other, directory).await,
    ]
}

#[tokio::test(start_paused = true)]
async fn what_one_placed_counts_at_the_other_before_it_places_anybody() {
    let directory = directory(2, "max_sessions = 1");
    let [one, other] = two(&directory).await;
    let ann = one.place(Some("ann"), "t1").await;
    let bob = other.place(Some("bob"), "t2").await;
    assert!(host(&ann).is_some() && host(&bob).is_some());
    assert_ne!(host(&ann), host(&bob));
    for replica in [&one, &other] {
        let carl = replica.place(Some("carl"), "t3").await;
        assert_eq!(carl.refusal(), Some(&Refusal::Busy("office".into())));
    }
    // Ann leaves, and her session is left behind: nobody counts her tunnel.
    let (first, ann) = (host(&ann).unwrap().to_owned(), hold(ann));
    ann.stood();
    drop(ann);
    other
        .until("her tunnel counts no more", |it| {
            it.tunnels(&first).is_empty()
        })
        .await;
    let view = Arc::clone(&other.fleet.snapshot().hosts[&HostId::from(first.as_str())]);
    assert_eq!(view.lingering.len(), 1, "her lease is known all the same");
    drop(bob);
}

/// Forty users at once, by turns at each replica, and what each answer comes to.
async fn crowd<T: Send + 'static>(replicas: &[Arc<Replica>; 2], of: fn(Answer) -> T) -> Vec<T> {
    let mut placing = tokio::task::JoinSet::new();
    for user in 0..40 {
        let replica = Arc::clone(&replicas[user % 2]);
        placing.spawn(async move {
            let (name, tunnel) = (format!("user{user}"), format!("t{user}"));
            of(replica.place(Some(&name), &tunnel).await)
        });
    }
    placing.join_all().await
}

#[tokio::test]
async fn a_burst_over_two_replicas_never_fills_a_host_beyond_its_sessions() {
    let directory = directory(3, "max_sessions = 5");
    let [one, other] = two(&directory).await;
    let replicas = [Arc::new(one), Arc::new(other)];
    let placed = crowd(&replicas, |answer| {
        // They stay.
        host(&answer)
            .map(str::to_owned)
            .zip(answer.hold.inspect(Hold::stood))
    });
    let placed = placed.await;
    let placed: Vec<_> = placed.into_iter().flatten().collect();
    for host in ["h0", "h1", "h2"] {
        let here = placed.iter().filter(|(on, _)| on == host).count();
        assert_eq!(here, 5, "{host}");
    }
    // Each counts all of them, and its own once.
    for replica in &replicas {
        replica
            .until("all are counted", |it| {
                let hosts = ["h0", "h1", "h2"].map(|host| it.tunnels(host));
                let ids: BTreeSet<_> = hosts.iter().flatten().collect();
                hosts.iter().all(|ids| ids.len() == 5) && ids.len() == 15
            })
            .await;
    }
}

#[tokio::test]
async fn where_there_is_room_replicas_do_not_stand_in_each_others_way() {
    let directory = directory(3, "max_sessions = 40\nmax_pending_logons = 40");
    let [one, other] = two(&directory).await;
    let behind = Arc::clone(&one.store.behind);
    let placed = crowd(&[Arc::new(one), Arc::new(other)], |answer| answer).await;
    assert!(placed.iter().all(|answer| host(answer).is_some()));
    assert_eq!(behind.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn logons_under_way_count_at_every_replica() {
    let directory = directory(1, "max_pending_logons = 2");
    let [one, other] = two(&directory).await;
    let ann = one.place(Some("ann"), "t1").await;
    let bob = other.place(Some("bob"), "t2").await;
    assert!(host(&ann).is_some() && host(&bob).is_some());
    let one = Arc::new(one);
    let waiting = tokio::spawn({
        let one = Arc::clone(&one);
        async move { one.place(Some("carl"), "t3").await }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!waiting.is_finished(), "two are under way");
    // Without an agent a logon is over once the tunnel stands, at the other one.
    let bob = hold(bob);
    bob.stood();
    let carl = timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(host(&carl), Some("h0"));
}

#[tokio::test]
async fn an_acknowledged_order_binds_the_next_decision_everywhere() {
    let directory = directory(2, "");
    let [one, other] = two(&directory).await;
    // The other has polled, and polls no more by itself for a while.
    other.catch_up.now().await.unwrap();
    for round in 0..8 {
        let (barred, free) = match round % 2 {
            0 => ("h0", "h1"),
            _ => ("h1", "h0"),
        };
        one.order(free, Mode::Online).await;
        one.order(barred, Mode::Maintenance).await;
        let answer = other.place(Some(&format!("user{round}")), "t").await;
        assert_eq!(host(&answer), Some(free), "{round}");
        drop(answer);
        let guest = other.place(None, "g").await;
        assert_eq!(host(&guest), Some(free), "a guest, {round}");
    }
}

#[tokio::test]
async fn orders_given_at_both_replicas_are_the_same_at_both_in_the_end() {
    let directory = directory(2, "");
    let [one, other] = two(&directory).await;
    for _ in 0..10 {
        tokio::join!(
            one.order("h0", Mode::Drain),
            other.order("h0", Mode::Online)
        );
        one.order("h1", Mode::Drain).await;
        other.order("h1", Mode::Online).await;
    }
    one.order("h0", Mode::Maintenance).await;
    for replica in [&one, &other] {
        replica
            .until("the last order is known", |it| {
                let (snapshot, now) = (it.fleet.snapshot(), it.clock.now());
                let mode = |id: &str| snapshot.hosts[&HostId::from(id)].mode(now);
                (mode("h0"), mode("h1")) == (Mode::Maintenance, Mode::Online)
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn tunnels_of_users_nobody_knows_are_told_in_a_list() {
    let directory = directory(1, "max_sessions = 2");
    let [one, other] = two(&directory).await;
    let guest = one.place(None, "g1").await;
    other
        .until("it is listed", |it| it.tunnels("h0") == ["g1"])
        .await;
    let ann = other.place(Some("ann"), "t1").await;
    assert_eq!(host(&ann), Some("h0"));
    let bob = other.place(Some("bob"), "t2").await;
    assert_eq!(bob.refusal(), Some(&Refusal::Busy("office".into())));
    // It is renewed for as long as it is open.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(other.tunnels("h0"), ["g1", "t1"]);
    drop(guest);
    other
        .until("it is over", |it| it.tunnels("h0") == ["t1"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_replica_had_open_is_over_in_time() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    let _guest = one.place(None, "g1").await;
    let _ann = one.place(Some("ann"), "t1").await;
    other
        .until("both are known", |it| it.tunnels("h0") == ["g1", "t1"])
        .await;
    // It neither writes nor says anything any more.
    one.store.broken.store(true, Ordering::SeqCst);
    let began = Instant::now();
    other
        .until("both are over", |it| it.tunnels("h0").is_empty())
        .await;
    let took = began.elapsed().as_secs();
    assert!((30..=47).contains(&took), "{took}");
}

#[tokio::test]
async fn a_replica_that_hears_nobody_says_how_old_its_picture_is() {
    let directory = directory(1, "");
    let [one, _other] = two(&directory).await;
    one.catch_up.now().await.unwrap();
    assert!(one.catch_up.age().is_some() && one.catch_up.failure().is_none());
    one.store.broken.store(true, Ordering::SeqCst);
    assert!(one.catch_up.now().await.is_err());
    let before = one.catch_up.age().unwrap();
    one.until("it is older", |it| it.catch_up.age().unwrap() > before)
        .await;
    assert!(one.catch_up.failure().is_some());
    one.store.broken.store(false, Ordering::SeqCst);
    one.catch_up.now().await.unwrap();
    assert!(one.catch_up.failure().is_none());
}

#[tokio::test]
async fn what_a_failover_lost_is_lost_here_as_well() {
    let directory = directory(1, "");
    let [one, other] = two(&directory).await;
    one.order("h0", Mode::Maintenance).await;
    let is = |mode| {
        move |it: &Replica| {
            let view = Arc::clone(&it.fleet.snapshot().hosts[&HostId::from("h0")]);
            view.mode(it.clock.now()) == mode
        }
    };
    other.until("it is known", is(Mode::Maintenance)).await;
    other.store.lose(Kind::Mode, "h0");
    other.catch_up.now().await.unwrap();
    assert!(is(Mode::Maintenance)(&other), "nothing says it is gone");
    other.store.whole.store(true, Ordering::SeqCst);
    other.until("it is lost", is(Mode::Online)).await;
    assert!(other.store.is_shared());
}
