//! Coming back by a lease alone: no session is reported, no tunnel is open.

use super::build::*;
use crate::placement::Reason::{Lease, Score};
use crate::placement::*;

/// `a` is a poor choice, `b` a good one.
fn poor_and_good(a: HostWords) -> World {
    farm("office").with(a).with(host("b").reporting())
}

fn poor() -> HostWords {
    host("a").reporting().health(60).cpu(99.0).memory(99.0)
}

#[test]
fn a_lingering_lease_is_honoured_though_another_host_scores_higher() {
    let world = poor_and_good(poor());
    assert_eq!(world.ask("ann"), on("b", Score));
    assert_eq!(world.lingers("office", "a", 1).ask("ann"), on("a", Lease));
}

#[test]
fn a_lease_brings_back_a_user_to_a_host_that_takes_nobody_new() {
    for (state, a) in [
        ("drain", poor().mode(Mode::Drain)),
        ("unhealthy", poor().health(0)),
        ("silent", poor().silent(3600)),
        ("no listener", poor().without_listener()),
        ("never probed", host("a")),
    ] {
        let world = poor_and_good(a);
        assert_eq!(world.ask("ann"), on("b", Score), "{state}");
        assert_eq!(
            world.lingers("office", "a", 600).ask("ann"),
            on("a", Lease),
            "{state}"
        );
    }
}

#[test]
fn an_expired_lease_is_not_honoured() {
    for (left_before, honoured) in [(61, true), (60, false), (0, false)] {
        // It was given `left_before` seconds a minute ago.
        let tunnel = TunnelId::from("t");
        let then = ago(60);
        let world = poor_and_good(poor()).leases(|record| {
            assert!(record.claim(&"office".into(), &"a".into(), &tunnel, Trust::Plain, then));
            record.stood(&tunnel, &user("ann"), secs(900), then);
            record.end(&tunnel, secs(left_before), then);
        });
        let expected = if honoured {
            on("a", Lease)
        } else {
            on("b", Score)
        };
        assert_eq!(world.ask("ann"), expected, "{left_before}");
    }
}

#[test]
fn a_lease_on_a_host_in_maintenance_is_not_honoured() {
    let world = poor_and_good(poor().mode(Mode::Maintenance)).lingers("office", "a", 600);
    assert_eq!(world.ask("ann"), on("b", Score));
}

#[test]
fn a_lease_on_a_host_that_left_the_farm_is_not_honoured() {
    let world = poor_and_good(poor().gone()).lingers("office", "a", 600);
    assert_eq!(world.ask("ann"), on("b", Score));
    let world = poor_and_good(poor()).lingers("office", "vanished", 600);
    assert_eq!(world.ask("ann"), on("b", Score));
}

#[test]
fn a_failing_probe_moves_the_user_only_after_reconnect_failover() {
    for (failover, failing, stays) in [
        (30, 29, true),
        (30, 30, false),
        (30, 31, false),
        (120, 119, true),
        (120, 120, false),
        (0, 0, false),
    ] {
        let world = poor_and_good(poor().failing(failing))
            .rules(|r| r.reconnect_failover = secs(failover))
            .lingers("office", "a", 600);
        let expected = if stays {
            on("a", Lease)
        } else {
            on("b", Score)
        };
        assert_eq!(world.ask("ann"), expected, "{failover} {failing}");
    }
}

#[test]
fn while_the_host_fails_the_lease_draws_its_user_there_even_alone() {
    let world = farm("office")
        .with(host("a").failing(10))
        .lingers("office", "a", 600);
    assert_eq!(world.ask("ann"), on("a", Lease));
    assert_eq!(
        world.ask("bob"),
        on("a", Lease),
        "the record is the asker's own"
    );
}

#[test]
fn another_farms_lease_is_taken_where_its_host_is_a_member() {
    let world = farm("office")
        .with(host("a").reporting())
        .farm("erp")
        .with(host("shared").reporting().also_in("office").cpu(99.0))
        .lingers("erp", "shared", 600);
    assert_eq!(world.ask("ann"), on("shared", Lease));
}

#[test]
fn another_farms_lease_does_not_cross_the_boundary() {
    let world = farm("office")
        .with(host("a").reporting())
        .farm("erp")
        .with(host("e").reporting())
        .lingers("erp", "e", 600);
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(world.ask_for("erp", "ann"), on("e", Lease));
}

#[test]
fn this_farms_own_lease_comes_before_another_farms() {
    let world = farm("office")
        .with(host("a").reporting().cpu(99.0))
        .farm("erp")
        .with(host("shared").reporting().also_in("office"))
        .lingers("erp", "shared", 900)
        .lingers("office", "a", 1);
    assert_eq!(world.ask("ann"), on("a", Lease));
    assert_eq!(world.ask_for("erp", "ann"), on("shared", Lease));
}

#[test]
fn where_this_farms_own_lease_cannot_be_used_another_farms_may() {
    let world = farm("office")
        .with(host("a").reporting().mode(Mode::Maintenance))
        .with(host("b").reporting())
        .farm("erp")
        .with(host("shared").reporting().also_in("office").cpu(99.0))
        .lingers("erp", "shared", 900)
        .lingers("office", "a", 900);
    assert_eq!(world.ask("ann"), on("shared", Lease));
}

#[test]
fn a_claim_that_ran_out_leaves_the_lease_it_replaced() {
    let (office, then) = (FarmId::from("office"), ago(50));
    let world = poor_and_good(poor()).leases(|record| {
        assert!(record.claim(&office, &"a".into(), &"old".into(), Trust::Plain, then));
        record.stood(&"old".into(), &user("ann"), secs(900), then);
        record.end(&"old".into(), secs(900), then);
        assert!(record.claim(&office, &"b".into(), &"new".into(), Trust::Plain, then));
    });
    assert_eq!(world.ask("ann"), on("a", Lease));
}

#[test]
fn one_key_a_user_or_one_a_user_farm_and_resource() {
    let key = |single: bool, resource: &str| {
        let world = farm("office")
            .with(host("a").answering())
            .farm("erp")
            .with(host("e").answering())
            .resource(Resource {
                farm_id: Some("erp".into()),
                ..desktop("sage")
            })
            .rules(|r| r.single_session_per_user = single);
        let decision = world.decide(by_resource(resource), "CORP\\Ann");
        decision.key.unwrap().to_string()
    };
    assert_eq!(key(true, "office"), "corp\\ann");
    assert_eq!(key(true, "sage"), "corp\\ann");
    assert_eq!(key(false, "office"), "corp\\ann|office|office");
    assert_eq!(key(false, "erp"), "corp\\ann|erp|erp");
    assert_eq!(key(false, "sage"), "corp\\ann|erp|sage");
}
