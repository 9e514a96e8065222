//! What tunnels meet on a host reaches its breaker, by their seats.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::fleet::Fleet;
use crate::fleet::tests::{fleet, placed_on};
use crate::placement::{BreakerState, Decision, UserKey};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn later(seconds: u64) -> Timestamp {
    NOW + Duration::from_secs(seconds)
}

fn seat(fleet: &Arc<Fleet>, who: &str, resource: &str, now: Timestamp) -> Seat {
    let decision = Decision {
        user: UserKey::new(who, ""),
        resource: Some(resource.into()),
        ..placed_on("a")
    };
    let tunnel = format!("{who} {resource}").into();
    fleet.seat(&tunnel, now, |_| decision).1.unwrap()
}

fn state(fleet: &Fleet, host: &str, now: Timestamp) -> &'static str {
    let snapshot = fleet.snapshot();
    match snapshot.hosts[&HostId::from(host)].breaker(now) {
        BreakerState::Closed => "closed",
        BreakerState::HalfOpen(_) => "half open",
        BreakerState::Open(_) => "open",
    }
}

#[test]
fn two_seats_that_fail_open_it_there_and_a_third_that_stands_closes_it() {
    let fleet = fleet();
    let (ann, bob) = (
        seat(&fleet, "ann", "erp", NOW),
        seat(&fleet, "bob", "desktop", NOW),
    );
    ann.failed(NOW);
    // Its tunnel goes elsewhere: the failure is remembered without it.
    drop(ann);
    assert_eq!(state(&fleet, "a", NOW), "closed");
    bob.failed(later(1));
    assert_eq!(state(&fleet, "a", later(1)), "open");
    assert_eq!(state(&fleet, "b", later(1)), "closed");
    let cid = seat(&fleet, "cid", "erp", later(7));
    assert_eq!(state(&fleet, "a", later(7)), "half open");
    cid.stood(later(8));
    assert_eq!(state(&fleet, "a", later(8)), "closed");
}

#[test]
fn a_seat_that_is_given_back_says_nothing() {
    let fleet = fleet();
    for (who, resource) in [("ann", "erp"), ("bob", "desktop"), ("cid", "mail")] {
        drop(seat(&fleet, who, resource, NOW));
    }
    assert_eq!(state(&fleet, "a", NOW), "closed");
}

#[test]
fn a_host_whose_probe_comes_and_goes_is_no_good_at_its_first_word() {
    let fleet = fleet();
    let a = HostId::from("a");
    for (seconds, answers, expected) in [
        (0, true, "closed"),
        (10, false, "closed"),
        (20, true, "closed"),
        (30, false, "closed"),
        (40, true, "open"),
    ] {
        fleet.note_probe(&a, answers, later(seconds));
        assert_eq!(state(&fleet, "a", later(seconds)), expected, "{seconds}");
    }
    assert_eq!(state(&fleet, "a", later(45)), "half open");
}

#[test]
fn a_probe_that_tunnels_prove_wrong_is_not_held_against_its_host() {
    let fleet = fleet();
    let a = HostId::from("a");
    fleet.note_probe(&a, true, NOW);
    for round in 0..5 {
        let now = later(round * 20);
        fleet.note_probe(&a, false, now);
        let seat = seat(&fleet, "ann", "erp", now);
        seat.stood(now);
        fleet.note_probe(&a, true, later(round * 20 + 10));
        assert_eq!(state(&fleet, "a", later(round * 20 + 10)), "closed");
    }
}

#[test]
fn an_attempt_counts_where_it_was_made_though_its_seat_has_moved() {
    let fleet = fleet();
    let mut ann = seat(&fleet, "ann", "erp", NOW);
    let attempt = ann.attempt().unwrap();
    let elsewhere = Decision {
        user: UserKey::new("ann", ""),
        resource: Some("erp".into()),
        ..placed_on("b")
    };
    let tunnel = "ann erp".into();
    assert!(fleet.move_seat(&mut ann, &tunnel, NOW, |_| elsewhere).1);
    attempt.failed(later(1));
    seat(&fleet, "bob", "desktop", NOW).failed(later(1));
    assert_eq!(state(&fleet, "a", later(1)), "open");
    assert_eq!(state(&fleet, "b", later(1)), "closed");
}
