//! Who was last where, for thirty days: it breaks ties and claims nothing.

use super::build::*;
use crate::placement::Reason::Score;
use crate::placement::*;

const DAY: u64 = 24 * 3600;

/// The asking user was on that host of the office so many seconds ago, and
/// nothing lingers of it.
fn was_on(world: World, host: &str, seconds: u64) -> World {
    let tunnel = TunnelId::from("long ago");
    world.leases(|record| {
        let then = ago(seconds);
        assert!(record.claim(&"office".into(), &host.into(), &tunnel, Trust::Plain, then));
        record.stood(&tunnel, &user("ann"), secs(1), then);
        record.end(&tunnel, secs(0), then);
    })
}

fn equals() -> World {
    ["a", "b", "c", "d"]
        .iter()
        .fold(farm("office"), |world, id| world.with(host(id).answering()))
}

#[test]
fn of_equal_hosts_the_user_gets_the_last_one() {
    for last in ["a", "b", "c", "d"] {
        assert_eq!(was_on(equals(), last, DAY).ask("ann"), on(last, Score));
    }
}

#[test]
fn history_beats_no_score_and_no_fewer_sessions() {
    let better = farm("office")
        .with(host("a").reporting().cpu(1.0))
        .with(host("b").reporting());
    assert_eq!(was_on(better, "a", DAY).ask("ann"), on("b", Score));
    // 20 points either way, by four sessions or by one.
    let a = (0..4).fold(host("a").reporting(), |a, n| {
        a.session(&n.to_string(), SessionState::Disconnected)
    });
    let fewer = farm("office")
        .with(a)
        .with(host("b").reporting().session("u", SessionState::Active));
    assert_eq!(was_on(fewer, "a", DAY).ask("ann"), on("b", Score));
}

#[test]
fn history_opens_no_host_that_takes_nobody() {
    for a in [
        host("a").answering().mode(Mode::Drain),
        host("a").answering().mode(Mode::Maintenance),
        host("a").failing(60),
        host("a").answering().gone(),
    ] {
        let world = farm("office").with(a).with(host("b").answering());
        assert_eq!(was_on(world, "a", DAY).ask("ann"), on("b", Score));
    }
}

#[test]
fn history_of_another_farm_does_not_count() {
    let elsewhere = was_on(equals().farm("erp").with(host("e").answering()), "a", DAY);
    assert_eq!(elsewhere.ask_for("erp", "ann"), on("e", Score));
    let record = |world: World| world.decide(by_resource("office"), "ann");
    assert!(matches!(record(elsewhere).outcome, Outcome::Placed(_)));
}

#[test]
fn it_is_remembered_for_thirty_days_whoever_looks_after_the_record() {
    let office = FarmId::from("office");
    let left = life().left("a");
    let last = |life: &Life| {
        let past = life.record.last(&office, life.now());
        past.map(|past| past.host.to_string())
    };
    let almost = left.wait(30 * DAY - 1);
    assert_eq!(last(&almost).as_deref(), Some("a"));
    // Even where nobody wrote the record since.
    assert_eq!(last(&almost.clone().wait(1)), None);
    assert_eq!(
        almost.wait(1).act(LeaseRecord::expire).record,
        LeaseRecord::default()
    );
}

#[test]
fn every_renewal_of_a_tunnel_that_stands_is_a_sight_of_its_user() {
    let office = FarmId::from("office");
    let life = life().claim("t", "a").stood("t").wait(600).stood("t");
    assert_eq!(
        life.record.last(&office, life.now()).unwrap().at,
        life.now()
    );
    assert_eq!(life.record.user(), Some(&user("ann")));
}

#[test]
fn a_claim_that_never_stood_is_no_history() {
    let life = life().claim("t", "a").end("t");
    assert_eq!(life.record, LeaseRecord::default());
}

#[test]
fn the_latest_of_two_hosts_is_the_last() {
    let office = FarmId::from("office");
    let life = life()
        .left("a")
        .wait(10)
        .claim("t", "b")
        .stood("t")
        .end("t");
    assert_eq!(
        life.record.last(&office, life.now()).unwrap().host,
        HostId::from("b")
    );
}

#[test]
fn history_claims_nothing_and_counts_for_nobody() {
    let life = life().left("a").wait(LEASE);
    assert_eq!(life.record.views(life.now()).count(), 0);
    assert_eq!(life.record.held(life.now()).count(), 0);
    assert_eq!(life.record.tunnels(life.now()).count(), 0);
    assert!(!life.record.is_empty());
}
