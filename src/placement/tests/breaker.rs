//! A breaker opens on what says something about its host, lets one tunnel try
//! after its time, and opens for longer where that did not help.

use std::sync::Arc;

use super::build::*;
use crate::placement::*;

/// A tunnel that is on its way there.
fn tunnel(who: &str, resource: &str, at: Timestamp) -> TunnelView {
    let user = UserKey::new(who, "");
    TunnelView {
        tunnel: format!("{who} {resource} {}", at.as_millis()).into(),
        key: user.as_ref().map(LeaseKey::of_user),
        user,
        trust: Trust::Plain,
        farm: "office".into(),
        resource: Some(resource)
            .filter(|text| !text.is_empty())
            .map(Into::into),
        since: at,
        stood: None,
        elsewhere: false,
    }
}

fn at(seconds: u64) -> Timestamp {
    NOW + secs(seconds)
}

/// A host, and what happens to it second by second.
#[derive(Default)]
struct Watched(HostView);

impl Watched {
    fn fails(&mut self, seconds: u64, who: &str, resource: &str) -> bool {
        let tunnel = tunnel(who, resource, at(seconds));
        self.0.attempt_failed(&tunnel, at(seconds))
    }

    fn stands(&mut self, seconds: u64) -> bool {
        self.0.attempt_stood(at(seconds))
    }

    /// Two users at two resources.
    fn opened(seconds: u64) -> Self {
        let mut host = Self::default();
        assert!(!host.fails(seconds, "ann", "erp"));
        assert!(host.fails(seconds, "bob", "desktop"));
        host
    }

    /// The probe fails, and answers again.
    fn blinks(&mut self, down: u64, up: u64) -> bool {
        assert!(!self.0.probe_changed(false, at(down)));
        self.0.probe_changed(true, at(up))
    }

    fn state(&self, seconds: u64) -> &'static str {
        match self.0.breaker(at(seconds)) {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen(_) => "half open",
            BreakerState::Open(_) => "open",
        }
    }

    /// For how long it opened last, as of that moment.
    fn span(&self, seconds: u64) -> u64 {
        let opening = self.0.breaker(at(seconds)).opening().unwrap();
        opening.until.since(opening.since).as_secs()
    }

    fn told(&self, seconds: u64) -> String {
        let opening = self.0.breaker(at(seconds)).opening().unwrap();
        opening.told(at(seconds))
    }
}

#[test]
fn two_users_at_two_resources_open_it() {
    let host = Watched::opened(0);
    assert_eq!(host.state(0), "open");
    assert_eq!(
        host.told(0),
        "breaker open for 5 s more: connections of ann (erp) and bob (desktop) failed there"
    );
}

#[test]
fn one_users_or_one_resources_failures_never_open_it() {
    for (what, failures) in [
        (
            "one user",
            [("ann", "erp"), ("ann", "desktop"), ("ann", "mail")],
        ),
        (
            "one resource",
            [("ann", "erp"), ("bob", "erp"), ("cid", "erp")],
        ),
        ("no resource", [("ann", ""), ("bob", ""), ("cid", "")]),
        (
            "nobody known",
            [("", "erp"), ("", "desktop"), ("ann", "mail")],
        ),
        (
            "one connection",
            [("ann", "erp"), ("ann", "erp"), ("ann", "erp")],
        ),
    ] {
        let mut host = Watched::default();
        for round in 0..20 {
            for (who, resource) in failures {
                assert!(!host.fails(round, who, resource), "{what}");
            }
        }
        assert_eq!(host.state(19), "closed", "{what}");
    }
}

#[test]
fn the_other_user_and_the_other_resource_may_come_in_any_order() {
    for (failures, last) in [
        (&[("ann", "erp"), ("bob", "erp")][..], ("ann", "desktop")),
        (&[("ann", "erp"), ("bob", "erp")], ("bob", "desktop")),
        (&[("ann", "erp"), ("ann", "desktop")], ("bob", "erp")),
        (
            &[("ann", "erp"), ("ann", "desktop"), ("ann", "mail")],
            ("bob", "mail"),
        ),
        (
            &[("ann", "erp"), ("bob", "erp"), ("cid", "erp")],
            ("cid", "mail"),
        ),
        (&[("ann", "erp"), ("bob", "erp")], ("cid", "")),
    ] {
        let mut host = Watched::default();
        for (who, resource) in failures {
            assert!(!host.fails(0, who, resource));
        }
        assert!(host.fails(1, last.0, last.1), "{failures:?} {last:?}");
    }
}

#[test]
fn a_failure_is_held_against_the_host_for_a_minute_and_until_a_tunnel_stands() {
    let mut host = Watched::default();
    host.fails(0, "ann", "erp");
    assert!(!host.fails(60, "bob", "desktop"), "a minute has passed");
    let mut host = Watched::default();
    host.fails(0, "ann", "erp");
    assert!(host.fails(59, "bob", "desktop"));
    let mut host = Watched::default();
    host.fails(0, "ann", "erp");
    assert!(!host.stands(1), "there was nothing to close");
    assert!(!host.fails(2, "bob", "desktop"));
    assert!(host.fails(3, "ann", "erp"));
}

#[test]
fn who_merely_names_users_speaks_for_none() {
    let mut host = Watched::default();
    for (who, resource) in [("ann", "erp"), ("bob", "desktop")] {
        let doubtful = TunnelView {
            trust: Trust::Doubtful,
            ..tunnel(who, resource, NOW)
        };
        assert!(!host.0.attempt_failed(&doubtful, NOW));
    }
    assert_eq!(host.state(0), "closed");
}

#[test]
fn after_its_time_it_is_half_open_until_a_tunnel_stands_or_fails() {
    let host = Watched::opened(0);
    assert_eq!([4, 5].map(|s| host.state(s)), ["open", "half open"]);
    assert!(
        host.told(5)
            .starts_with("breaker half open, one connection may try: ")
    );
    let mut well = Watched::opened(0);
    assert!(well.stands(6));
    assert_eq!(well.state(6), "closed");
    assert_eq!(well.0.turned_usable(at(6)), Some(at(6)), "filled slowly");
    assert!(!well.stands(7), "it was closed");
    let mut ill = Watched::opened(0);
    assert!(ill.fails(6, "cid", "erp"));
    assert_eq!((ill.state(6), ill.span(6)), ("open", 10));
    assert_eq!(
        ill.told(6),
        "breaker open for 10 s more: then the connection of cid (erp) failed there"
    );
}

#[test]
fn a_returning_user_who_stands_closes_one_that_is_open_and_one_who_fails_changes_nothing() {
    let mut host = Watched::opened(0);
    assert!(!host.fails(1, "cid", "mail"));
    assert_eq!((host.state(4), host.state(5)), ("open", "half open"));
    let mut host = Watched::opened(0);
    assert!(host.stands(1));
    assert_eq!(host.state(1), "closed");
}

#[test]
fn each_time_it_is_open_for_longer_up_to_a_bound_and_forgets_that_in_time() {
    let mut host = Watched::opened(0);
    let mut now = 0;
    let mut spans = vec![host.span(now)];
    for _ in 0..8 {
        now += host.span(now);
        assert!(host.fails(now, "ann", "erp"));
        spans.push(host.span(now));
    }
    assert_eq!(spans, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    // A tunnel that stood closes it; what was learnt stays for five minutes.
    now += 300;
    assert!(host.stands(now));
    host.fails(now + 1, "ann", "erp");
    assert!(host.fails(now + 2, "bob", "mail"));
    assert_eq!(host.span(now + 2), 300);
    now += 302;
    assert!(host.stands(now));
    now += 300;
    host.fails(now, "ann", "erp");
    assert!(host.fails(now, "bob", "mail"));
    assert_eq!(host.span(now), 5);
}

#[test]
fn one_that_nobody_tries_closes_by_itself() {
    let mut host = Watched::opened(0);
    assert_eq!([304, 305].map(|s| host.state(s)), ["half open", "closed"]);
    // What opened it is old: one user's failure says nothing again.
    assert!(!host.fails(305, "ann", "erp"));
}

#[test]
fn the_first_return_after_a_long_time_is_taken_at_once_and_a_flapping_host_waits_longer_each_time()
{
    let mut host = Watched::default();
    assert!(!host.blinks(0, 60));
    assert_eq!(host.state(60), "closed");
    assert!(host.blinks(70, 80), "the second return in five minutes");
    assert_eq!((host.state(80), host.span(80)), ("open", 5));
    assert_eq!(
        host.told(80),
        "breaker open for 5 s more: its probe came and went 4 times within minutes"
    );
    assert_eq!(host.state(85), "half open");
    assert!(host.blinks(90, 100));
    assert_eq!(host.span(100), 10);
    // A tunnel stood in between: it flaps all the same.
    assert!(host.stands(111));
    assert!(host.blinks(120, 130));
    assert_eq!(host.span(130), 20);
    // Quiet for long enough, and it is a host like any other.
    assert!(!host.blinks(1000, 1010));
    assert_eq!(host.state(1010), "closed");
}

#[test]
fn a_probe_whose_way_is_blocked_is_not_a_host_that_returns() {
    let mut host = Watched::default();
    for round in 0..10 {
        assert!(!host.0.probe_changed(false, at(round)));
        assert!(!host.0.probe_changed(false, at(round)));
    }
    assert_eq!(host.state(10), "closed");
}

#[test]
fn work_on_the_host_closes_it() {
    // Maintenance from the tenth to the twentieth second.
    let order = Order {
        mode: Mode::Maintenance,
        by: Actor::User {
            uid: Some(0),
            name: None,
        },
        reason: None,
        message: None,
        at: at(0),
        from: Some(at(10)),
        until: Some(at(20)),
        restart_when_drained: false,
        online_after_restart: false,
    };
    let orders = Arc::new(Orders::default().give(Mode::Online, order).0);
    let mut host = Watched::opened(8);
    host.0.modes.orders = Arc::clone(&orders);
    assert_eq!(host.state(9), "open");
    assert_eq!(host.state(20), "closed");
    // What failed during the work says nothing after it.
    let mut host = Watched::default();
    host.0.modes.orders = orders;
    host.fails(15, "ann", "erp");
    assert!(!host.fails(21, "bob", "desktop"));
    assert!(host.fails(22, "ann", "erp"));
}

#[test]
fn what_was_counted_outlives_a_reset_and_nothing_else_does() {
    let mut host = Watched::opened(0);
    host.fails(6, "ann", "erp");
    host.blinks(20, 21);
    host.blinks(22, 23);
    host.0.reset_breaker();
    assert_eq!(host.state(23), "closed");
    let Openings {
        attempts,
        trial,
        flapping,
    } = host.0.breaker.openings();
    assert_eq!((attempts, trial, flapping), (1, 1, 1));
    host.fails(24, "ann", "erp");
    assert!(host.fails(24, "bob", "mail"));
    assert_eq!(host.span(24), 5);
}

#[test]
fn a_clock_that_was_set_back_holds_nothing_against_a_host() {
    let mut host = Watched::opened(500);
    assert_eq!(host.state(400), "closed");
    assert!(!host.fails(400, "ann", "erp"));
    assert!(host.fails(401, "bob", "desktop"));
    assert_eq!(host.span(401), 5);
}

/// A host whose breaker opened so many seconds ago.
fn ill(seconds: u64) -> HostWords {
    let since = ago(seconds);
    host("a").answering().view(|view| {
        for (who, resource) in [("ann", "erp"), ("bob", "desktop")] {
            view.attempt_failed(&tunnel(who, resource, since), since);
        }
    })
}

#[test]
fn newcomers_are_kept_from_a_host_whose_breaker_is_open() {
    let world = farm("office")
        .with(ill(1))
        .with(host("b").answering().stood("x", 90));
    assert_eq!(world.ask("ann"), on("b", Reason::Score));
    let candidate = world.candidate("a");
    assert_eq!(candidate.exclusion, Some(Exclusion::Breaker));
    assert_eq!(candidate.reach, Reach::Online);
    assert!(
        candidate
            .breaker
            .unwrap()
            .told(NOW)
            .starts_with("breaker open for 4 s")
    );
    // The page asks again by itself: it passes.
    let alone = farm("office").with(ill(1));
    assert_eq!(alone.ask("ann"), Err(Refusal::Unreachable("office".into())));
}

#[test]
fn half_open_one_tunnel_tries_and_the_others_go_elsewhere_meanwhile() {
    let tried = farm("office").with(ill(6));
    assert_eq!(tried.ask("cid"), on("a", Reason::Score));
    assert!(tried.candidate("a").breaker.is_some(), "explain says so");
    let trying = farm("office").with(ill(6).pending("cid"));
    assert_eq!(
        trying.ask("dan"),
        Err(Refusal::Unreachable("office".into()))
    );
    assert_eq!(trying.candidate("a").exclusion, Some(Exclusion::Breaker));
    // Who is asked for a password for minutes bars nobody.
    let slow = ill(70).pending("cid").view(|view| {
        Arc::make_mut(view.tunnels.last_mut().unwrap()).since = ago(60);
    });
    let world = farm("office").with(slow);
    assert_eq!(world.ask("dan"), on("a", Reason::Score));
}

#[test]
fn users_who_return_are_not_moved_by_it() {
    let session = ill(1).session("ann", SessionState::Disconnected);
    let world = farm("office").with(session).with(host("b").reporting());
    assert_eq!(
        world.ask("ann"),
        on("a", Reason::Reconnect(SessionState::Disconnected))
    );
    let leased = farm("office").with(ill(1)).with(host("b").answering());
    let leased = leased.lingers("office", "a", 600);
    assert_eq!(leased.ask("ann"), on("a", Reason::Lease));
}

#[test]
fn a_probe_that_fails_is_said_before_a_breaker_that_is_open() {
    let world = farm("office").with(ill(1).failing(1));
    assert_eq!(world.candidate("a").exclusion, Some(Exclusion::ProbeFails));
    let drained = farm("office").with(ill(1).mode(Mode::Drain));
    assert_eq!(drained.candidate("a").exclusion, Some(Exclusion::Drain));
}
