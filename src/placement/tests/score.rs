//! The score, term by term, with exact numbers.

use super::build::*;
use crate::placement::SessionState::*;
use crate::placement::*;

fn total(world: &World, host: &str) -> f64 {
    world.candidate(host).score.total
}

/// The score of the only host of a farm.
fn alone(words: HostWords) -> f64 {
    total(&farm("office").with(words), "a")
}

fn idle() -> HostWords {
    host("a").reporting()
}

#[test]
fn each_term_alone() {
    for (term, a, expected) in [
        ("nothing", idle(), 1000.0),
        ("health", idle().health(73), 730.0),
        ("no health", idle().health(0), 0.0),
        ("one active", idle().session("u", Active), 980.0),
        ("one connected", idle().session("u", Connected), 980.0),
        ("one disconnected", idle().session("u", Disconnected), 995.0),
        ("CPU", idle().cpu(37.5), 925.0),
        ("CPU at its end", idle().cpu(100.0), 800.0),
        ("memory", idle().memory(62.5), 937.5),
        ("memory at its end", idle().memory(100.0), 900.0),
    ] {
        assert_eq!(alone(a), expected, "{term}");
    }
}

#[test]
fn all_terms_together() {
    let a = idle()
        .health(80)
        .cpu(25.0)
        .memory(40.0)
        .session("u", Active)
        .session("v", Connected)
        .session("w", Disconnected)
        .session("x", Disconnected)
        .session("y", Disconnected);
    // 800 - 2 * 20 - 3 * 5 - 25 * 2 - 40
    assert_eq!(alone(a), 655.0);
}

#[test]
fn weights_are_the_farms_before_the_brokers_before_the_defaults() {
    let weights = |health, active, disconnected, cpu, memory| Weights {
        health,
        active,
        disconnected,
        cpu,
        memory,
    };
    let global = Some(weights(1, 2, 3, 4, 5));
    let own = Some(weights(100, 0, 0, 0, 1));
    for (global, own, expected) in [
        (None, None, 800.0 - 20.0 - 5.0 - 60.0 - 10.0),
        (global, None, 80.0 - 2.0 - 3.0 - 120.0 - 50.0),
        (None, own, 8000.0 - 10.0),
        (global, own, 8000.0 - 10.0),
        (Some(weights(0, 0, 0, 0, 0)), None, 0.0),
        (
            global,
            Some(weights(0, u32::MAX, 0, 0, 0)),
            -4_294_967_295.0,
        ),
    ] {
        let a = idle().health(80).cpu(30.0).memory(10.0);
        let world = farm("office")
            .whose_farm(|f| f.overrides.weights = own)
            .rules(|r| r.weights = global.unwrap_or_default())
            .with(a.session("u", Active).session("v", Disconnected));
        assert_eq!(total(&world, "a"), expected, "{global:?} {own:?}");
    }
}

#[test]
fn an_unknown_figure_is_the_mean_of_the_farms_known_ones() {
    let world = farm("office")
        .with(host("a").reporting().cpu(None).memory(10.0))
        .with(host("b").reporting().cpu(20.0).memory(None))
        .with(host("c").reporting().cpu(60.0).memory(50.0))
        .with(host("d").answering())
        .farm("erp")
        .with(host("e").reporting().cpu(100.0).memory(100.0));
    let figures = |host| {
        let score = world.candidate(host).score;
        let figure = |f: Figure| (f.percent, f.known);
        (figure(score.cpu), figure(score.memory))
    };
    assert_eq!(figures("a"), ((40.0, false), (10.0, true)));
    assert_eq!(figures("b"), ((20.0, true), (30.0, false)));
    assert_eq!(figures("c"), ((60.0, true), (50.0, true)));
    assert_eq!(figures("d"), ((40.0, false), (30.0, false)));
    assert_eq!(total(&world, "d"), 1000.0 - 80.0 - 30.0);
}

#[test]
fn where_nobody_knows_a_figure_it_is_zero() {
    let world = farm("office")
        .with(host("a").reporting().cpu(None).memory(None))
        .with(host("b").answering());
    for host in ["a", "b"] {
        let score = world.candidate(host).score;
        assert_eq!(score.total, 1000.0);
        assert!(!score.cpu.known && !score.memory.known);
    }
}

#[test]
fn a_broken_counter_does_not_attract_users() {
    let world = farm("office")
        .with(host("a").reporting().cpu(None).session("u", Active))
        .with(host("b").reporting().cpu(80.0));
    assert_eq!(world.ask("ann"), on("b", Reason::Score));
}

#[test]
fn figures_are_clamped_and_what_is_no_number_is_unknown() {
    for (reported, percent, known) in [
        (-5.0, 0.0, true),
        (0.0, 0.0, true),
        (100.0, 100.0, true),
        (100.1, 100.0, true),
        (1e300, 100.0, true),
        (f64::NAN, 30.0, false),
        (f64::INFINITY, 30.0, false),
        (f64::NEG_INFINITY, 30.0, false),
    ] {
        let world = farm("office")
            .with(host("a").reporting().cpu(reported).memory(reported))
            .with(host("b").reporting().cpu(30.0).memory(30.0));
        // The mean is over the known ones: with `a` known it is not looked at.
        let score = world.candidate("a").score;
        let expected = Figure { percent, known };
        assert_eq!(
            (score.cpu, score.memory),
            (expected, expected),
            "{reported}"
        );
        assert!(score.total.is_finite());
    }
}

#[test]
fn clamped_figures_enter_the_mean_and_broken_ones_do_not() {
    let world = farm("office")
        .with(host("a").reporting().cpu(500.0))
        .with(host("b").reporting().cpu(f64::NAN))
        .with(host("c").reporting().cpu(0.0))
        .with(host("d").answering());
    assert_eq!(world.candidate("d").score.cpu.percent, 50.0);
    assert_eq!(world.candidate("b").score.cpu.percent, 50.0);
}

#[test]
fn a_host_without_an_agent_scores_by_what_we_know_of_it() {
    let a = host("a")
        .answering()
        .stood("u", 5000)
        .pending("v")
        .lease_of("w", 10)
        .lease_of("x", 900)
        .lease_of("gone", 0);
    let score = farm("office").with(a).candidate("a").score;
    assert_eq!(
        (score.health, score.active, score.disconnected),
        (100, 2, 2)
    );
    assert_eq!(score.total, 1000.0 - 2.0 * 20.0 - 2.0 * 5.0);
}

#[test]
fn an_excluded_host_shows_its_score_all_the_same() {
    let world = farm("office")
        .with(host("a").reporting().mode(Mode::Maintenance).health(70))
        .with(host("b").answering());
    let candidate = world.candidate("a");
    assert_eq!(candidate.exclusion, Some(Exclusion::Maintenance));
    assert_eq!(candidate.score.total, 700.0);
}

#[test]
fn a_score_survives_the_way_through_json() {
    let score = farm("office").with(idle().cpu(33.3)).candidate("a").score;
    let text = serde_json::to_string(&score).unwrap();
    assert_eq!(serde_json::from_str::<Score>(&text).unwrap(), score);
}
