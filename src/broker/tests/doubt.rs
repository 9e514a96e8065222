//! Somebody who only says to be a user leaves that user's lease as it was.

use super::*;

#[tokio::test]
async fn a_session_that_may_be_somebody_elses_leaves_no_lease() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house.place_as(&signed_in("ann", "mallory"), "t1").await;
    house
        .lease_becomes("ann", Some(("a", LeaseState::Claimed)))
        .await;
    hold.stood();
    house
        .lease_becomes("ann", Some(("a", LeaseState::Live)))
        .await;
    drop(hold);
    house.lease_becomes("ann", None).await;
    assert!(house.record("ann").await.is_empty());
}

#[tokio::test]
async fn a_lease_that_lingers_is_used_and_left_as_it_was() {
    let house = House::new(&["a", "b"]).await;
    let (own, hold) = house.place("ann", "t1").await;
    hold.stood();
    drop(hold);
    let lingering = Some((own.as_str(), LeaseState::Lingering));
    house.lease_becomes("ann", lingering).await;
    let before = house.record("ann").await;
    let (host, hold) = house.place_as(&signed_in("ann", "mallory"), "t2").await;
    assert_eq!(host, own);
    hold.stood();
    house
        .lease_becomes("ann", Some((own.as_str(), LeaseState::Live)))
        .await;
    drop(hold);
    house.lease_becomes("ann", lingering).await;
    assert_eq!(house.record("ann").await, before);
}

#[tokio::test]
async fn with_require_match_nobody_gets_that_far() {
    let house = House::ruled(&["a"], |r| r.require_match = true).await;
    let asked = signed_in("ann", "mallory");
    let answer = house
        .broker
        .place(&asked, &"t1".into(), in_time())
        .await
        .unwrap();
    assert_eq!(answer.refusal(), Some(&Refusal::LoginMismatch));
    assert_eq!(house.seats(), 0);
}

#[tokio::test]
async fn a_stranger_on_a_host_keeps_its_user_from_none() {
    let house = House::new(&["a", "b"]).await;
    let (theirs, stranger) = house.place_as(&signed_in("ann", "mallory"), "t1").await;
    stranger.stood();
    house
        .lease_becomes("ann", Some((theirs.as_str(), LeaseState::Live)))
        .await;
    // The host with the stranger's session on it scores less.
    let (own, hold) = house.place("ann", "t2").await;
    assert_ne!(own, theirs);
    hold.stood();
    let live = Some((own.as_str(), LeaseState::Live));
    house.lease_becomes("ann", live).await;
    drop(stranger);
    let gone = async {
        while house.seats() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .unwrap();
    house.lease_becomes("ann", live).await;
}
