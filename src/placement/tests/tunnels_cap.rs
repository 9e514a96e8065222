//! How many tunnels one user may have open.

use std::sync::Arc;

use super::build::*;
use crate::placement::Reason::{Score, Tunnel};
use crate::placement::*;

fn too_many() -> Went {
    Err(Refusal::TooManyTunnels)
}

fn world(most: Option<u32>) -> World {
    farm("office")
        .rules(|r| r.max_tunnels_per_user = most)
        .with(host("a").answering())
}

fn open(world: World, count: usize) -> World {
    world.leases(|record| {
        for n in 0..count {
            let tunnel = TunnelId::from(format!("t{n}"));
            assert!(record.claim(&"office".into(), &"a".into(), &tunnel, Trust::Plain, NOW));
        }
    })
}

#[test]
fn there_is_no_bound_unless_one_is_set() {
    assert_eq!(open(world(None), 1000).ask("ann"), on("a", Tunnel));
}

#[test]
fn at_the_bound_the_next_one_is_refused() {
    assert_eq!(world(Some(2)).ask("ann"), on("a", Score));
    assert_eq!(open(world(Some(2)), 1).ask("ann"), on("a", Tunnel));
    assert_eq!(open(world(Some(2)), 2).ask("ann"), too_many());
    assert_eq!(open(world(Some(2)), 3).ask("ann"), too_many());
    assert_eq!(world(Some(0)).ask("ann"), too_many());
}

#[test]
fn tunnels_that_ended_or_ran_out_do_not_count() {
    let ended = open(world(Some(1)), 1).leases(|r| r.end(&"t0".into(), secs(900), NOW));
    assert_eq!(ended.ask("ann"), on("a", Score));
    let ran_out = world(Some(1)).leases(|r| {
        let tunnel = "t".into();
        assert!(r.claim(
            &"office".into(),
            &"a".into(),
            &tunnel,
            Trust::Plain,
            NOW - CLAIM
        ));
    });
    assert_eq!(ran_out.ask("ann"), on("a", Score));
}

#[test]
fn a_tunnel_counts_once_by_record_and_fleet_and_in_whatever_farm() {
    let both = |most| {
        let world = farm("office")
            .rules(|r| r.max_tunnels_per_user = Some(most))
            .with(host("a").answering().pending("ann"))
            .farm("erp")
            .with(host("e").answering().pending("ann"));
        world.leases(|record| {
            let tunnel = "a 0".into();
            assert!(record.claim(&"office".into(), &"a".into(), &tunnel, Trust::Plain, NOW));
        })
    };
    assert_eq!(both(3).ask("ann"), on("a", Tunnel));
    assert_eq!(both(2).ask("ann"), too_many());
}

#[test]
fn with_a_key_a_resource_the_bound_is_still_the_users() {
    let key = LeaseKey::of_resource(&user("ann"), &"office".into(), Some(&"sage".into()));
    let a = host("a").answering().pending("ann").view(|view| {
        Arc::make_mut(&mut view.tunnels[0]).key = Some(key);
    });
    let world = farm("office").with(a).rules(|r| {
        r.single_session_per_user = false;
        r.max_tunnels_per_user = Some(1);
    });
    assert_eq!(world.ask("ann"), too_many());
    assert_eq!(world.ask("bob"), on("a", Score));
}

#[test]
fn somebody_elses_and_nobodys_tunnels_do_not_count() {
    let a = host("a")
        .answering()
        .pending("bob")
        .pending("")
        .pending("corp\\ann");
    let world = farm("office")
        .with(a)
        .rules(|r| r.max_tunnels_per_user = Some(1));
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(world.ask(""), on("a", Score));
}

#[test]
fn a_refused_tunnel_says_whose_and_where() {
    let decision = open(world(Some(1)), 1).decide(by_resource("office"), "ann");
    assert_eq!(decision.farm, Some("office".into()));
    assert_eq!(decision.user, Some(user("ann")));
    assert!(decision.candidates.is_empty());
}
