//! A bare name and the qualified one it is known by.

use super::*;
use crate::placement::{Reason, UserKey};

fn known_as(answer: &Answer) -> String {
    answer
        .decision
        .user
        .as_ref()
        .map(UserKey::to_string)
        .unwrap()
}

/// Another life on the same store.
async fn next_life(house: &House, hosts: &[&str]) -> Broker {
    let clock = Clock::start();
    let fleet = Fleet::new(directory(hosts));
    for host in hosts {
        fleet.note_probe(&HostId::from(*host), true, clock.now());
    }
    let opened = Broker::open(fleet, Arc::clone(&house.store), clock).await;
    let (broker, keeper) = opened.unwrap();
    tokio::spawn(keeper.run());
    broker
}

/// The user is seen on a host and leaves.
async fn visit(house: &House, user: &str) -> HostId {
    let (host, hold) = house.place(user, user).await;
    hold.stood();
    drop(hold);
    house
        .lease_becomes(user, Some((host.as_str(), LeaseState::Lingering)))
        .await;
    // The picture follows the store a moment later.
    let user = UserKey::new(user, "").unwrap();
    let noted = async {
        while !house.fleet.snapshot().people.knows(&user) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), noted)
        .await
        .unwrap();
    host
}

#[tokio::test]
async fn a_bare_name_takes_the_one_key_known_for_it_after_a_restart_too() {
    let hosts = ["a", "b", "c", "d"];
    let house = House::new(&hosts).await;
    let host = visit(&house, "CORP\\Ann").await;
    for broker in [house.broker.clone(), next_life(&house, &hosts).await] {
        let answer = broker.preview(&request("ann"), in_time()).await.unwrap();
        assert_eq!(known_as(&answer), "corp\\ann");
        let Outcome::Placed(placement) = &answer.decision.outcome else {
            panic!("{answer:?}");
        };
        assert_eq!((&placement.host, placement.reason), (&host, Reason::Lease));
    }
    // And the lease is the one of the qualified name.
    let (_, hold) = house.place("ann", "t2").await;
    hold.stood();
    house
        .lease_becomes("corp\\ann", Some((host.as_str(), LeaseState::Live)))
        .await;
    assert!(house.record("ann").await.is_empty());
}

#[tokio::test]
async fn a_bare_name_that_two_share_is_its_own() {
    let house = House::new(&["a"]).await;
    visit(&house, "corp\\ann").await;
    visit(&house, "lab\\ann").await;
    // The picture follows the store a moment later.
    let ambiguous = async {
        loop {
            let bare = request("ann");
            let preview = house.broker.preview(&bare, in_time());
            let answer = preview.await.unwrap();
            if answer.decision.trust == Trust::Ambiguous {
                break answer;
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(10), ambiguous).await;
    assert_eq!(known_as(&answer.unwrap()), "ann");
}

#[tokio::test]
async fn a_name_that_was_only_claimed_is_not_known() {
    let house = House::new(&["a"]).await;
    let (_, _pending) = house.place("evil\\ann", "t1").await;
    let answer = house
        .broker
        .preview(&request("ann"), in_time())
        .await
        .unwrap();
    assert_eq!(known_as(&answer), "ann");
}

#[tokio::test]
async fn a_name_that_was_only_said_to_be_is_not_known() {
    let house = House::new(&["a"]).await;
    let (_, hold) = house
        .place_as(&signed_in("evil\\ann", "mallory"), "t1")
        .await;
    hold.stood();
    house
        .lease_becomes("evil\\ann", Some(("a", LeaseState::Live)))
        .await;
    let answer = house
        .broker
        .preview(&request("ann"), in_time())
        .await
        .unwrap();
    assert_eq!(known_as(&answer), "ann");
}
