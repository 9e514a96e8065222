//! What the keeper knows of a tunnel, and what it writes of it.

use super::super::tests::House;
use super::*;
use crate::placement::LeaseState;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(900);

fn in_doubt() -> State {
    State {
        doubtful: true,
        ..State::default()
    }
}

fn after(seconds: u32, state: State, news: &[(News, u32)]) -> bool {
    let start = Instant::now();
    let mut state = state;
    for (news, at) in news {
        state.hear(*news, start + *at * SECOND);
    }
    state.is_confirmed(start + seconds * SECOND)
}

#[test]
fn a_logon_in_doubt_is_believed_once_it_has_stood_for_sixty_seconds() {
    use News::{Claimed, Ended, Stood};
    for (what, seconds, news, believed) in [
        ("never stood", 600, &[(Claimed, 0)][..], false),
        ("stood just now", 5, &[(Claimed, 0), (Stood, 5)], false),
        ("almost", 64, &[(Stood, 5)], false),
        ("long enough", 65, &[(Stood, 5)], true),
        ("ended before", 600, &[(Stood, 5), (Ended, 64)], false),
        ("ended at once after", 600, &[(Stood, 5), (Ended, 65)], true),
        ("ended without having stood", 600, &[(Ended, 5)], false),
    ] {
        assert_eq!(after(seconds, in_doubt(), news), believed, "{what}");
    }
}

#[test]
fn a_logon_that_is_reported_is_believed_at_once() {
    let shown = || State {
        shown: true,
        ..in_doubt()
    };
    assert!(after(5, shown(), &[(News::Stood, 5)]));
    assert!(!after(5, shown(), &[(News::Claimed, 0)]));
}

#[test]
fn what_is_not_in_doubt_needs_no_belief() {
    assert!(!after(600, State::default(), &[(News::Stood, 0)]));
    assert_eq!(State::default().confirmed_at(), None);
}

#[test]
fn news_adds_up() {
    let start = Instant::now();
    let mut state = State::default();
    for news in [News::Claimed, News::Stood, News::Ended] {
        state.hear(news, start);
    }
    let expected = State {
        stood: Some(start),
        ended: Some(start),
        ..State::default()
    };
    assert_eq!(state, expected);
}

fn claim(host: &str, trust: Trust) -> Claim {
    let user = UserKey::new("ann", "").unwrap();
    Claim {
        key: LeaseKey::of_user(&user),
        farm: "office".into(),
        host: host.into(),
        tunnel: "t1".into(),
        user,
        trust,
        origin: None,
    }
}

fn kept(claim: Claim, news: &[(News, u32)], start: Instant) -> Kept {
    let mut state = State {
        doubtful: claim.trust == Trust::Doubtful,
        ..State::default()
    };
    for (news, at) in news {
        state.hear(*news, start + *at * SECOND);
    }
    Kept {
        claim: Arc::new(claim),
        state,
        due: start,
        is_elsewhere: false,
    }
}

/// Claims it and writes what is known of it so many seconds later.
async fn told(house: &House, claim: Claim, news: &[(News, u32)], seconds: u32) {
    let leases = &house.broker.leases;
    let now = leases.clock.now();
    let write = |record: &mut crate::placement::LeaseRecord| {
        let Claim {
            farm,
            host,
            tunnel,
            trust,
            ..
        } = &claim;
        assert!(record.claim(farm, host, tunnel, *trust, now));
    };
    leases.update(&claim.key, write).await.unwrap();
    let start = Instant::now();
    let kept = kept(claim.clone(), news, start);
    leases
        .tell(&kept, LEASE, start + seconds * SECOND)
        .await
        .unwrap();
}

#[tokio::test]
async fn before_it_is_believed_a_session_in_doubt_leaves_nothing() {
    let house = House::new(&["a"]).await;
    let news = [(News::Stood, 0), (News::Ended, 59)];
    told(&house, claim("a", Trust::Doubtful), &news, 600).await;
    assert!(house.record("ann").await.is_empty());
}

#[tokio::test]
async fn once_it_is_believed_it_leaves_a_lease() {
    let house = House::new(&["a"]).await;
    let news = [(News::Stood, 0), (News::Ended, 61)];
    told(&house, claim("a", Trust::Doubtful), &news, 61).await;
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
    let user = UserKey::new("ann", "");
    assert_eq!(house.record("ann").await.user(), user.as_ref());
}

#[tokio::test]
async fn once_it_is_believed_it_moves_the_lease_it_could_not_have() {
    let house = House::new(&["a", "b"]).await;
    let before = Claim {
        tunnel: "before".into(),
        ..claim("a", Trust::Plain)
    };
    let left = [(News::Stood, 0), (News::Ended, 1)];
    told(&house, before, &left, 1).await;
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
    told(&house, claim("b", Trust::Doubtful), &[(News::Stood, 0)], 59).await;
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
    told(&house, claim("b", Trust::Doubtful), &[(News::Stood, 0)], 60).await;
    house
        .lease_becomes("ann", Some(("b", LeaseState::Live)))
        .await;
}

#[tokio::test]
async fn even_believed_it_takes_no_lease_that_another_tunnel_holds() {
    let house = House::new(&["a", "b"]).await;
    let leases = &house.broker.leases;
    told(&house, claim("b", Trust::Doubtful), &[(News::Ended, 0)], 1).await;
    let own = Claim {
        tunnel: "own".into(),
        ..claim("a", Trust::Plain)
    };
    told(&house, own, &[(News::Stood, 0)], 1).await;
    let start = Instant::now();
    let doubted = kept(claim("b", Trust::Doubtful), &[(News::Stood, 0)], start);
    leases
        .tell(&doubted, LEASE, start + 60 * SECOND)
        .await
        .unwrap();
    house
        .lease_becomes("ann", Some(("a", LeaseState::Live)))
        .await;
}

#[test]
fn tunnels_are_due_in_order_whatever_is_changed_about_them() {
    let start = Instant::now();
    let mut tunnels = tunnels::Tunnels::default();
    let of = |nth: u32, due: u32| {
        let claim = Claim {
            tunnel: format!("t{nth}").as_str().into(),
            ..claim("a", Trust::Plain)
        };
        Kept {
            due: start + due * SECOND,
            ..kept(claim, &[], start)
        }
    };
    let due = |tunnels: &tunnels::Tunnels, at: u32| {
        let due = tunnels.due(start + at * SECOND);
        let due = due.map(|((tunnel, _), kept)| (tunnel.to_string(), (kept.due - start).as_secs()));
        due.collect::<Vec<_>>()
    };
    let said = |known: &[(&str, u64)]| {
        let known = known.iter().map(|(tunnel, at)| (tunnel.to_string(), *at));
        known.collect::<Vec<_>>()
    };
    for nth in 1..=3 {
        tunnels.insert(of(nth, 10 * nth));
    }
    assert_eq!(due(&tunnels, 9), said(&[]));
    assert_eq!(due(&tunnels, 20), said(&[("t1", 10), ("t2", 20)]));
    let part = |nth| of(nth, 0).claim.part();
    tunnels.change(&part(3), |kept| kept.due = start + 5 * SECOND);
    tunnels.insert(of(1, 40));
    tunnels.insert_if_new(of(2, 0));
    assert_eq!(
        due(&tunnels, 60),
        said(&[("t3", 5), ("t2", 20), ("t1", 40)])
    );
    tunnels.change_all_of(&"t2".into(), |kept| kept.state.ended = Some(start));
    assert_eq!(tunnels.open().count(), 2);
    assert!(tunnels.change(&part(4), |_| ()).is_none());
    for nth in 1..=3 {
        assert!(!tunnels.is_empty());
        tunnels.remove(&part(nth));
    }
    assert!(tunnels.is_empty());
    assert_eq!(due(&tunnels, 60), said(&[]));
}

#[tokio::test]
async fn what_is_written_before_the_moment_is_confirmed_after_it() {
    // Written a hair before the sixty seconds were over: the next writing tells.
    let house = House::new(&["a"]).await;
    let (mut keeper, _tell) = Keeper::new(std::sync::Arc::clone(&house.broker.leases));
    let start = Instant::now();
    let doubted = kept(claim("a", Trust::Doubtful), &[(News::Stood, 0)], start);
    let (part, state) = (doubted.claim.part(), doubted.state);
    keeper.tunnels.insert(doubted);
    keeper.written(&part, state, LEASE, start + 59 * SECOND);
    let kept = keeper.tunnels.get(&part).unwrap();
    assert!(kept.state.doubtful);
    assert_eq!(kept.due, start + 60 * SECOND);
    keeper.written(&part, state, LEASE, start + 60 * SECOND);
    assert!(!keeper.tunnels.get(&part).unwrap().state.doubtful);
    // And written once more, its hold lost meanwhile, it is still believed.
    let kept = keeper.tunnels.get(&part).unwrap().clone();
    keeper
        .leases
        .tell(&kept, LEASE, start + 90 * SECOND)
        .await
        .unwrap();
    assert_eq!(house.record("ann").await.user(), Some(&kept.claim.user));
}

#[tokio::test]
async fn an_alarm_is_said_when_it_begins_and_when_it_is_over_and_not_between() {
    let house = House::ruled(&["a"], |r| r.offline_after = SECOND).await;
    let leases = &house.broker.leases;
    let report = || {
        let now = leases.clock.now();
        crate::placement::Report {
            received: now,
            taken: now,
            health: 100,
            rdp_listener_ok: true,
            cpu_percent: None,
            memory_used_percent: None,
            sessions: Vec::new(),
            missing_remote_apps: Vec::new(),
            order: None,
            overclaims: false,
        }
    };
    let mut watch = Watch::default();
    assert!(house.broker.hear(&"a".into(), report()));
    let alarm = vec![crate::placement::Alarm::AgentsSilent("office".into())];
    let began = async {
        loop {
            let (begun, over) = watch.look(leases);
            assert_eq!(over, []);
            if !begun.is_empty() {
                break begun;
            }
            tokio::task::yield_now().await;
        }
    };
    let began = tokio::time::timeout(10 * SECOND, began).await;
    assert_eq!(began.unwrap(), alarm);
    assert_eq!(watch.look(leases), (vec![], vec![]));
    assert!(house.broker.hear(&"a".into(), report()));
    assert_eq!(watch.look(leases), (vec![], alarm));
}

#[tokio::test]
async fn findings_that_nobody_heeds_are_bounded_and_news_of_tunnels_are_never_lost() {
    let house = House::new(&["a"]).await;
    let (mut keeper, tell) = Keeper::new(std::sync::Arc::clone(&house.broker.leases));
    let host = HostId::from("rds1");
    let found = || Finding::Shown("tunnel".into());
    for _ in 0..FINDINGS + 100 {
        tell.found(&host, found());
    }
    assert_eq!(keeper.notes.len(), FINDINGS);
    tell.send(Note::Gone("tunnel".into()));
    assert_eq!(keeper.notes.len(), FINDINGS + 1);
    // Heard, it makes room for the next one.
    let first = keeper.notes.recv().await.unwrap();
    keeper.hear(first).await;
    tell.found(&host, found());
    assert_eq!(keeper.notes.len(), FINDINGS + 1);
}

#[tokio::test]
async fn news_wait_for_others_and_those_put_nothing_off() {
    let house = House::new(&["a"]).await;
    let (mut keeper, tell) = Keeper::new(std::sync::Arc::clone(&house.broker.leases));
    let held = tell.held(claim("a", Trust::Plain));
    let before = Instant::now();
    held.stood();
    let stood = keeper.notes.recv().await.unwrap();
    keeper.hear(stood).await;
    let first = keeper.gathered.unwrap();
    assert!(first >= before + GATHER && first <= Instant::now() + GATHER);
    drop(held);
    let ended = keeper.notes.recv().await.unwrap();
    keeper.hear(ended).await;
    assert_eq!(keeper.gathered, Some(first));
    // A claim is in the store already: it waits for nothing.
    keeper.gathered = None;
    tell.held(claim("a", Trust::Plain)).claimed();
    let claimed = keeper.notes.recv().await.unwrap();
    keeper.hear(claimed).await;
    assert_eq!(keeper.gathered, None);
}
