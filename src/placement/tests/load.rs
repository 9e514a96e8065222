//! A placement is one active session from its claim on, and never two.

use super::build::*;
use crate::placement::SessionState::*;
use crate::placement::*;

/// Active and disconnected sessions as the score counts them.
fn load(words: HostWords) -> (u32, u32) {
    let score = farm("office").with(words).candidate("a").score;
    (score.active, score.disconnected)
}

fn agent() -> HostWords {
    host("a").reporting()
}

fn agentless() -> HostWords {
    host("a").answering()
}

#[test]
fn reported_sessions_count_by_their_state() {
    let a = agent().session("u", Active).session("v", Connected);
    assert_eq!(load(a.session("w", Disconnected)), (2, 1));
}

#[test]
fn a_placement_counts_from_its_claim_until_a_report_shows_it() {
    for (what, a, expected) in [
        ("pending", agent().pending("ann"), (1, 0)),
        ("stood", agent().stood("ann", 1), (1, 0)),
        (
            "pending and seen",
            agent().pending("ann").session("ann", Active),
            (1, 0),
        ),
        (
            "pending and seen connected",
            agent().pending("ann").session("ann", Connected),
            (1, 0),
        ),
        (
            "stood and seen",
            agent().stood("ann", 9).session("ann", Active),
            (1, 0),
        ),
        (
            "stood long ago and seen",
            agent().stood("ann", 900).session("ann", Active),
            (1, 0),
        ),
        (
            "somebody else seen",
            agent().pending("ann").session("bob", Active),
            (2, 0),
        ),
    ] {
        assert_eq!(load(a), expected, "{what}");
    }
}

#[test]
fn a_session_reported_without_a_domain_is_the_placement_it_shows() {
    assert_eq!(
        load(agent().pending("corp\\ann").session("ann", Active)),
        (1, 0)
    );
    assert_eq!(
        load(agent().pending("corp\\ann").session("lab\\ann", Active)),
        (2, 0)
    );
}

#[test]
fn with_an_agent_an_unseen_tunnel_counts_for_sixty_seconds_after_it_stood() {
    assert_eq!(UNSEEN, secs(60));
    for (stood, expected) in [(0, 1), (59, 1), (60, 0), (61, 0), (86_400, 0)] {
        assert_eq!(load(agent().stood("ann", stood)), (expected, 0), "{stood}");
    }
}

#[test]
fn with_an_agent_a_pending_tunnel_counts_for_as_long_as_it_is_pending() {
    assert_eq!(load(agent().pending("ann").pending("")), (2, 0));
}

#[test]
fn a_user_on_the_way_back_to_a_session_left_behind_makes_it_active() {
    for (what, a, expected) in [
        ("pending", agent().pending("ann"), (1, 0)),
        ("stood", agent().stood("ann", 30), (1, 0)),
        // The agent would have said so by now.
        ("stood long ago", agent().stood("ann", 60), (0, 1)),
    ] {
        assert_eq!(load(a.session("ann", Disconnected)), expected, "{what}");
    }
}

#[test]
fn a_user_with_two_sessions_left_behind_makes_one_of_them_active() {
    let two = || {
        agent()
            .session("ann", Disconnected)
            .session("ann", Disconnected)
    };
    assert_eq!(load(two()), (0, 2));
    assert_eq!(load(two().pending("ann")), (1, 1));
}

#[test]
fn a_user_with_an_active_session_beside_one_left_behind_adds_nothing() {
    for a in [
        agent().session("ann", Active).session("ann", Disconnected),
        agent().session("ann", Disconnected).session("ann", Active),
    ] {
        assert_eq!(load(a.pending("ann")), (1, 1));
    }
}

#[test]
fn two_tunnels_of_one_user_are_one_session() {
    for (what, a) in [
        ("agent", agent().pending("ann").pending("ann")),
        ("agent, one stands", agent().stood("ann", 5).pending("ann")),
        (
            "agent, seen",
            agent()
                .stood("ann", 5)
                .pending("ann")
                .session("ann", Active),
        ),
        ("agentless", agentless().pending("ann").pending("ann")),
        (
            "agentless, one stands",
            agentless().stood("ann", 5000).pending("ann"),
        ),
    ] {
        assert_eq!(load(a), (1, 0), "{what}");
    }
}

#[test]
fn a_new_tunnel_counts_though_an_older_one_of_its_user_no_longer_does() {
    // The first has been unseen too long to count; the second has just begun.
    assert_eq!(load(agent().stood("ann", 61).pending("ann")), (1, 0));
    assert_eq!(load(agent().pending("ann").stood("ann", 61)), (1, 0));
}

#[test]
fn tunnels_of_users_not_known_yet_count_one_each() {
    assert_eq!(load(agent().pending("").stood("", 5).stood("", 61)), (2, 0));
    assert_eq!(
        load(agentless().pending("").stood("", 5).stood("", 61)),
        (3, 0)
    );
}

#[test]
fn without_an_agent_a_tunnel_counts_for_as_long_as_it_is_open() {
    for stood in [0, 60, 86_400] {
        assert_eq!(load(agentless().stood("ann", stood)), (1, 0), "{stood}");
    }
}

#[test]
fn without_an_agent_lingering_leases_are_the_disconnected_sessions() {
    let a = agentless()
        .lease_of("u", 1)
        .lease_of("v", 900)
        .lease_of("expired", 0);
    assert_eq!(load(a), (0, 2));
}

#[test]
fn a_user_on_the_way_back_to_a_lease_left_behind_is_one_session() {
    for back in [agentless().pending("u"), agentless().stood("u", 5)] {
        assert_eq!(load(back.lease_of("u", 900).lease_of("v", 900)), (1, 1));
    }
}

#[test]
fn with_an_agent_lingering_leases_are_no_sessions() {
    assert_eq!(load(agent().lease_of("u", 900)), (0, 0));
}

#[test]
fn a_silent_agents_last_report_still_counts() {
    let a = agent()
        .session("u", Active)
        .session("v", Disconnected)
        .silent(3600);
    assert_eq!(load(a.pending("w")), (2, 1));
}

#[test]
fn pending_placements_spread_a_rush() {
    // Sixty logons between two reports: nobody gets everybody.
    let mut pending = [0_usize; 3];
    for n in 0..60 {
        let hosts = pending.iter().enumerate();
        let world = farm("office").rules(|r| r.max_pending_logons = 100);
        let world = hosts.fold(world, |world, (at, count)| {
            let empty = host(["a", "b", "c"][at]).reporting();
            world.with((0..*count).fold(empty, |h, k| h.pending(&format!("{at} {k}"))))
        });
        let (chosen, _) = world.ask(&format!("user{n}")).unwrap();
        pending[["a", "b", "c"]
            .iter()
            .position(|h| *h == chosen.as_str())
            .unwrap()] += 1;
    }
    assert_eq!(pending, [20, 20, 20]);
}
