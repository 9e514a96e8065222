//! The life of a lease: claimed, live, lingering, gone.

use super::build::*;
use crate::placement::LeaseState::*;
use crate::placement::*;

#[test]
fn claimed_then_live_then_lingering_then_gone() {
    life()
        .claim("t", "a")
        .is("a", Claimed, 45)
        .wait(5)
        .stood("t")
        .is("a", Live, 900)
        .wait(300)
        .stood("t")
        .is("a", Live, 900)
        .wait(10)
        .end("t")
        .is("a", Lingering, 900)
        .wait(899)
        .is("a", Lingering, 1)
        .wait(1)
        .gone();
}

#[test]
fn a_claim_runs_out_unless_it_is_renewed() {
    assert_eq!((CLAIM, RENEWAL), (secs(45), secs(15)));
    life()
        .claim("t", "a")
        .wait(44)
        .is("a", Claimed, 1)
        .wait(1)
        .gone();
    life()
        .claim("t", "a")
        .wait(15)
        .renew("t")
        .is("a", Claimed, 45)
        .wait(44)
        .renew("t")
        .is("a", Claimed, 45)
        .wait(45)
        .gone();
}

#[test]
fn a_claim_that_never_stood_leaves_nothing() {
    life().claim("t", "a").end("t").gone();
}

#[test]
fn a_live_lease_nobody_renews_ends() {
    life().claim("t", "a").stood("t").wait(900).gone();
}

#[test]
fn a_late_renewal_of_the_claim_does_not_shorten_a_tunnel_that_stood() {
    life()
        .claim("t", "a")
        .stood("t")
        .renew("t")
        .is("a", Live, 900);
}

#[test]
fn strangers_change_nothing() {
    let known = life().claim("t", "a").stood("t");
    let mut record = known.record.clone();
    let stranger = TunnelId::from("x");
    assert!(!record.stood(&stranger, &user("ann"), secs(LEASE), NOW));
    assert!(!record.renew_claim(&stranger, NOW));
    record.end(&stranger, secs(LEASE), NOW);
    assert_eq!(record, known.record);
}

#[test]
fn two_tunnels_of_one_user_hold_one_lease() {
    let both = life().claim("t", "a").wait(5).claim("u", "a");
    // Either may end first.
    both.clone().end("t").is("a", Claimed, 45).end("u").gone();
    both.clone().stood("t").end("u").is("a", Live, 900);
    both.clone().stood("t").end("t").is("a", Lingering, 900);
    both.stood("t")
        .stood("u")
        .wait(60)
        .end("t")
        .is("a", Live, 840)
        .wait(60)
        .end("u")
        .is("a", Lingering, 900);
}

#[test]
fn a_page_reload_keeps_the_lease_live() {
    // The new connection comes before the old one is gone.
    life()
        .claim("old", "a")
        .stood("old")
        .wait(600)
        .claim("new", "a")
        .is("a", Live, 300)
        .end("old")
        .is("a", Lingering, 900)
        .stood("new")
        .is("a", Live, 900)
        .end("new")
        .is("a", Lingering, 900);
}

#[test]
fn a_tunnel_that_claims_twice_holds_once() {
    let twice = life()
        .claim("t", "a")
        .wait(10)
        .claim("t", "a")
        .is("a", Claimed, 45);
    twice.end("t").gone();
}

#[test]
fn every_farm_has_an_entry_of_its_own() {
    let both = life().claim("t", "a").claim_in("erp", "u", "e").stood("t");
    assert_eq!(both.view_in("erp"), Some(("e".into(), Claimed, 45)));
    let now = both.now();
    let held: Vec<_> = both
        .record
        .held(now)
        .map(|(f, h)| format!("{f} {h}"))
        .collect();
    assert_eq!(held, ["erp e", "office a"]);
    let one = both.end("u").is("a", Live, 900);
    assert_eq!(one.view_in("erp"), None);
    assert_eq!(one.record.views(now).count(), 1);
}

#[test]
fn only_open_tunnels_hold() {
    let held = |life: &Life| life.record.held(life.now()).count();
    let claimed = life().claim("t", "a");
    assert_eq!(held(&claimed), 1);
    assert_eq!(held(&claimed.clone().wait(45)), 0);
    assert_eq!(held(&claimed.stood("t").end("t")), 0);
}

#[test]
fn a_lease_is_released_unless_a_tunnel_relies_on_it() {
    let office = FarmId::from("office");
    let claimed = life().claim("t", "a");
    let claimed = claimed.act(|r, now| assert!(!r.release(&office, now)));
    let live = claimed.is("a", Claimed, 45).stood("t");
    let live = live.act(|r, now| assert!(!r.release(&office, now)));
    let lingering = live.is("a", Live, 900).end("t");
    let lingering = lingering.act(|r, now| assert!(!r.release(&"erp".into(), now)));
    let released = lingering
        .is("a", Lingering, 900)
        .act(|r, now| assert!(r.release(&office, now)));
    // Where the user was last is no claim, and is remembered.
    let last = released.record.last(&office, released.now());
    assert_eq!(last.map(|past| past.host.as_str()), Some("a"));
    released.gone();
}

#[test]
fn a_claim_of_somebody_who_goes_another_way_lingers_and_takes_the_older_ones_place() {
    life()
        .claim("t", "a")
        .linger("t")
        .is("a", Lingering, 900)
        .end("t")
        .is("a", Lingering, 900)
        .wait(900)
        .gone();
    life()
        .claim("t", "a")
        .stood("t")
        .end("t")
        .wait(100)
        .claim("u", "b")
        .linger("u")
        .is("b", Lingering, 900)
        .wait(900)
        .gone();
    // Who holds nothing changes nothing.
    life().claim("t", "a").linger("u").is("a", Claimed, 45);
}
