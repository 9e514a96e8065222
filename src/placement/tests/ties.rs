//! Equal scores: fewer sessions, then a stable hash of user and host id.

use std::collections::BTreeMap;

use super::build::*;
use crate::placement::Reason::Score;
use crate::placement::SessionState::*;
use crate::placement::score::tie_hash;
use crate::placement::*;

fn equals(ids: &[&str]) -> World {
    let ids = ids.iter();
    ids.fold(farm("office"), |world, id| world.with(host(id).answering()))
}

fn chosen(world: &World, who: &str) -> String {
    world.ask(who).unwrap().0.to_string()
}

#[test]
fn of_equal_scores_fewer_sessions_win() {
    // 1000 - 20 on both; four disconnected sessions weigh what one active does.
    let a = (0..4).fold(host("a").reporting(), |a, n| {
        a.session(&n.to_string(), Disconnected)
    });
    let world = farm("office")
        .with(a)
        .with(host("b").reporting().session("u", Active));
    let (a, b) = (world.candidate("a").score, world.candidate("b").score);
    assert_eq!(a.total, b.total);
    assert_eq!((a.sessions(), b.sessions()), (4, 1));
    for n in 0..50 {
        assert_eq!(world.ask(&format!("user{n}")), on("b", Score));
    }
}

#[test]
fn a_higher_score_beats_fewer_sessions() {
    let world = farm("office")
        .with(host("a").reporting().session("u", Active))
        .with(host("b").reporting().health(97));
    assert_eq!(world.ask("ann"), on("a", Score));
}

/// A change here moves users of every farm whose hosts are equal: on purpose
/// or not at all.
#[test]
fn the_hash_is_what_it_was_in_every_release() {
    for (who, host, hash) in PINNED {
        let user = UserKey::new(who, "");
        assert_eq!(tie_hash(user.as_ref(), &host.into()), hash, "{who} {host}");
    }
}

const PINNED: [(&str, &str, u64); 6] = [
    ("", "a", 0xaab5_7dba_964b_43df),
    ("ann", "a", 0x8763_7906_1ecf_77af),
    ("ann", "b", 0xd2bd_6fdf_0a7c_7c23),
    ("corp\\ann", "a", 0x4406_2b7f_3330_1812),
    ("CORP\\Ann", "a", 0x4406_2b7f_3330_1812),
    ("b\u{fc}rger", "rds-01", 0x73c7_d025_7dbf_3446),
];

#[test]
fn user_and_host_do_not_run_into_each_other() {
    let hash = |who: &str, host: &str| tie_hash(Some(&user(who)), &host.into());
    assert_ne!(hash("ann", "a1"), hash("anna", "1"));
}

#[test]
fn the_same_user_goes_to_the_same_of_equal_hosts_in_whatever_spelling_and_order() {
    let world = equals(&["a", "b", "c", "d"]);
    let turned = equals(&["d", "b", "c", "a"]);
    for n in 0..50 {
        let first = chosen(&world, &format!("corp\\user{n}"));
        assert_eq!(chosen(&world, &format!("USER{n}@CORP")), first);
        assert_eq!(chosen(&turned, &format!("corp\\user{n}")), first);
    }
}

#[test]
fn one_host_less_moves_only_the_users_it_had() {
    let world = equals(&["a", "b", "c", "d"]);
    let fewer = equals(&["a", "b", "c"]);
    for n in 0..200 {
        let who = format!("user{n}");
        let before = chosen(&world, &who);
        if before != "d" {
            assert_eq!(chosen(&fewer, &who), before, "{who}");
        }
    }
}

#[test]
fn a_thousand_users_spread_evenly_over_four_equal_hosts() {
    for (hosts, name) in [
        (["rds1", "rds2", "rds3", "rds4"], "user"),
        (["a", "b", "c", "d"], "corp\\u"),
        (["north-01", "south-01", "east-01", "west-01"], ""),
    ] {
        let world = equals(&hosts);
        let mut counts = BTreeMap::new();
        for n in 0..1000 {
            *counts
                .entry(chosen(&world, &format!("{name}{n}")))
                .or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 4);
        // Five standard deviations of a fair draw are 68.
        let even = |count: &i32| (182..=318).contains(count);
        assert!(counts.values().all(even), "{counts:?}");
    }
}
