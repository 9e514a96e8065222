//! An older lease is put back where the newer one never stood, and what a
//! process that is gone leaves behind.

use super::build::*;
use crate::placement::LeaseState::*;
use crate::placement::*;

#[test]
fn a_tunnel_that_never_stood_puts_back_an_older_lease_on_the_same_host() {
    life()
        .left("a")
        .wait(100)
        .claim("t", "a")
        .is("a", Lingering, 800)
        .wait(20)
        .end("t")
        .is("a", Lingering, 780)
        .wait(780)
        .gone();
}

#[test]
fn a_tunnel_that_never_stood_puts_back_an_older_lease_on_another_host() {
    life()
        .left("a")
        .wait(100)
        .claim("t", "b")
        .is("b", Claimed, 45)
        .wait(20)
        .end("t")
        .is("a", Lingering, 780);
}

#[test]
fn a_claim_that_ran_out_brings_back_what_it_replaced() {
    let ran_out = life()
        .left("a")
        .claim("t", "b")
        .wait(45)
        .is("a", Lingering, 855);
    // Written down or only read: the same.
    ran_out
        .clone()
        .act(LeaseRecord::expire)
        .is("a", Lingering, 855);
    ran_out
        .claim("u", "c")
        .is("c", Claimed, 45)
        .end("u")
        .is("a", Lingering, 855);
}

#[test]
fn what_was_replaced_does_not_outlive_its_own_time() {
    let mut life = life().left("a").wait(890).claim("t", "b");
    for _ in 0..4 {
        life = life.wait(15).renew("t");
    }
    life.end("t").gone();
}

#[test]
fn a_claim_that_stood_is_the_only_lease_there_is() {
    life()
        .left("a")
        .claim("t", "b")
        .stood("t")
        .is("b", Live, 900)
        .end("t")
        .is("b", Lingering, 900)
        .wait(900)
        .gone();
}

#[test]
fn a_second_try_on_a_third_host_still_remembers_the_first_lease() {
    life()
        .left("a")
        .claim("t", "b")
        .wait(5)
        .claim("t", "c")
        .is("c", Claimed, 45)
        .end("t")
        .is("a", Lingering, 895);
}

#[test]
fn of_two_tunnels_that_never_stood_the_last_puts_the_older_lease_back() {
    life()
        .left("a")
        .claim("t", "b")
        .claim("u", "b")
        .end("t")
        .is("b", Claimed, 45)
        .end("u")
        .is("a", Lingering, 900);
}

#[test]
fn one_that_stood_keeps_the_lease_though_the_other_never_does() {
    life()
        .left("a")
        .claim("t", "b")
        .claim("u", "b")
        .stood("u")
        .end("t")
        .is("b", Live, 900)
        .end("u")
        .is("b", Lingering, 900);
}

#[test]
fn an_orphaned_record_lingers_from_the_last_renewal_of_what_stood() {
    life()
        .claim("t", "a")
        .stood("t")
        .wait(100)
        .orphan()
        .is("a", Lingering, 800)
        .wait(800)
        .gone();
    let two = life()
        .claim("t", "a")
        .stood("t")
        .wait(60)
        .claim("u", "a")
        .stood("u");
    two.wait(10).orphan().is("a", Lingering, 890);
}

#[test]
fn an_orphaned_claim_is_put_back() {
    life().claim("t", "a").orphan().gone();
    life()
        .left("a")
        .claim("t", "b")
        .orphan()
        .is("a", Lingering, 900);
    life()
        .left("a")
        .claim("t", "a")
        .orphan()
        .is("a", Lingering, 900);
}

#[test]
fn an_orphaned_record_that_ran_out_meanwhile_is_empty() {
    life().claim("t", "a").stood("t").wait(901).orphan().gone();
}

#[test]
fn a_tunnel_that_ends_late_after_the_store_was_away_still_leaves_a_lease() {
    life()
        .claim("t", "a")
        .stood("t")
        .wait(5000)
        .end("t")
        .is("a", Lingering, 900);
}

#[test]
fn a_claim_that_stood_and_ran_out_does_not_bring_back_what_it_replaced() {
    // The older lease is longer: the lease time was shortened in between.
    let tunnel = TunnelId::from("before");
    life()
        .claim("before", "a")
        .stood("before")
        .act(|record, now| record.end(&tunnel, secs(10 * LEASE), now))
        .is("a", Lingering, 10 * LEASE)
        .claim("t", "b")
        .stood("t")
        .wait(LEASE)
        .gone();
}

#[test]
fn a_clock_set_back_does_not_bring_back_what_was_replaced_and_has_run_out() {
    let (farm, ann) = ("office".into(), user("ann"));
    let claim = |record: &mut LeaseRecord, tunnel: &TunnelId, host: &str, now| {
        assert!(record.claim(&farm, &host.into(), tunnel, Trust::Plain, now));
    };
    let (first, second, third) = ("t".into(), "u".into(), "v".into());
    let mut record = LeaseRecord::default();
    claim(&mut record, &first, "a", NOW);
    record.stood(&first, &ann, secs(LEASE), NOW);
    record.end(&first, secs(LEASE), NOW);
    claim(&mut record, &second, "b", NOW);
    // Still pending, and renewed, when the older lease's time is over.
    let late = NOW + secs(LEASE) + secs(1);
    record.renew_claim(&second, late);
    claim(&mut record, &third, "b", late);
    record.orphan(NOW);
    assert_eq!(record.views(NOW).count(), 0);
}
