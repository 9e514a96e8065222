//! What it means that agents are not heard: one of them, all of them, or any of
//! them just after our own start.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::*;
use crate::placement::Reason::{Reconnect, Score};
use crate::placement::*;

fn quiet(id: &str) -> HostWords {
    host(id).reporting().silent(31)
}

fn unreachable() -> Went {
    Err(Refusal::Unreachable("office".into()))
}

fn sounding(world: &World) -> Vec<Alarm> {
    alarms(&world.snapshot(), NOW).into_iter().collect()
}

#[test]
fn one_silent_host_is_out_while_another_is_heard() {
    let busy = host("b").reporting().cpu(99.0);
    let world = farm("office").with(quiet("a")).with(busy);
    assert_eq!(world.ask("ann"), on("b", Score));
    assert_eq!(world.candidate("a").exclusion, Some(Exclusion::AgentSilent));
    assert_eq!(sounding(&world), []);
}

#[test]
fn where_all_are_silent_the_last_known_figures_and_what_is_pending_decide() {
    let world = || {
        farm("office")
            .with(quiet("a").cpu(10.0))
            .with(quiet("b").cpu(15.0))
    };
    assert_eq!(world().ask("ann"), on("a", Score));
    assert_eq!(world().candidate("a").reach, Reach::LastKnown);
    let pending = farm("office")
        .with(quiet("a").cpu(10.0).pending("bob"))
        .with(quiet("b").cpu(15.0));
    assert_eq!(pending.ask("ann"), on("b", Score));
    assert_eq!(sounding(&world()), [Alarm::AgentsSilent("office".into())]);
}

#[test]
fn where_all_are_silent_their_last_host_is_still_a_last_one() {
    let drain = Order {
        mode: Mode::Drain,
        by: Actor::User {
            uid: Some(0),
            name: None,
        },
        reason: None,
        message: None,
        at: NOW,
        from: None,
        until: None,
        restart_when_drained: false,
        online_after_restart: false,
    };
    let drained = Arc::new(Orders::default().give(Mode::Online, drain).0);
    let of = |ids: &[&str]| {
        let ids = ids
            .iter()
            .map(|id| (HostId::from(*id), Arc::clone(&drained)));
        ids.collect::<BTreeMap<_, _>>()
    };
    let snapshot = farm("office").with(quiet("a")).with(quiet("b")).snapshot();
    assert_eq!(emptied(&snapshot, &of(&["a"]), NOW), []);
    let farms = emptied(&snapshot, &of(&["a", "b"]), NOW);
    assert_eq!(farms.len(), 1, "nobody could be placed: {farms:?}");
}

#[test]
fn where_all_are_silent_only_hosts_that_answer_are_taken() {
    let dead = || host("b").silent(31).failing(5);
    let world = farm("office").with(quiet("a").cpu(90.0)).with(dead());
    assert_eq!(world.ask("ann"), on("a", Score));
    let all_dead = farm("office").with(dead());
    assert_eq!(all_dead.ask("ann"), unreachable());
    assert_eq!(sounding(&all_dead), []);
    let unasked = farm("office").with(host("a").silent(31));
    assert_eq!(unasked.ask("ann"), unreachable());
    assert_eq!(sounding(&unasked), []);
}

#[test]
fn where_all_are_silent_the_other_rules_still_hold() {
    for (a, why) in [
        (quiet("a").health(59), Exclusion::Unhealthy),
        (quiet("a").without_listener(), Exclusion::NoListener),
        (quiet("a").mode(Mode::Drain), Exclusion::Drain),
    ] {
        let world = farm("office").with(a);
        assert_eq!(world.candidate("a").exclusion, Some(why));
    }
}

#[test]
fn hosts_without_an_agent_say_nothing_about_the_agents() {
    let world = farm("office")
        .with(quiet("a"))
        .with(host("b").answering().stood("bob", 600));
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(sounding(&world).len(), 1);
}

#[test]
fn an_agent_that_is_heard_proves_the_path_whatever_its_own_host_is() {
    for heard in [
        host("b").reporting().mode(Mode::Maintenance),
        host("b").reporting().failing(5),
        host("b").reporting().health(1),
    ] {
        let world = farm("office").with(quiet("a")).with(heard);
        assert_eq!(world.candidate("a").reach, Reach::Silent);
        assert_eq!(sounding(&world), []);
    }
}

#[test]
fn each_farm_is_silent_for_itself() {
    let world = farm("office")
        .with(quiet("a"))
        .farm("erp")
        .with(host("e").reporting());
    assert_eq!(world.ask("ann"), on("a", Score));
    assert_eq!(sounding(&world), [Alarm::AgentsSilent("office".into())]);
}

/// The same world, by a process that began to listen so many seconds ago.
fn started(world: &World, seconds: u64) -> Snapshot {
    Snapshot {
        started: ago(seconds),
        ..world.snapshot()
    }
}

fn asked(snapshot: &Snapshot) -> Went {
    let request = Request {
        carriers: by_resource("office"),
        claims: claims("ann"),
        ..Request::default()
    };
    went(decide(snapshot, &request, &LeaseRecord::default(), NOW))
}

#[test]
fn after_our_own_start_probes_and_the_last_known_report_decide_for_a_while() {
    let world = farm("office")
        .with(quiet("a"))
        .with(host("b").reporting().cpu(99.0));
    assert_eq!(asked(&started(&world, 0)), on("a", Score));
    assert_eq!(asked(&started(&world, 29)), on("a", Score));
    assert_eq!(asked(&started(&world, 30)), on("b", Score));
    let dead = farm("office").with(host("a").silent(31).failing(1));
    assert_eq!(asked(&started(&dead, 0)), unreachable());
}

#[test]
fn after_our_own_start_silence_is_no_alarm() {
    let world = farm("office").with(quiet("a"));
    assert!(alarms(&started(&world, 29), NOW).is_empty());
    assert_eq!(alarms(&started(&world, 30), NOW).len(), 1);
}

#[test]
fn a_session_is_gone_back_to_whatever_is_silent() {
    let left = quiet("a").session("ann", SessionState::Disconnected);
    let world = farm("office").with(left).with(host("b").reporting());
    assert_eq!(
        world.ask("ann"),
        on("a", Reconnect(SessionState::Disconnected))
    );
}

#[test]
fn an_alarm_names_the_farm() {
    let said = Alarm::AgentsSilent("office".into()).to_string();
    assert!(said.contains("farm office"), "{said}");
}
