//! A new session: the eligible host with the highest score, and what keeps a
//! host out.

use std::sync::Arc;

use super::build::*;
use crate::placement::Reason::Score;
use crate::placement::*;

/// One host of an office farm, in every state that keeps newcomers out.
fn excluded() -> Vec<(HostWords, Exclusion)> {
    use Exclusion::*;
    vec![
        (host("a").reporting().mode(Mode::Drain), Drain),
        (host("a").reporting().mode(Mode::Maintenance), Maintenance),
        (host("a"), NotProbed),
        (host("a").reporting().silent(31), AgentSilent),
        (host("a").failing(0), ProbeFails),
        (host("a").reporting().failing(5), ProbeFails),
        (host("a").reporting().without_listener(), NoListener),
        (host("a").reporting().health(59), Unhealthy),
        (host("a").reporting().lacking("||Sage"), RemoteAppMissing),
    ]
}

fn sage() -> World {
    farm("office").resource(Resource {
        farm_id: Some("office".into()),
        ..remote_app("sage", "||Sage")
    })
}

#[test]
fn each_exclusion_keeps_a_newcomer_out_and_says_why() {
    for (a, why) in excluded() {
        let world = sage()
            .with(a)
            .with(host("b").reporting().health(60).cpu(100.0));
        let decision = world.decide(by_resource("sage"), "ann");
        assert_eq!(decision.candidates[0].exclusion, Some(why));
        assert_eq!(decision.candidates[1].exclusion, None);
        assert_eq!(world.ask_for("sage", "ann"), on("b", Score), "{why}");
    }
}

#[test]
fn the_edges_of_each_exclusion() {
    for (what, a) in [
        ("health at the minimum", host("a").reporting().health(60)),
        (
            "a report exactly as old as allowed",
            host("a").reporting().silent(30),
        ),
        ("a report and no probe yet", host("a").cpu(0.0)),
        (
            "another RemoteApp missing",
            host("a").reporting().lacking("||Word"),
        ),
        ("a probe and no agent", host("a").answering()),
        (
            "a report from ahead of our clock",
            host("a").reporting().view(|v| {
                Arc::make_mut(v.report.as_mut().unwrap()).received = NOW + secs(86_400);
            }),
        ),
    ] {
        assert_eq!(
            sage().with(a).ask_for("sage", "ann"),
            on("a", Score),
            "{what}"
        );
    }
}

#[test]
fn the_first_rule_that_keeps_a_host_out_is_the_one_named() {
    let a = || {
        host("a")
            .failing(60)
            .silent(60)
            .health(0)
            .without_listener()
            .lacking("||Sage")
    };
    let why = |a| {
        let world = sage().with(a).with(host("z").reporting());
        world.decide(by_resource("sage"), "ann").candidates[0].exclusion
    };
    assert_eq!(
        why(a().mode(Mode::Maintenance)),
        Some(Exclusion::Maintenance)
    );
    assert_eq!(why(a().mode(Mode::Drain)), Some(Exclusion::Drain));
    assert_eq!(why(a()), Some(Exclusion::ProbeFails));
    assert_eq!(why(a().answering()), Some(Exclusion::AgentSilent));
}

#[test]
fn the_minimum_of_health_is_the_farms_before_the_brokers() {
    for (global, own, health, eligible) in [
        (60, None, 60, true),
        (60, None, 59, false),
        (60, Some(10), 10, true),
        (60, Some(10), 9, false),
        (60, Some(95), 94, false),
        (0, None, 0, true),
        (100, None, 99, false),
        (100, Some(0), 0, true),
    ] {
        let world = farm("office")
            .whose_farm(|f| f.overrides.min_health_score = own)
            .rules(|r| r.min_health_score = global)
            .with(host("a").reporting().health(health));
        let excluded = world.candidate("a").exclusion;
        let expected = (!eligible).then_some(Exclusion::Unhealthy);
        assert_eq!(excluded, expected, "{global} {own:?} {health}");
    }
}

#[test]
fn a_host_that_lacks_the_app_still_takes_desktops_and_other_apps() {
    let word = Resource {
        farm_id: Some("office".into()),
        ..remote_app("word", "||Word")
    };
    let world = sage()
        .resource(word)
        .with(host("a").reporting().lacking("||sage"));
    assert_eq!(
        world.ask_for("sage", "ann"),
        Err(Refusal::Busy("office".into()))
    );
    assert_eq!(world.ask_for("word", "ann"), on("a", Score));
    assert_eq!(world.ask_for("office", "ann"), on("a", Score));
}

#[test]
fn a_connection_that_brings_its_own_app_honours_what_is_missing_too() {
    let as_connected = Resource {
        farm_id: Some("office".into()),
        kind: ResourceKind::AsConnected,
        ..desktop("own")
    };
    let world = farm("office")
        .rules(|r| r.default_farm = Some("office".into()))
        .resource(as_connected)
        .with(host("a").reporting().lacking("||Sage"))
        .with(host("b").reporting().cpu(99.0));
    let asked = |carriers: Carriers, app: &str| {
        let carriers = Carriers {
            remote_app: app.to_owned(),
            ..carriers
        };
        went(world.decide(carriers, "ann"))
    };
    let any_host = || Carriers {
        any_host: true,
        ..Carriers::default()
    };
    for app in ["||Sage", "sage", "||SAGE"] {
        assert_eq!(asked(by_resource("own"), app), on("b", Score), "{app}");
        assert_eq!(asked(any_host(), app), on("b", Score), "{app}");
    }
    for app in ["", "||Word"] {
        assert_eq!(asked(by_resource("own"), app), on("a", Score), "{app}");
        assert_eq!(asked(any_host(), app), on("a", Score), "{app}");
    }
    // A desktop clears it.
    assert_eq!(asked(by_resource("office"), "||Sage"), on("a", Score));
}

#[test]
fn the_highest_score_among_the_eligible_wins() {
    let world = farm("office")
        .with(host("a").reporting().mode(Mode::Drain))
        .with(host("b").reporting().health(90))
        .with(host("c").reporting().health(91))
        .with(host("d").reporting().health(59));
    assert_eq!(world.ask("ann"), on("c", Score));
}

#[test]
fn a_negative_score_still_places() {
    let overloaded = host("a").reporting().health(60).cpu(100.0).memory(100.0);
    let overloaded = (0..50).fold(overloaded, |a, n| {
        a.session(&format!("u{n}"), SessionState::Active)
    });
    let world = farm("office").with(overloaded);
    assert_eq!(world.candidate("a").score.total, -700.0);
    assert_eq!(world.ask("ann"), on("a", Score));
}

#[test]
fn nobody_yet_known_is_placed_by_score_without_a_key() {
    let world = farm("office")
        .with(host("a").reporting().cpu(50.0).stood("", 5).pending(""))
        .with(host("b").reporting());
    for who in ["", "   "] {
        let decision = world.decide(by_resource("office"), who);
        assert_eq!((decision.user, decision.key), (None, None));
        assert_eq!(world.ask(who), on("b", Score));
    }
}

#[test]
fn nobody_yet_known_takes_nobodys_session() {
    let world = farm("office")
        .with(
            host("a")
                .reporting()
                .cpu(50.0)
                .session("ann", SessionState::Disconnected),
        )
        .with(host("b").reporting());
    assert_eq!(world.ask(""), on("b", Score));
}

#[test]
fn every_host_of_the_farm_is_a_candidate_and_no_other() {
    let world = farm("office")
        .with(host("a").answering())
        .with(host("b").mode(Mode::Maintenance))
        .with(host("left").answering().gone())
        .farm("erp")
        .with(host("e").answering());
    let decision = world.decide(by_resource("office"), "ann");
    let seen: Vec<_> = decision
        .candidates
        .iter()
        .map(|c| c.host.as_str())
        .collect();
    assert_eq!(seen, ["a", "b"]);
}
