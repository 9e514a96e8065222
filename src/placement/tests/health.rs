//! Whether a host can be reached, and how that is known.

use super::build::*;
use crate::placement::*;

/// In a farm where another agent is heard.
fn reach(words: HostWords) -> Reach {
    let world = farm("office").with(words).with(host("z").reporting());
    world.candidate("a").reach
}

#[test]
fn probe_and_report_together_say_whether_a_host_is_there() {
    use Reach::*;
    for (what, a, expected) in [
        ("nothing heard", host("a"), Unknown),
        ("probe answers", host("a").answering(), Online),
        ("probe fails", host("a").failing(1), Dead),
        ("fresh report, no probe", host("a").health(90), Online),
        ("fresh report, probe answers", host("a").reporting(), Online),
        (
            "fresh report, probe fails",
            host("a").reporting().failing(1),
            Dead,
        ),
        ("stale report, no probe", host("a").silent(31), Silent),
        (
            "stale report, probe answers",
            host("a").reporting().silent(31),
            Silent,
        ),
        (
            "stale report, probe fails",
            host("a").silent(31).failing(1),
            Dead,
        ),
    ] {
        assert_eq!(reach(a), expected, "{what}");
    }
}

#[test]
fn a_report_is_stale_once_it_is_older_than_offline_after() {
    for (allowed, age, expected) in [
        (30, 30, Reach::Online),
        (30, 31, Reach::Silent),
        (5, 6, Reach::Silent),
        (0, 0, Reach::Online),
        (0, 1, Reach::Silent),
    ] {
        let world = farm("office")
            .rules(|r| r.offline_after = secs(allowed))
            .with(host("a").reporting().silent(age))
            .with(host("z").reporting());
        assert_eq!(world.candidate("a").reach, expected, "{allowed} {age}");
    }
}

#[test]
fn a_tunnel_that_stood_after_the_probe_began_to_fail_proves_the_host() {
    for (what, a, expected) in [
        (
            "stood since",
            host("a").failing(60).stood("bob", 59),
            Reach::Online,
        ),
        (
            "stood at that moment",
            host("a").failing(60).stood("bob", 60),
            Reach::Online,
        ),
        (
            "stood before",
            host("a").failing(60).stood("bob", 61),
            Reach::Dead,
        ),
        ("pending", host("a").failing(60).pending("bob"), Reach::Dead),
        (
            "an unknown user's",
            host("a").failing(60).stood("", 5),
            Reach::Online,
        ),
        (
            "but the agent is silent",
            host("a").failing(60).silent(60).stood("bob", 5),
            Reach::Silent,
        ),
    ] {
        assert_eq!(reach(a), expected, "{what}");
    }
}

#[test]
fn how_long_a_probe_has_failed_is_counted_from_its_first_failure() {
    let view = HostView {
        probe: Probe::Failing { since: ago(12) },
        ..HostView::default()
    };
    assert_eq!(view.failing_for(NOW), Some(secs(12)));
    // A clock that stepped back makes no negative span.
    assert_eq!(view.failing_for(ago(60)), Some(secs(0)));
    let view = HostView {
        probe: Probe::Answering { since: ago(12) },
        ..HostView::default()
    };
    assert_eq!(view.failing_for(NOW), None);
    assert_eq!(HostView::default().failing_for(NOW), None);
}

#[test]
fn health_is_the_agents_at_most_100_and_100_without_an_agent() {
    for (a, expected) in [
        (host("a").answering(), 100),
        (host("a").reporting().health(0), 0),
        (host("a").reporting().health(61), 61),
        (host("a").reporting().health(255), 100),
        // A stale report's health is the last known one.
        (host("a").reporting().silent(3600).health(42), 42),
    ] {
        assert_eq!(farm("office").with(a).candidate("a").score.health, expected);
    }
}

#[test]
fn moments_saturate_instead_of_wrapping() {
    let end = Timestamp::from_millis(u64::MAX);
    let start = Timestamp::from_millis(0);
    assert_eq!(end + secs(1), end);
    assert_eq!(start - secs(1), start);
    assert_eq!(start.since(end), secs(0));
    assert_eq!((NOW + secs(5)).since(NOW), secs(5));
    assert_eq!(NOW + std::time::Duration::MAX, end);
}
