//! Coming back to a session: active, connected, disconnected, most recent,
//! host id; only in this farm, never into maintenance.

use super::build::*;
use crate::placement::Reason::{Lease, Reconnect, Score};
use crate::placement::SessionState::*;
use crate::placement::*;

#[test]
fn a_session_is_found_whatever_the_scores() {
    for state in [Active, Connected, Disconnected] {
        let world = farm("office").with(host("a").reporting()).with(
            host("b")
                .reporting()
                .health(0)
                .cpu(100.0)
                .session("ann", state),
        );
        assert_eq!(world.ask("ann"), on("b", Reconnect(state)), "{state:?}");
    }
}

#[test]
fn active_before_connected_before_disconnected_whatever_is_most_recent() {
    for (first, second) in [
        (Active, Connected),
        (Active, Disconnected),
        (Connected, Disconnected),
    ] {
        // The better state is the older one, once on each host.
        let world = farm("office")
            .with(host("a").session_from("ann", second, ago(1)))
            .with(host("b").session_from("ann", first, ago(9000)));
        assert_eq!(world.ask("ann"), on("b", Reconnect(first)));
        let world = farm("office")
            .with(host("a").session_from("ann", first, ago(9000)))
            .with(host("b").session_from("ann", second, ago(1)));
        assert_eq!(world.ask("ann"), on("a", Reconnect(first)));
    }
}

#[test]
fn the_most_recent_of_one_state_then_the_host_id() {
    let with = |a: u64, b: u64, c: u64| {
        let session = |id, t| {
            host(id)
                .reporting()
                .session_from("ann", Disconnected, ago(t))
        };
        farm("office")
            .with(session("c", c))
            .with(session("b", b))
            .with(session("a", a))
            .ask("ann")
    };
    assert_eq!(with(50, 10, 90), on("b", Reconnect(Disconnected)));
    assert_eq!(with(50, 90, 10), on("c", Reconnect(Disconnected)));
    assert_eq!(with(90, 10, 10), on("b", Reconnect(Disconnected)));
    assert_eq!(with(10, 10, 10), on("a", Reconnect(Disconnected)));
}

#[test]
fn the_best_of_several_sessions_on_one_host_counts() {
    let world = farm("office")
        .with(
            host("a")
                .session("ann", Disconnected)
                .session("ann", Active),
        )
        .with(host("b").session("ann", Connected));
    assert_eq!(world.ask("ann"), on("a", Reconnect(Active)));
}

#[test]
fn reconnect_existing_can_be_off_for_all_or_for_one_farm() {
    for (global, own, comes_back) in [
        (true, None, true),
        (false, None, false),
        (true, Some(false), false),
        (false, Some(true), true),
    ] {
        let world = farm("office")
            .whose_farm(|f| f.overrides.reconnect_existing = own)
            .rules(|r| r.reconnect_existing = global)
            .with(host("a").reporting().cpu(50.0).session("ann", Disconnected))
            .with(host("b").reporting());
        let expected = if comes_back {
            on("a", Reconnect(Disconnected))
        } else {
            on("b", Score)
        };
        assert_eq!(world.ask("ann"), expected, "{global} {own:?}");
    }
}

#[test]
fn with_reconnect_existing_off_a_lease_still_holds() {
    let world = farm("office")
        .rules(|r| r.reconnect_existing = false)
        .with(host("a").reporting().session("ann", Active))
        .with(host("b").reporting().cpu(90.0))
        .lingers("office", "b", 60);
    assert_eq!(world.ask("ann"), on("b", Lease));
}

#[test]
fn drain_lets_a_user_back_and_maintenance_does_not() {
    for (mode, expected) in [
        (Mode::Online, on("a", Reconnect(Disconnected))),
        (Mode::Drain, on("a", Reconnect(Disconnected))),
        (Mode::Maintenance, on("b", Score)),
    ] {
        let world = farm("office")
            .with(
                host("a")
                    .reporting()
                    .mode(mode)
                    .session("ann", Disconnected),
            )
            .with(host("b").reporting().health(60));
        assert_eq!(world.ask("ann"), expected, "{mode:?}");
    }
}

#[test]
fn a_session_behind_maintenance_gives_way_to_a_lesser_one() {
    let world = farm("office")
        .with(
            host("a")
                .reporting()
                .mode(Mode::Maintenance)
                .session("ann", Active),
        )
        .with(host("b").reporting().session("ann", Disconnected));
    assert_eq!(world.ask("ann"), on("b", Reconnect(Disconnected)));
}

#[test]
fn a_session_on_a_host_of_another_farm_is_ignored() {
    let world = farm("office")
        .with(host("a").answering())
        .farm("erp")
        .with(host("e").session("ann", Active));
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(world.ask_for("erp", "ann"), on("e", Reconnect(Active)));
}

#[test]
fn a_session_on_a_host_that_left_the_farm_is_ignored() {
    let world = farm("office")
        .with(host("a").answering())
        .with(host("b").gone().session("ann", Active));
    assert_eq!(world.ask("ann"), on("a", Score));
}

#[test]
fn a_session_is_this_users_by_both_parts_or_by_user_alone_where_it_has_no_domain() {
    for (who, reported, same) in [
        ("corp\\ann", "CORP\\Ann", true),
        ("corp\\ann", "ann@corp", true),
        ("corp\\ann", "ANN", true),
        ("corp\\ann", "other\\ann", false),
        ("corp\\ann", "corp\\bob", false),
        ("ann", "ann", true),
        // Nothing says that this bare name is corp's.
        ("ann", "corp\\ann", false),
        ("corp\\J\u{fc}rgen", "CORP\\JU\u{308}RGEN", true),
    ] {
        let world = farm("office")
            .with(
                host("a")
                    .reporting()
                    .cpu(90.0)
                    .session(reported, Disconnected),
            )
            .with(host("b").reporting());
        let expected = if same {
            on("a", Reconnect(Disconnected))
        } else {
            on("b", Score)
        };
        assert_eq!(world.ask(who), expected, "{who} {reported}");
    }
}

#[test]
fn a_session_in_an_old_report_still_draws_its_user() {
    let world = farm("office")
        .with(
            host("a")
                .reporting()
                .silent(3600)
                .session("ann", Disconnected),
        )
        .with(host("b").reporting());
    assert_eq!(world.ask("ann"), on("a", Reconnect(Disconnected)));
}

#[test]
fn a_full_or_unhealthy_host_takes_its_users_back() {
    for a in [
        host("a").reporting().health(0),
        host("a").reporting().without_listener(),
        host("a").reporting().lacking("||Sage"),
    ] {
        let world = farm("office")
            .resource(Resource {
                farm_id: Some("office".into()),
                ..remote_app("sage", "||Sage")
            })
            .with(a.session("ann", Disconnected))
            .with(host("b").reporting());
        assert_eq!(world.ask("ann"), on("a", Reconnect(Disconnected)));
        assert_eq!(
            world.ask_for("sage", "ann"),
            on("a", Reconnect(Disconnected))
        );
    }
}

#[test]
fn a_user_is_moved_only_after_the_probe_failed_for_reconnect_failover() {
    for (failing, expected) in [
        (0, on("a", Reconnect(Disconnected))),
        (29, on("a", Reconnect(Disconnected))),
        (30, on("b", Score)),
        (300, on("b", Score)),
    ] {
        let world = farm("office")
            .with(
                host("a")
                    .reporting()
                    .failing(failing)
                    .session("ann", Disconnected),
            )
            .with(host("b").reporting());
        assert_eq!(world.ask("ann"), expected, "{failing}");
    }
}

#[test]
fn a_tunnel_that_stood_since_the_probe_failed_proves_the_host() {
    let a = |stood| host("a").reporting().failing(300).stood("bob", stood);
    let ask = |a: HostWords| {
        farm("office")
            .with(a.session("ann", Disconnected))
            .with(host("b").reporting())
            .ask("ann")
    };
    assert_eq!(ask(a(299)), on("a", Reconnect(Disconnected)));
    assert_eq!(ask(a(300)), on("a", Reconnect(Disconnected)));
    assert_eq!(ask(a(301)), on("b", Score));
}

#[test]
fn a_session_comes_before_a_lease() {
    let world = farm("office")
        .with(host("a").reporting().session("ann", Disconnected))
        .with(host("b").reporting())
        .lingers("office", "b", 600);
    assert_eq!(world.ask("ann"), on("a", Reconnect(Disconnected)));
}

#[test]
fn reasons_read_as_the_step_that_chose() {
    for (reason, text) in [
        (Reason::Tunnel, "tunnel already open there"),
        (Reconnect(Active), "active session there"),
        (Reconnect(Connected), "connected session there"),
        (Reconnect(Disconnected), "disconnected session there"),
        (Lease, "lease"),
        (Score, "best score"),
    ] {
        assert_eq!(reason.to_string(), text);
    }
}
