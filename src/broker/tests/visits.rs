//! Somebody who asks for a host and goes there past us is one user on the way,
//! however often the question is put.

use super::reports::session;
use super::*;
use crate::placement::Reason;

impl House {
    async fn visits(&self, user: &str) -> Result<(HostId, Reason), Refusal> {
        let asked = request(user);
        let placed = self.broker.place_elsewhere(&asked, in_time()).await;
        let (answer, until) = placed.unwrap();
        match answer.decision.outcome {
            Outcome::Placed(placement) => {
                assert!(until.is_some());
                Ok((placement.host, placement.reason))
            }
            Outcome::Refused(refusal) => Err(refusal),
            Outcome::Unmatched => panic!("it names a resource"),
        }
    }
}

#[tokio::test]
async fn who_asks_again_is_sent_to_the_same_host_whatever_is_reported_meanwhile() {
    let house = House::new(&["a", "b"]).await;
    let (first, _) = house.visits("ann").await.unwrap();
    let other = if first.as_str() == "a" { "b" } else { "a" };
    house.reports(other, 1, vec![session("ann", house.at(), None)]);
    let again = house.visits("ann").await.unwrap();
    assert_eq!(again, (first.clone(), Reason::Tunnel));
    assert_eq!(house.visits("ann").await.unwrap().0, first);
    assert_eq!(house.seats(), 1, "one user on the way");
    house
        .lease_becomes("ann", Some((first.as_str(), LeaseState::Lingering)))
        .await;
}

#[tokio::test]
async fn who_asks_again_is_not_one_more_toward_any_bound() {
    let house = House::ruled(&["a"], |rules| {
        rules.max_tunnels_per_user = Some(1);
        rules.max_pending_logons = 1;
        rules.max_sessions = Some(1);
    });
    let house = house.await;
    for _ in 0..3 {
        assert!(house.visits("ann").await.is_ok());
        assert_eq!(house.seats(), 1);
    }
    // A tunnel of hers is.
    let too_many = Outcome::Refused(Refusal::TooManyTunnels);
    assert_eq!(house.outcome("ann", "t1").await, too_many);
}

#[tokio::test]
async fn an_open_tunnel_counts_beside_the_visit_that_is_repeated() {
    let house = House::ruled(&["a"], |r| r.max_tunnels_per_user = Some(2)).await;
    house.visits("ann").await.unwrap();
    let (_, _tunnel) = house.place("ann", "t1").await;
    assert!(house.visits("ann").await.is_ok());
    let too_many = Outcome::Refused(Refusal::TooManyTunnels);
    assert_eq!(house.outcome("ann", "t2").await, too_many);
    assert_eq!(house.seats(), 2);
}

#[tokio::test]
async fn a_question_that_leads_nowhere_leaves_the_user_on_the_way() {
    let house = House::new(&["a", "b"]).await;
    let (first, _) = house.visits("ann").await.unwrap();
    let now = house.at();
    let off: Vec<_> = house.fleet.snapshot().directory.hosts().cloned().collect();
    let off = off.into_iter().map(|host| Host {
        mode: match host.id == first {
            true => Mode::Maintenance,
            false => Mode::Online,
        },
        ..host
    });
    let snapshot = house.fleet.snapshot();
    let known = &snapshot.directory;
    let (farms, resources) = (known.farms().cloned(), known.resources().cloned());
    let changed = Directory::new(Rules::default(), off, farms, resources);
    house.fleet.apply(Arc::new(changed), now);
    let held = Refusal::HeldElsewhere(first);
    assert_eq!(house.visits("ann").await, Err(held));
    assert_eq!(house.seats(), 1);
}
