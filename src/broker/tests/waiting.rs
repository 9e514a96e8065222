//! Logons under way are waited for, too many tunnels are not; who only asks
//! takes nothing.

use super::*;
use crate::placement::Reason;

/// Every host takes one logon at a time.
async fn one_at_a_time(hosts: &[&str]) -> House {
    House::ruled(hosts, |r| r.max_pending_logons = 1).await
}

/// Somebody who asks now and is answered in time.
fn asks(house: &House, user: &str) -> tokio::task::JoinHandle<Answer> {
    let (broker, user) = (house.broker.clone(), user.to_owned());
    tokio::spawn(async move {
        let tunnel = TunnelId::from(format!("of {user}"));
        broker
            .place(&request(&user), &tunnel, in_time())
            .await
            .unwrap()
    })
}

/// Long enough to be answered, were there nothing to wait for.
async fn a_while() {
    tokio::time::sleep(2 * PENDING_PAUSE).await;
}

fn placed(answer: &Answer) -> (&str, Reason) {
    match &answer.decision.outcome {
        Outcome::Placed(placement) => (placement.host.as_str(), placement.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_placement_waits_until_a_logon_before_it_stood() {
    let house = one_at_a_time(&["a"]).await;
    let (_, first) = house.place("ann", "t1").await;
    let second = asks(&house, "bob");
    a_while().await;
    assert!(!second.is_finished());
    assert_eq!(house.seats(), 1);
    first.stood();
    assert_eq!(placed(&second.await.unwrap()), ("a", Reason::Score));
}

#[tokio::test]
async fn a_placement_waits_until_a_seat_is_given_back() {
    let house = one_at_a_time(&["a"]).await;
    let (_, first) = house.place("ann", "t1").await;
    let second = asks(&house, "bob");
    a_while().await;
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(placed(&second.await.unwrap()), ("a", Reason::Score));
}

#[tokio::test]
async fn one_that_waits_too_long_times_out_and_leaves_nothing() {
    let house = one_at_a_time(&["a"]).await;
    let (_, _first) = house.place("ann", "t1").await;
    let soon = Instant::now() + Duration::from_millis(100);
    let waited = house
        .broker
        .place(&request("bob"), &"t2".into(), soon)
        .await;
    assert_eq!(waited.unwrap_err().error, PlaceError::TimedOut);
    assert!(Instant::now() >= soon);
    assert_eq!(house.seats(), 1);
    assert!(house.record("bob").await.is_empty());
}

#[tokio::test]
async fn nobody_waits_while_another_host_takes_them() {
    let house = one_at_a_time(&["a", "b"]).await;
    let (first, _one) = house.place("ann", "t1").await;
    let (second, _two) = house.place("bob", "t2").await;
    assert_ne!(first, second);
}

#[tokio::test]
async fn who_comes_back_waits_for_the_own_host() {
    let house = one_at_a_time(&["a", "b"]).await;
    let (own, hold) = house.place("ann", "t1").await;
    hold.stood();
    drop(hold);
    house
        .lease_becomes("ann", Some((own.as_str(), LeaseState::Lingering)))
        .await;
    // Somebody else is being logged on there.
    let mut others = Vec::new();
    for user in ["bob", "carl"] {
        others.push(house.place(user, user).await);
    }
    let back = asks(&house, "ann");
    a_while().await;
    assert!(!back.is_finished());
    let (_, away) = others.iter().find(|(host, _)| *host != own).unwrap();
    away.stood();
    a_while().await;
    assert!(!back.is_finished());
    let (_, there) = others.iter().find(|(host, _)| *host == own).unwrap();
    there.stood();
    assert_eq!(placed(&back.await.unwrap()), (own.as_str(), Reason::Lease));
}

#[tokio::test]
async fn everybody_who_waits_is_placed_one_after_the_other() {
    let house = one_at_a_time(&["a", "b"]).await;
    let mut waiting = JoinSet::new();
    for n in 0..10 {
        let broker = house.broker.clone();
        waiting.spawn(async move {
            let user = format!("user{n}");
            let answer = broker
                .place(&request(&user), &user.clone().into(), in_time())
                .await;
            let hold = answer.unwrap().hold.unwrap();
            // The next one is let in.
            hold.stood();
            hold
        });
    }
    let holds = waiting.join_all().await;
    assert_eq!((holds.len(), house.seats()), (10, 10));
}

#[tokio::test]
async fn a_full_farm_is_not_waited_for() {
    let house = House::ruled(&["a"], |r| r.max_sessions = Some(1)).await;
    let (_, _hold) = house.place("ann", "t1").await;
    let busy = Outcome::Refused(Refusal::Busy("office".into()));
    assert_eq!(house.outcome("bob", "t2").await, busy);
}

#[tokio::test(flavor = "multi_thread")]
async fn newcomers_at_one_instant_never_fill_a_host_beyond_its_bound() {
    let house = House::ruled(&["a", "b"], |r| r.max_sessions = Some(3)).await;
    let mut connects = JoinSet::new();
    for n in 0..20 {
        let broker = house.broker.clone();
        connects.spawn(async move {
            let user = format!("user{n}");
            broker
                .place(&request(&user), &user.clone().into(), in_time())
                .await
                .unwrap()
        });
    }
    let answers = connects.join_all().await;
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer.hold.is_some())
            .count(),
        6
    );
    assert_eq!(house.seats(), 6);
}

#[tokio::test]
async fn to_preview_takes_no_seat_and_writes_no_lease() {
    let house = one_at_a_time(&["a"]).await;
    for _ in 0..3 {
        let answer = house
            .broker
            .preview(&request("ann"), in_time())
            .await
            .unwrap();
        assert_eq!(placed(&answer), ("a", Reason::Score));
        assert!(answer.hold.is_none());
    }
    assert_eq!(house.seats(), 0);
    assert!(house.record("ann").await.is_empty());
}

#[tokio::test]
async fn to_preview_does_not_wait_for_logons() {
    let house = one_at_a_time(&["a"]).await;
    let (_, _first) = house.place("ann", "t1").await;
    let answer = house
        .broker
        .preview(&request("bob"), in_time())
        .await
        .unwrap();
    let waits = Refusal::LogonsPending("office".into());
    assert_eq!(answer.refusal(), Some(&waits));
}

#[tokio::test]
async fn a_user_at_the_bound_of_tunnels_is_refused_until_one_has_ended() {
    let house = House::ruled(&["a"], |r| r.max_tunnels_per_user = Some(2)).await;
    let too_many = Outcome::Refused(Refusal::TooManyTunnels);
    let (_, _one) = house.place("ann", "t1").await;
    let (_, two) = house.place("ann", "t2").await;
    assert_eq!(house.outcome("ann", "t3").await, too_many);
    let (_, _bobs) = house.place("bob", "t4").await;
    drop(two);
    let freed = async {
        while house.outcome("ann", "t5").await == too_many {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_of_one_user_at_one_instant_are_bounded_too() {
    let house = House::ruled(&["a", "b"], |r| r.max_tunnels_per_user = Some(3)).await;
    let mut connects = JoinSet::new();
    for n in 0..12 {
        let broker = house.broker.clone();
        connects.spawn(async move {
            let tunnel = TunnelId::from(format!("t{n}"));
            broker
                .place(&request("ann"), &tunnel, in_time())
                .await
                .unwrap()
        });
    }
    let answers = connects.join_all().await;
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer.hold.is_some())
            .count(),
        3
    );
}
