//! Busy or unreachable: the page retries the one and not the other.

use super::build::*;
use crate::placement::*;

fn busy() -> Went {
    Err(Refusal::Busy("office".into()))
}

fn unreachable() -> Went {
    Err(Refusal::Unreachable("office".into()))
}

fn ask(hosts: Vec<HostWords>) -> Went {
    hosts
        .into_iter()
        .fold(farm("office"), World::with)
        .ask("ann")
}

#[test]
fn a_farm_whose_reachable_hosts_take_nobody_is_busy() {
    for a in [
        host("a").answering().mode(Mode::Maintenance),
        host("a").answering().mode(Mode::Drain),
        host("a").reporting().health(59),
    ] {
        assert_eq!(ask(vec![a.clone()]), busy());
        assert_eq!(ask(vec![a, host("b").failing(60)]), busy());
    }
}

#[test]
fn a_farm_without_a_reachable_host_is_unreachable() {
    for a in [host("a"), host("a").failing(60), host("a").silent(60)] {
        assert_eq!(ask(vec![a.clone()]), unreachable());
        assert_eq!(ask(vec![a, host("b").failing(60)]), unreachable());
    }
}

#[test]
fn a_farm_taken_out_of_service_whole_is_busy_though_its_hosts_are_off() {
    let off = |id, mode| host(id).failing(60).mode(mode);
    assert_eq!(
        ask(vec![off("a", Mode::Maintenance), off("b", Mode::Drain)]),
        busy()
    );
    assert_eq!(
        ask(vec![off("a", Mode::Maintenance), off("b", Mode::Online)]),
        unreachable()
    );
}

#[test]
fn refusals_say_what_to_look_at() {
    use Refusal::*;
    for (refusal, text) in [
        (UnknownResource, "the connection names an unknown resource"),
        (NoFarm, "no farm is named and there is no default farm"),
        (UnknownFarm("f".into()), "farm f is not configured"),
        (FarmDisabled("f".into()), "farm f is disabled"),
        (EmptyFarm("f".into()), "farm f has no host"),
        (ResourceDisabled("r".into()), "resource r is disabled"),
        (Busy("f".into()), "no host of farm f takes new sessions now"),
        (Unreachable("f".into()), "no host of farm f can be reached"),
        (
            AmbiguousResource("r".into(), "s".into()),
            "resources r and s both answer to this connection",
        ),
        (
            HeldElsewhere("h".into()),
            "the user has a tunnel open on host h, which may not be used now",
        ),
        (
            FarmSelectorNotAllowed,
            "farm= in a selector needs allow_farm_selector = true",
        ),
        (
            CarriersDisagree,
            "the hostname and sessionguard-resource name different resources",
        ),
        (
            BadSelector(SelectorError::NoValue),
            "selector has a key without a value",
        ),
    ] {
        assert_eq!(refusal.to_string(), text);
    }
}

#[test]
fn exclusions_read_and_serialise_alike_everywhere() {
    use Exclusion::*;
    for (exclusion, text, name) in [
        (Drain, "in drain", "drain"),
        (Maintenance, "in maintenance", "maintenance"),
        (NotProbed, "not probed yet", "not-probed"),
        (AgentSilent, "agent silent", "agent-silent"),
        (ProbeFails, "probe fails", "probe-fails"),
        (Breaker, "breaker open", "breaker"),
        (NoListener, "RDP listener down", "no-listener"),
        (Unhealthy, "health below minimum", "unhealthy"),
        (RemoteAppMissing, "RemoteApp missing", "remote-app-missing"),
        (Tried, "failed this connection", "tried"),
    ] {
        assert_eq!(exclusion.to_string(), text);
        assert_eq!(serde_json::to_value(exclusion).unwrap(), name);
    }
}
