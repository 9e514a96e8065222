//! How full a host is and how full it may be: users, logons under way, and
//! what either does to newcomers and to those who come back.

use std::sync::Arc;

use super::build::*;
use crate::placement::Reason::{Lease, Reconnect, Score, Tunnel};
use crate::placement::SessionState::*;
use crate::placement::*;

fn agent() -> HostWords {
    host("a").reporting()
}

fn agentless() -> HostWords {
    host("a").answering()
}

fn occupancy(words: HostWords) -> (u32, u32) {
    let occupancy = farm("office").with(words).candidate("a").occupancy;
    (occupancy.users, occupancy.pending)
}

fn users(words: HostWords) -> u32 {
    occupancy(words).0
}

fn pending(words: HostWords) -> u32 {
    occupancy(words).1
}

#[test]
fn a_user_occupies_a_host_once_however_many_ways_they_are_seen() {
    for (what, a, expected) in [
        ("empty", agent(), 0),
        ("a session", agent().session("u", Active), 1),
        ("one left behind", agent().session("u", Disconnected), 1),
        (
            "two sessions of one user",
            agent().session("u", Active).session("u", Disconnected),
            1,
        ),
        ("a tunnel", agent().stood("u", 500), 1),
        ("a placement", agent().pending("u"), 1),
        (
            "a tunnel and its session",
            agent().stood("u", 5).session("u", Active),
            1,
        ),
        (
            "a qualified tunnel and its bare session",
            agent().stood("corp\\u", 5).session("u", Active),
            1,
        ),
        (
            "two tunnels of one user",
            agent().stood("u", 5).pending("u"),
            1,
        ),
        ("two users", agent().stood("u", 5).session("v", Active), 2),
        (
            "without an agent",
            agentless().stood("u", 500).pending("v"),
            2,
        ),
        ("nobody yet known", agentless().pending("").stood("", 5), 2),
        ("a lease that lingers", agentless().lease_of("u", 900), 0),
    ] {
        assert_eq!(users(a), expected, "{what}");
    }
}

#[test]
fn a_logon_is_under_way_until_the_session_is_seen_and_sixty_seconds_at_most() {
    let since = |seconds| {
        move |view: &mut HostView| Arc::make_mut(&mut view.tunnels[0]).since = ago(seconds)
    };
    for (what, a, expected) in [
        ("claimed", agent().pending("u"), 1),
        ("stood, not seen", agent().stood("u", 30), 1),
        ("seen", agent().stood("u", 30).session("u", Active), 0),
        (
            "seen before it stood",
            agent().pending("u").session("u", Connected),
            0,
        ),
        (
            "somebody else seen",
            agent().pending("u").session("v", Active),
            1,
        ),
        ("never seen", agent().pending("u").view(since(59)), 1),
        (
            "never seen, too long",
            agent().pending("u").view(since(60)),
            0,
        ),
        ("stood, too long", agent().stood("u", 60), 0),
        ("claimed, no agent", agentless().pending("u"), 1),
        ("stood, no agent", agentless().stood("u", 0), 0),
        (
            "claimed too long, no agent",
            agentless().pending("u").view(since(60)),
            0,
        ),
        ("nobody yet known", agent().pending(""), 1),
    ] {
        assert_eq!(pending(a), expected, "{what}");
    }
}

#[test]
fn connections_of_one_user_that_open_together_are_one_logon() {
    let five = (0..5).fold(agentless(), |a, _| a.pending("u"));
    assert_eq!(pending(five), 1);
    let two_strangers = agentless().pending("").pending("");
    assert_eq!(pending(two_strangers), 2);
}

#[test]
fn a_full_host_takes_nobody_new() {
    let world = |most| {
        farm("office")
            .rules(|r| r.max_sessions = most)
            .with(agent().session("u", Active).session("v", Disconnected))
            .with(host("b").reporting().health(60).cpu(99.0))
    };
    assert_eq!(world(None).ask("ann"), on("a", Score));
    assert_eq!(world(Some(3)).ask("ann"), on("a", Score));
    assert_eq!(world(Some(2)).ask("ann"), on("b", Score));
    assert_eq!(
        world(Some(2)).candidate("a").exclusion,
        Some(Exclusion::Full)
    );
}

#[test]
fn a_full_host_takes_its_users_back() {
    let full = |a: HostWords| {
        farm("office")
            .rules(|r| r.max_sessions = Some(1))
            .with(a.session("u", Active))
            .with(host("b").reporting())
    };
    let back = full(agent().session("ann", Disconnected)).ask("ann");
    assert_eq!(back, on("a", Reconnect(Disconnected)));
    assert_eq!(
        full(agent()).lingers("office", "a", 60).ask("ann"),
        on("a", Lease)
    );
    assert_eq!(
        full(agent()).live("office", "a").ask("ann"),
        on("a", Tunnel)
    );
    assert_eq!(full(agent()).ask("ann"), on("b", Score));
}

#[test]
fn a_farm_that_is_full_is_busy_for_newcomers_alone() {
    let world = farm("office")
        .rules(|r| r.max_sessions = Some(1))
        .with(agent().session("ann", Disconnected));
    assert_eq!(world.ask("bob"), Err(Refusal::Busy("office".into())));
    assert_eq!(world.ask("ann"), on("a", Reconnect(Disconnected)));
}

#[test]
fn a_host_with_its_fill_of_logons_is_passed_over() {
    let world = |cap| {
        farm("office")
            .rules(|r| r.max_pending_logons = cap)
            .with(agent().pending("u").pending("v"))
            .with(host("b").reporting().health(60).cpu(99.0))
    };
    assert_eq!(world(3).ask("ann"), on("a", Score));
    assert_eq!(world(2).ask("ann"), on("b", Score));
    let why = world(2).candidate("a").exclusion;
    assert_eq!(why, Some(Exclusion::LogonsPending));
}

#[test]
fn only_where_every_host_that_could_is_at_its_cap_is_it_waited_for() {
    let waits = Err(Refusal::LogonsPending("office".into()));
    let busy_a = || agent().pending("u");
    let with = |b: HostWords| {
        let world = farm("office").rules(|r| r.max_pending_logons = 1);
        world.with(busy_a()).with(b).ask("ann")
    };
    assert_eq!(with(host("b").reporting().pending("v")), waits);
    assert_eq!(with(host("b").failing(60)), waits);
    assert_eq!(with(host("b").reporting().mode(Mode::Maintenance)), waits);
    assert_eq!(with(host("b").reporting()), on("b", Score));
}

#[test]
fn a_host_out_for_another_reason_is_not_waited_for() {
    let ask = |a: HostWords| {
        let world = farm("office").rules(|r| r.max_pending_logons = 1);
        world.with(a.pending("u")).ask("ann")
    };
    let busy = Err(Refusal::Busy("office".into()));
    assert_eq!(ask(agent().mode(Mode::Drain)), busy);
    assert_eq!(ask(agent().health(59)), busy);
    assert_eq!(
        ask(agent().failing(60)),
        Err(Refusal::Unreachable("office".into()))
    );
    let full = farm("office").rules(|r| {
        r.max_pending_logons = 1;
        r.max_sessions = Some(1);
    });
    assert_eq!(full.with(agent().pending("u")).ask("ann"), busy);
}

#[test]
fn who_comes_back_waits_for_the_own_host_and_for_no_other() {
    let waits = || Err(Refusal::LogonsPending("office".into()));
    let world = |a: HostWords| {
        farm("office")
            .rules(|r| r.max_pending_logons = 1)
            .with(a)
            .with(host("b").reporting())
    };
    let session = agent().session("ann", Disconnected);
    assert_eq!(world(session.clone().pending("u")).ask("ann"), waits());
    assert_eq!(world(session).ask("ann"), on("a", Reconnect(Disconnected)));
    let lease = |a| world(a).lingers("office", "a", 600).ask("ann");
    assert_eq!(lease(agent().pending("u")), waits());
    assert_eq!(lease(agent()), on("a", Lease));
}

#[test]
fn an_open_tunnel_waits_for_no_logon() {
    let world = farm("office")
        .rules(|r| r.max_pending_logons = 1)
        .with(agent().pending("u"))
        .live("office", "a");
    assert_eq!(world.ask("ann"), on("a", Tunnel));
}

#[test]
fn a_host_without_any_logon_allowed_takes_nobody() {
    let world = farm("office")
        .rules(|r| r.max_pending_logons = 0)
        .with(agent());
    assert_eq!(
        world.ask("ann"),
        Err(Refusal::LogonsPending("office".into()))
    );
}

#[test]
fn the_hosts_own_word_comes_before_the_farms_and_that_before_the_brokers() {
    let caps = |own: Option<u32>, of_farm: Option<u32>, global: u32| {
        let world = farm("office")
            .whose_farm(|f| {
                f.overrides.max_sessions = of_farm;
                f.overrides.max_pending_logons = of_farm;
                f.overrides.slow_start = of_farm.map(|n| secs(n.into()));
            })
            .rules(|r| {
                r.max_sessions = Some(global);
                r.max_pending_logons = global;
                r.slow_start = secs(global.into());
            })
            .with(host("a").configured(|h| {
                h.max_sessions = own;
                h.max_pending_logons = own;
            }));
        world.directory().caps(&"a".into()).unwrap()
    };
    let all = |sessions, logons, seconds| Caps {
        max_sessions: Some(sessions),
        max_pending_logons: logons,
        slow_start: secs(seconds),
    };
    assert_eq!(caps(None, None, 3), all(3, 3, 3));
    assert_eq!(caps(None, Some(2), 3), all(2, 2, 2));
    assert_eq!(caps(Some(1), Some(2), 3), all(1, 1, 2));
    assert_eq!(caps(Some(1), None, 3), all(1, 1, 3));
}

#[test]
fn of_several_farms_the_first_the_host_names_rules_it_then_the_first_by_id() {
    let world = |own: &[&str]| {
        let farm_ids: Vec<_> = own.iter().map(|id| FarmId::from(*id)).collect();
        let limited = |most| move |f: &mut Farm| f.overrides.max_sessions = Some(most);
        farm("a-farm")
            .whose_farm(limited(1))
            .whose_farm(|f| f.agent_ids = vec!["h".into()])
            .farm("b-farm")
            .whose_farm(limited(2))
            .farm("c-farm")
            .whose_farm(limited(3))
            .with(host("h").gone().configured(|h| h.farm_ids = farm_ids))
            .directory()
            .caps(&"h".into())
            .unwrap()
            .max_sessions
    };
    assert_eq!(world(&["c-farm", "b-farm"]), Some(3));
    assert_eq!(world(&["b-farm", "c-farm"]), Some(2));
    assert_eq!(world(&["ghost", "c-farm"]), Some(3));
    assert_eq!(world(&[]), Some(1));
}

#[test]
fn a_host_of_no_farm_goes_by_the_brokers_rules_and_a_stranger_by_none() {
    let directory = farm("office").with(host("a").gone()).directory();
    let caps = directory.caps(&"a".into()).unwrap();
    assert_eq!(caps.max_pending_logons, Rules::default().max_pending_logons);
    assert_eq!(directory.caps(&"nobody".into()), None);
}
