//! Carriers beyond the plain ones: the token for "the chosen host",
//! `load-balance-info`, sources, and what becomes of the rest.

use super::build::*;
use crate::placement::Reason::Score;
use crate::placement::*;

fn some(id: &str) -> Named {
    Ok(Some(id.into()))
}

fn world() -> World {
    farm("office")
        .with(host("o").answering())
        .farm("erp")
        .with(host("e").answering())
}

fn carried(carried: Carried<'_>) -> Carriers {
    Carriers::read(carried).unwrap()
}

fn any_host() -> Carried<'static> {
    Carried {
        hostname: "${SESSIONGUARD_HOST}",
        ..Carried::default()
    }
}

fn info(text: &str) -> Carried<'_> {
    Carried {
        hostname: "10.0.0.1",
        load_balance_info: text,
        ..Carried::default()
    }
}

fn balanced(id: &str, text: &str) -> Resource {
    Resource {
        load_balance_info: Some(text.into()),
        farm_id: Some("office".into()),
        ..desktop(id)
    }
}

fn at(hostname: &str, resource: Resource) -> Resource {
    Resource {
        hostnames: vec![hostname.into()],
        farm_id: Some("office".into()),
        ..resource
    }
}

fn as_connected(id: &str) -> Resource {
    Resource {
        kind: ResourceKind::AsConnected,
        ..desktop(id)
    }
}

fn off(resource: Resource) -> Resource {
    Resource {
        enabled: false,
        ..resource
    }
}

const TSV: &str = "tsv://MS Terminal Services Plugin.1.Office";

#[test]
fn the_token_for_any_host_asks_the_default_farm_as_connected() {
    let world = world().rules(|r| r.default_farm = Some("erp".into()));
    for hostname in ["${SESSIONGUARD_HOST}", "  ${SESSIONGUARD_HOST} "] {
        let carriers = carried(Carried {
            hostname,
            remote_app: "||Own",
            ..Carried::default()
        });
        let decision = world.decide(carriers, "ann");
        assert_eq!(decision.farm, Some("erp".into()));
        assert_eq!(decision.resource, None);
        let Outcome::Placed(placement) = decision.outcome else {
            panic!("not placed");
        };
        assert_eq!(placement.kind, ResourceKind::AsConnected);
    }
}

#[test]
fn the_token_for_any_host_leaves_the_resource_to_the_other_carriers() {
    let world = world()
        .rules(|r| r.default_farm = Some("erp".into()))
        .resource(balanced("by-info", TSV));
    let by_info = Carried {
        load_balance_info: TSV,
        ..any_host()
    };
    assert_eq!(world.names(carried(by_info)), some("by-info"));
    let by_extra = Carried {
        extra: "office",
        ..any_host()
    };
    assert_eq!(world.names(carried(by_extra)), some("office"));
    let lost = Carried {
        extra: "typo",
        ..any_host()
    };
    assert_eq!(world.names(carried(lost)), Err(Refusal::UnknownResource));
}

#[test]
fn the_token_for_any_host_without_a_default_farm_refuses() {
    assert_eq!(world().names(carried(any_host())), Err(Refusal::NoFarm));
    let ghost = world().rules(|r| r.default_farm = Some("ghost".into()));
    let unknown = Err(Refusal::UnknownFarm("ghost".into()));
    assert_eq!(ghost.names(carried(any_host())), unknown);
}

#[test]
fn the_token_for_any_host_is_meant_literally() {
    let world = world().rules(|r| r.default_farm = Some("erp".into()));
    for hostname in [
        "${SESSIONGUARD_HOST}.example.com",
        "${sessionguard_host}",
        "${SESSIONGUARD_HOST",
        "${GUAC_HOST}",
        "",
    ] {
        let decision = world.decide(read(hostname, "", "").unwrap(), "ann");
        assert_eq!(decision.outcome, Outcome::Unmatched, "{hostname}");
    }
}

#[test]
fn nothing_else_falls_to_the_default_farm() {
    let world = world().rules(|r| r.default_farm = Some("erp".into()));
    for (hostname, remote_app) in [("10.0.0.1", ""), ("", ""), ("rds", "||Sage")] {
        let decision = world.decide(read(hostname, "", remote_app).unwrap(), "ann");
        assert_eq!(decision.outcome, Outcome::Unmatched, "{hostname}");
        assert_eq!(decision.farm, None);
    }
}

#[test]
fn load_balance_info_finds_its_resource_as_written() {
    let world = world().resource(balanced("office-farm", TSV));
    for (text, found) in [
        (TSV, true),
        ("  tsv://MS Terminal Services Plugin.1.Office ", true),
        ("tsv://ms terminal services plugin.1.office", false),
        ("tsv://MS Terminal Services Plugin.1", false),
        ("", false),
    ] {
        let expected = if found { some("office-farm") } else { Ok(None) };
        assert_eq!(world.names(carried(info(text))), expected, "{text}");
    }
}

#[test]
fn a_blank_load_balance_info_matches_nobody() {
    let world = world().resource(balanced("blank", " "));
    for text in ["", " "] {
        assert_eq!(world.names(carried(info(text))), Ok(None));
    }
}

#[test]
fn hostname_and_app_come_before_load_balance_info_and_that_before_hostname() {
    let world = world()
        .resource(at("h", remote_app("app", "||Sage")))
        .resource(balanced("info", TSV))
        .resource(at("h", desktop("host")));
    let all = |remote_app, load_balance_info| {
        world.names(carried(Carried {
            hostname: "h",
            remote_app,
            load_balance_info,
            ..Carried::default()
        }))
    };
    assert_eq!(all("||Sage", TSV), some("app"));
    assert_eq!(all("", TSV), some("info"));
    assert_eq!(all("||Other", TSV), some("info"));
    assert_eq!(all("", ""), some("host"));
}

#[test]
fn two_resources_with_one_load_balance_info_refuse() {
    let world = world()
        .resource(balanced("x", TSV))
        .resource(balanced("y", TSV));
    let both = Err(Refusal::AmbiguousResource("x".into(), "y".into()));
    assert_eq!(world.names(carried(info(TSV))), both);
}

#[test]
fn a_disabled_resource_is_refused_by_every_carrier_even_beside_the_token() {
    let off = world()
        .rules(|r| r.default_farm = Some("erp".into()))
        .resource(off(balanced("x", TSV)));
    let disabled = || Err(Refusal::ResourceDisabled("x".into()));
    assert_eq!(off.names(carried(info(TSV))), disabled());
    let beside = Carried {
        load_balance_info: TSV,
        ..any_host()
    };
    assert_eq!(off.names(carried(beside)), disabled());
}

#[test]
fn as_connected_answers_to_its_hostname_whatever_app_the_connection_has() {
    let world = world().resource(at("h", as_connected("any")));
    for app in ["", "||Sage", "||Other"] {
        assert_eq!(world.typed("h", "", app), some("any"), "{app}");
    }
    let both = world.resource(at("h", remote_app("app", "||Sage")));
    assert_eq!(both.typed("h", "", "||Sage"), some("app"));
    assert_eq!(both.typed("h", "", "||Other"), some("any"));
}

#[test]
fn as_connected_and_a_desktop_of_one_hostname_refuse_where_both_answer() {
    let world = world()
        .resource(at("h", as_connected("any")))
        .resource(at("h", desktop("desk")));
    let both = Err(Refusal::AmbiguousResource("any".into(), "desk".into()));
    assert_eq!(world.typed("h", "", ""), both);
    assert_eq!(world.typed("h", "", "||Sage"), some("any"));
}

#[test]
fn a_resource_with_a_source_is_found_from_there_only() {
    let of = |id: &str, source: Option<&str>| Resource {
        guacamole_connection_id: Some("42".into()),
        guacamole_connection_name: Some("Desk".into()),
        source: source.map(str::to_owned),
        ..desktop(id)
    };
    let world = world()
        .rules(|r| r.default_farm = Some("erp".into()))
        .resource(of("north", Some("north")))
        .resource(of("south", Some("south")));
    for text in ["sessionguard:id=42", "sessionguard:name=desk"] {
        let from = |source| {
            world.names(carried(Carried {
                hostname: text,
                source,
                ..Carried::default()
            }))
        };
        assert_eq!(from(Some("north")), some("north"));
        assert_eq!(from(Some("south")), some("south"));
        assert_eq!(from(Some("east")), Err(Refusal::UnknownResource));
        assert_eq!(from(None), Err(Refusal::UnknownResource));
    }
}

#[test]
fn a_resource_without_a_source_is_found_from_anywhere() {
    let world = world()
        .rules(|r| r.default_farm = Some("erp".into()))
        .resource(Resource {
            guacamole_connection_id: Some("42".into()),
            ..desktop("any")
        });
    for source in [None, Some("north")] {
        let carriers = carried(Carried {
            hostname: "sessionguard:id=42",
            source,
            ..Carried::default()
        });
        assert_eq!(world.names(carriers), some("any"));
    }
}

#[test]
fn a_source_says_nothing_about_ids_of_ours_and_host_names() {
    let sourced = Resource {
        source: Some("north".into()),
        ..at("h", desktop("x"))
    };
    let world = world().resource(sourced);
    assert_eq!(world.typed("sessionguard:resource=x", "", ""), some("x"));
    assert_eq!(world.typed("h", "", ""), some("x"));
}

#[test]
fn an_extra_parameter_that_guacamole_left_unfilled_refuses() {
    let unfilled = Refusal::BadSelector(SelectorError::UnfilledToken);
    assert_eq!(read("10.0.0.1", "${JDBC_CONNECTION_ID}", ""), Err(unfilled));
}

#[test]
fn what_names_nothing_passes_or_is_refused_by_the_rule() {
    let ask = |unmatched| {
        let world = world().rules(|r| r.unmatched = unmatched);
        world
            .decide(read("10.0.0.1", "", "").unwrap(), "ann")
            .outcome
    };
    assert_eq!(ask(Unmatched::Pass), Outcome::Unmatched);
    assert_eq!(ask(Unmatched::Refuse), Outcome::Refused(Refusal::Unmatched));
}

#[test]
fn a_closed_gateway_still_places_what_names_something() {
    let world = world().rules(|r| {
        r.unmatched = Unmatched::Refuse;
        r.default_farm = Some("erp".into());
    });
    assert_eq!(world.ask("ann"), on("o", Score));
    assert_eq!(
        went(world.decide(carried(any_host()), "ann")),
        on("e", Score)
    );
}

#[test]
fn a_key_a_resource_is_one_key_too_where_there_is_no_resource() {
    let world = world().rules(|r| {
        r.default_farm = Some("erp".into());
        r.single_session_per_user = false;
    });
    let key = world.decide(carried(any_host()), "ann").key.unwrap();
    assert_eq!(key.as_str(), "ann|erp|");
}
