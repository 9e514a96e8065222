//! How much the first report of a host may name before its agent is mistrusted.

use std::sync::Arc;

use proptest::prelude::*;

use super::build::*;
use crate::placement::Reason::{Reconnect, Score};
use crate::placement::SessionState::*;
use crate::placement::*;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Users nobody took anywhere, each with a session left behind.
fn crowd(host: HostWords, of: &str, count: u32) -> HostWords {
    (0..count).fold(host.reporting(), |host, nth| {
        host.session(&format!("{of}{nth}"), Disconnected)
    })
}

/// A host that has reported for so long, and has so many users now.
fn settled(id: &str, count: u32, seconds: u64) -> HostWords {
    crowd(host(id), id, count).view(|view| view.heard_since = Some(ago(seconds)))
}

/// The farm once host `new` has reported for the first time: ann's session and
/// those of so many others.
fn comes(world: World, new: HostWords, others: u32) -> World {
    let new = new.answering();
    let most = most_at_first(
        &world.clone().with(new.clone()).snapshot(),
        &"new".into(),
        NOW,
    );
    let told = crowd(host("new"), "stranger", others).session("ann", Active);
    let mut first = None;
    told.view(|view| first = view.report.take());
    world.with(new.view(|view| {
        assert!(view.hear(Arc::unwrap_or_clone(first.unwrap()), most, |_| false));
    }))
}

fn is_alarmed(world: &World) -> bool {
    let sounding = alarms(&world.snapshot(), NOW);
    match sounding.into_iter().collect::<Vec<_>>().as_slice() {
        [] => false,
        [Alarm::AgentClaimsStrangers(host)] if host.as_str() == "new" => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_the_first_day_everybody_who_was_there_is_found() {
    let rollout = farm("office")
        .with(settled("a", 3, 5 * HOUR))
        .with(settled("b", 0, 60))
        .with(host("c").answering());
    for world in [rollout, farm("office")] {
        let world = comes(world, host("new"), 500);
        assert_eq!(world.ask("ann"), on("new", Reconnect(Active)));
        assert!(!is_alarmed(&world));
    }
}

#[test]
fn a_host_that_comes_to_a_farm_at_work_with_everybody_draws_nobody() {
    let at_work = || {
        farm("office")
            .with(settled("a", 12, 2 * DAY))
            .with(settled("b", 30, DAY).cpu(50.0))
    };
    // As many as twice those of the fullest, ann among them.
    let world = comes(at_work(), host("new"), 59);
    assert_eq!(world.ask("ann"), on("new", Reconnect(Active)));
    assert!(!is_alarmed(&world));
    for others in [60, 500] {
        let world = comes(at_work(), host("new"), others);
        assert!(is_alarmed(&world));
        let decision = world.decide(by_resource("office"), "ann");
        let new = decision
            .candidates
            .iter()
            .find(|c| c.host.as_str() == "new");
        assert_eq!(new.unwrap().session_set_aside, Some(Mistrust::Strangers));
        assert_eq!(went(decision), on("a", Score));
        // Whom we took there is there.
        let known = world.took("ann", "new");
        assert_eq!(known.ask("ann"), on("new", Reconnect(Active)));
    }
}

#[test]
fn what_speaks_of_another_farm_or_not_for_long_is_no_measure() {
    let others = || settled("b", 30, DAY - 1);
    for world in [
        farm("office").with(others()),
        farm("lab").with(settled("b", 30, 2 * DAY)).farm("office"),
    ] {
        assert!(!is_alarmed(&comes(world, host("new"), 500)));
    }
    // A liar that was caught is no measure for the next one.
    let liar = settled("b", 500, 2 * DAY)
        .view(|view| Arc::make_mut(view.report.as_mut().unwrap()).overclaims = true);
    let world = farm("office").with(settled("a", 12, 2 * DAY)).with(liar);
    let most = most_at_first(&world.with(host("new")).snapshot(), &"new".into(), NOW);
    assert_eq!(most, Some(24));
}

#[test]
fn more_than_a_host_is_meant_for_are_too_many_on_any_day() {
    let meant_for = |most| host("new").configured(|host| host.max_sessions = Some(most));
    let comes = |most, others| comes(farm("office"), meant_for(most), others);
    assert!(!is_alarmed(&comes(40, 39)));
    assert!(is_alarmed(&comes(40, 40)));
    assert!(
        !is_alarmed(&comes(5, 19)),
        "up to the threshold anybody may come"
    );
    assert!(is_alarmed(&comes(5, 20)));
}

#[test]
fn it_is_believed_again_once_few_strangers_are_left() {
    let mut world = comes(farm("office").with(settled("a", 1, DAY)), host("new"), 30);
    assert!(is_alarmed(&world));
    let hears = |world: &World, count| {
        let snapshot = world.snapshot();
        let mut view = snapshot.hosts[&"new".into()].as_ref().to_owned();
        let mut next = None;
        crowd(host("new"), "stranger", count).view(|view| next = view.report.take());
        assert!(view.hear(
            Arc::unwrap_or_clone(next.unwrap()),
            Some(0),
            |who| who.user() == "stranger7"
        ));
        view.mistrust(snapshot.directory.rules())
    };
    assert_eq!(hears(&world, 22), Some(Mistrust::Strangers));
    assert_eq!(hears(&world, 21), None, "one of them came through us");
    world = world.rules(|rules| rules.agent_trust_threshold = 40);
    assert!(!is_alarmed(&world), "as somebody says");
}

proptest! {
    /// Whoever comes, and however full the farm is: what a first report draws is
    /// never more than the threshold, or twice what a host at work carries.
    #[test]
    fn a_first_report_draws_no_more_than_a_host_of_the_farm_carries(
        at_work in proptest::collection::vec(0..40_u32, 1..4),
        others in 0..120_u32,
        bound in proptest::option::of(1..100_u32),
    ) {
        let world = at_work.iter().enumerate().fold(farm("office"), |world, (nth, count)| {
            world.with(settled(&format!("a{nth}"), *count, DAY))
        });
        let new = host("new").configured(|host| host.max_sessions = bound);
        let world = comes(world, new, others);
        let usual = at_work.iter().max().unwrap() * 2;
        let most = bound.map_or(usual, |bound| usual.min(bound)).max(20);
        let found = world.ask("ann") == on("new", Reconnect(Active));
        prop_assert_eq!(found, others < most);
        prop_assert_eq!(is_alarmed(&world), !found);
    }
}
