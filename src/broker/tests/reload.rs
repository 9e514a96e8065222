//! A configuration that changes under a placement.

use super::*;

async fn answered(house: &House, user: &str, within: Duration) -> Result<Answer, Unplaced> {
    let (request, tunnel) = (request(user), TunnelId::from(user));
    let deadline = Instant::now() + within;
    house.broker.place(&request, &tunnel, deadline).await
}

const LONG: Duration = Duration::from_secs(10);

impl House {
    fn apply(&self, directory: Arc<Directory>) {
        self.fleet.apply(directory, self.broker.clock.now());
    }
}

#[tokio::test]
async fn an_answer_holds_until_what_it_was_made_on_changes() {
    let house = House::new(&["a"]).await;
    let answer = answered(&house, "ann", LONG).await.unwrap();
    let holds = || {
        let Answer {
            decision,
            directory,
            ..
        } = &answer;
        house.broker.still_holds(decision, directory)
    };
    assert!(holds());
    // Another host more is nothing to her.
    house.apply(directory(&["a", "b"]));
    assert!(holds());
    let strict = Rules {
        min_health_score: 99,
        ..Rules::default()
    };
    house.apply(ruled(&["a", "b"], strict));
    assert!(!holds());
    house.apply(directory(&["b"]));
    assert!(!holds());
    // Put back as it was: what was decided is right again.
    house.apply(directory(&["a"]));
    assert!(holds());
}

#[tokio::test]
async fn an_answer_to_a_host_that_moved_does_not_hold() {
    let house = House::new(&["a"]).await;
    let answer = answered(&house, "ann", LONG).await.unwrap();
    let mut moved = answer.directory.hosts().next().unwrap().clone();
    moved.address = "elsewhere.example.com".to_owned();
    let farms = answer.directory.farms().cloned();
    let resources = answer.directory.resources().cloned();
    let rules = answer.directory.rules().clone();
    let now = Arc::new(Directory::new(rules, [moved], farms, resources));
    house.apply(now);
    let held = house
        .broker
        .still_holds(&answer.decision, &answer.directory);
    assert!(!held);
}

#[tokio::test]
async fn who_comes_before_a_new_host_was_probed_waits_for_it() {
    let house = House::new(&["a"]).await;
    house.apply(directory(&["b"]));
    let placing = answered(&house, "ann", LONG);
    let probing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = house.broker.clock.now();
        house.fleet.note_probe(&"b".into(), true, now);
    };
    let (answer, ()) = tokio::join!(placing, probing);
    match answer.unwrap().decision.outcome {
        Outcome::Placed(placement) => assert_eq!(placement.host, HostId::from("b")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn where_the_new_host_does_not_answer_that_is_said_and_not_waited_out() {
    let house = House::new(&["a"]).await;
    house.apply(directory(&["b"]));
    let now = house.broker.clock.now();
    house.fleet.note_probe(&"b".into(), false, now);
    let answer = answered(&house, "ann", LONG).await.unwrap();
    assert!(matches!(answer.refusal(), Some(Refusal::Unreachable(_))));
}

#[tokio::test]
async fn a_host_taken_out_bars_its_user_until_the_tunnel_ends() {
    let house = House::new(&["a"]).await;
    let (on, hold) = house.place("ann", "t1").await;
    assert_eq!(on, HostId::from("a"));
    hold.stood();
    house.apply(directory(&["b"]));
    house
        .fleet
        .note_probe(&"b".into(), true, house.broker.clock.now());
    let answer = answered(&house, "ann", LONG).await.unwrap();
    assert!(matches!(answer.refusal(), Some(Refusal::HeldElsewhere(_))));
    drop(hold);
    house
        .lease_becomes("ann", Some(("a", LeaseState::Lingering)))
        .await;
    let (on, _hold) = house.place("ann", "t2").await;
    assert_eq!(on, HostId::from("b"));
}
