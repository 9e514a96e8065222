//! An open tunnel decides alone: nobody sits on two hosts, whatever reports,
//! probes and scores say.

use std::sync::Arc;

use super::build::*;
use crate::placement::Reason::{Lease, Score, Tunnel};
use crate::placement::SessionState::*;
use crate::placement::*;

fn held(host: &str) -> Went {
    Err(Refusal::HeldElsewhere(host.into()))
}

/// Every state a host with an open tunnel may be in and still keep its user.
fn keeping() -> Vec<(&'static str, HostWords)> {
    vec![
        ("plain", host("a").answering()),
        ("drain", host("a").answering().mode(Mode::Drain)),
        ("never probed", host("a")),
        ("failing probe", host("a").failing(3600)),
        ("stale report", host("a").reporting().silent(3600)),
        ("failing and stale", host("a").failing(3600).silent(3600)),
        ("no listener", host("a").reporting().without_listener()),
        ("unhealthy", host("a").reporting().health(0)),
        (
            "without the RemoteApp",
            host("a").reporting().lacking("||Sage"),
        ),
        ("overloaded", host("a").reporting().cpu(100.0).memory(100.0)),
        (
            "user not reported",
            host("a").reporting().session("bob", Active),
        ),
    ]
}

fn both(a: HostWords) -> World {
    farm("office")
        .resource(Resource {
            farm_id: Some("office".into()),
            ..remote_app("sage", "||Sage")
        })
        .with(a)
        .with(host("b").reporting().session("ann", Active))
}

#[test]
fn a_live_lease_keeps_its_host_over_a_better_one_and_over_a_session_elsewhere() {
    for (state, a) in keeping() {
        let world = both(a).live("office", "a");
        assert_eq!(world.ask("ann"), on("a", Tunnel), "{state}");
        assert_eq!(world.ask_for("sage", "ann"), on("a", Tunnel), "{state}");
    }
}

#[test]
fn a_pending_claim_keeps_its_host_too() {
    for (state, a) in keeping() {
        let world = both(a).claimed("office", "a");
        assert_eq!(world.ask("ann"), on("a", Tunnel), "{state}");
    }
}

#[test]
fn a_tunnel_of_ours_keeps_its_host_where_the_store_lost_the_lease() {
    for (state, a) in keeping() {
        for a in [a.clone().pending("ann"), a.stood("ann", 7200)] {
            assert_eq!(both(a).ask("ann"), on("a", Tunnel), "{state}");
        }
    }
}

#[test]
fn a_tunnel_keeps_its_host_with_reconnect_existing_off() {
    let world = both(host("a").answering())
        .rules(|r| r.reconnect_existing = false)
        .live("office", "a");
    assert_eq!(world.ask("ann"), on("a", Tunnel));
}

#[test]
fn a_tunnel_on_a_host_in_maintenance_refuses_rather_than_makes_a_second_home() {
    let maintained = || host("a").answering().mode(Mode::Maintenance);
    assert_eq!(both(maintained()).live("office", "a").ask("ann"), held("a"));
    assert_eq!(
        both(maintained()).claimed("office", "a").ask("ann"),
        held("a")
    );
    assert_eq!(both(maintained().pending("ann")).ask("ann"), held("a"));
    assert_eq!(both(maintained().stood("ann", 60)).ask("ann"), held("a"));
}

#[test]
fn a_tunnel_on_a_host_that_left_the_farm_refuses() {
    let left = || host("a").answering().gone();
    assert_eq!(both(left()).live("office", "a").ask("ann"), held("a"));
    assert_eq!(both(left()).claimed("office", "a").ask("ann"), held("a"));
    assert_eq!(both(left().stood("ann", 60)).ask("ann"), held("a"));
}

#[test]
fn a_tunnel_on_a_host_that_is_no_longer_configured_refuses() {
    let world = both(host("c").answering()).live("office", "vanished");
    assert_eq!(world.ask("ann"), held("vanished"));
}

#[test]
fn a_refusal_over_an_open_tunnel_ends_with_that_tunnel() {
    let world = farm("office")
        .with(host("a").answering().mode(Mode::Maintenance))
        .with(host("b").answering())
        .live("office", "a");
    assert_eq!(world.ask("ann"), held("a"));
    let ended = world.leases(|record| record.end(&"stands office a".into(), secs(900), NOW));
    assert_eq!(ended.ask("ann"), on("b", Score));
}

#[test]
fn an_expired_hold_decides_nothing() {
    let world = farm("office")
        .with(host("a").reporting().cpu(90.0))
        .with(host("b").reporting())
        .leases(|r| {
            let tunnel = "t".into();
            assert!(r.claim(
                &"office".into(),
                &"a".into(),
                &tunnel,
                Trust::Plain,
                NOW - CLAIM
            ));
        });
    assert_eq!(world.ask("ann"), on("b", Score));
}

#[test]
fn somebody_elses_tunnel_decides_nothing() {
    let world = farm("office")
        .with(
            host("a")
                .answering()
                .stood("bob", 60)
                .stood("other\\ann", 60)
                .stood("", 60),
        )
        .with(host("b").answering());
    assert_eq!(world.ask("ann"), on("b", Score));
}

#[test]
fn a_tunnel_in_another_farm_is_followed_where_its_host_is_in_this_farm_too() {
    let world = farm("office")
        .with(host("a").reporting())
        .farm("erp")
        .with(host("shared").reporting().also_in("office").cpu(99.0));
    assert_eq!(
        world.clone().live("erp", "shared").ask("ann"),
        on("shared", Tunnel)
    );
    assert_eq!(
        world.claimed("erp", "shared").ask("ann"),
        on("shared", Tunnel)
    );
}

#[test]
fn a_tunnel_in_another_farm_on_a_host_of_that_farm_alone_does_not_cross_the_boundary() {
    let world = farm("office")
        .with(host("a").answering())
        .farm("erp")
        .with(
            host("e")
                .reporting()
                .session("ann", Active)
                .stood("ann", 60),
        )
        .live("erp", "e");
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(world.ask_for("erp", "ann"), on("e", Tunnel));
}

#[test]
fn a_shared_host_in_maintenance_does_not_bar_the_farm_its_tunnel_is_not_in() {
    let world = farm("office")
        .with(host("a").answering())
        .farm("erp")
        .with(
            host("shared")
                .answering()
                .also_in("office")
                .mode(Mode::Maintenance),
        )
        .live("erp", "shared");
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(world.ask_for("erp", "ann"), held("shared"));
}

#[test]
fn this_farms_tunnel_comes_before_another_farms() {
    let world = farm("office")
        .with(host("a").answering())
        .farm("erp")
        .with(host("shared").answering().also_in("office"))
        .live("office", "a")
        .live("erp", "shared");
    assert_eq!(world.ask("ann"), on("a", Tunnel));
    assert_eq!(world.ask_for("erp", "ann"), on("shared", Tunnel));
}

#[test]
fn a_tunnel_open_in_another_farm_comes_before_a_lease_that_lingers_in_this_one() {
    let world = farm("office")
        .with(host("a").answering())
        .farm("erp")
        .with(host("shared").answering().also_in("office"))
        .lingers("office", "a", 600);
    assert_eq!(world.ask("ann"), on("a", Lease));
    assert_eq!(world.live("erp", "shared").ask("ann"), on("shared", Tunnel));
}

#[test]
fn with_a_key_a_resource_two_resources_may_be_on_two_hosts() {
    let on_a = |user: &str, resource: &str| {
        let key = LeaseKey::of_resource(&user_key(user), &"office".into(), Some(&resource.into()));
        let mut a = host("a").reporting().cpu(90.0).pending(user);
        a = a.view(|view| Arc::make_mut(&mut view.tunnels[0]).key = Some(key));
        both(a).rules(|r| {
            r.single_session_per_user = false;
            r.reconnect_existing = false;
        })
    };
    assert_eq!(on_a("ann", "sage").ask_for("sage", "ann"), on("a", Tunnel));
    assert_eq!(on_a("ann", "sage").ask_for("office", "ann"), on("b", Score));
}

fn user_key(name: &str) -> UserKey {
    user(name)
}

#[test]
fn a_decision_made_by_a_tunnel_lists_no_candidates() {
    let decision = both(host("a").answering()).live("office", "a");
    let decision = decision.decide(by_resource("office"), "ann");
    assert!(decision.candidates.is_empty());
    assert_eq!(decision.key.unwrap().as_str(), "ann");
}
