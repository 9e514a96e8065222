//! Which farm a request looks in: the resource's, else the one asked for where
//! that is allowed, else the default one. Named but not usable: refused.

use super::build::*;
use crate::placement::*;

/// `fixed` names its farm, `open` names none.
fn world() -> World {
    farm("office")
        .with(host("o").answering())
        .farm("erp")
        .with(host("e").answering())
        .resource(Resource {
            farm_id: Some("office".into()),
            ..desktop("fixed")
        })
        .resource(desktop("open"))
}

fn asking(resource: &str, farm: Option<&str>) -> Carriers {
    Carriers {
        farm: farm.map(FarmId::from),
        ..by_resource(resource)
    }
}

/// The farm looked in, or the refusal.
fn farm_of(world: &World, carriers: Carriers) -> Result<FarmId, Refusal> {
    let decision = world.decide(carriers, "ann");
    match decision.outcome {
        Outcome::Refused(refusal) => Err(refusal),
        Outcome::Placed(_) => Ok(decision.farm.unwrap()),
        Outcome::Unmatched => panic!("unmatched"),
    }
}

/// Resource, farm asked for, whether that is allowed, default farm; the farm.
type Case<'a> = (
    &'a str,
    Option<&'a str>,
    bool,
    Option<&'a str>,
    Result<FarmId, Refusal>,
);

#[test]
fn resource_then_selector_then_default() {
    use Refusal::{FarmSelectorNotAllowed as NotAllowed, NoFarm};
    let office = || Ok(FarmId::from("office"));
    let erp = || Ok(FarmId::from("erp"));
    let cases: [Case<'_>; 11] = [
        ("fixed", None, false, None, office()),
        ("fixed", None, false, Some("erp"), office()),
        ("fixed", Some("erp"), true, None, office()),
        ("fixed", Some("erp"), true, Some("erp"), office()),
        ("open", Some("erp"), true, None, erp()),
        ("open", Some("erp"), true, Some("office"), erp()),
        ("open", None, true, Some("erp"), erp()),
        ("open", None, false, Some("office"), office()),
        ("open", None, true, None, Err(NoFarm)),
        ("open", Some("erp"), false, Some("office"), Err(NotAllowed)),
        ("fixed", Some("office"), false, None, Err(NotAllowed)),
    ];
    for (resource, asked, allowed, default, expected) in cases {
        let world = world().rules(|r| {
            r.allow_farm_selector = allowed;
            r.default_farm = default.map(FarmId::from);
        });
        let got = farm_of(&world, asking(resource, asked));
        assert_eq!(got, expected, "{resource} {asked:?} {allowed} {default:?}");
    }
}

#[test]
fn a_farm_that_is_named_but_missing_refuses_and_never_falls_to_the_default() {
    let world = world()
        .resource(Resource {
            farm_id: Some("ghost".into()),
            ..desktop("lost")
        })
        .rules(|r| {
            r.allow_farm_selector = true;
            r.default_farm = Some("office".into());
        });
    let unknown = Err(Refusal::UnknownFarm("ghost".into()));
    assert_eq!(farm_of(&world, asking("lost", None)), unknown);
    assert_eq!(farm_of(&world, asking("lost", Some("erp"))), unknown);
    assert_eq!(farm_of(&world, asking("open", Some("ghost"))), unknown);
}

#[test]
fn a_missing_default_farm_refuses() {
    let world = world().rules(|r| r.default_farm = Some("ghost".into()));
    let unknown = Err(Refusal::UnknownFarm("ghost".into()));
    assert_eq!(farm_of(&world, asking("open", None)), unknown);
}

#[test]
fn a_disabled_farm_refuses_even_a_user_who_has_a_tunnel_there() {
    let world = farm("office")
        .whose_farm(|f| f.enabled = false)
        .with(
            host("a")
                .reporting()
                .session("ann", SessionState::Active)
                .stood("ann", 60),
        )
        .live("office", "a");
    assert_eq!(
        world.ask("ann"),
        Err(Refusal::FarmDisabled("office".into()))
    );
}

#[test]
fn a_farm_without_a_host_refuses() {
    let world = farm("office").farm("erp").with(host("e").answering());
    assert_eq!(world.ask("ann"), Err(Refusal::EmptyFarm("office".into())));
}

#[test]
fn a_farm_alone_asks_for_any_of_its_hosts() {
    let world = |allowed| {
        world().rules(|r| {
            r.allow_farm_selector = allowed;
            r.default_farm = Some("office".into());
        })
    };
    let carriers = || read("sessionguard:farm=erp", "", "").unwrap();
    assert_eq!(farm_of(&world(true), carriers()), Ok("erp".into()));
    let not_allowed = Err(Refusal::FarmSelectorNotAllowed);
    assert_eq!(farm_of(&world(false), carriers()), not_allowed);
    let decision = world(true).decide(carriers(), "ann");
    let Outcome::Placed(placement) = decision.outcome else {
        panic!("not placed");
    };
    assert_eq!(placement.kind, ResourceKind::AsConnected);
    assert_eq!(decision.resource, None);
}

#[test]
fn a_refusal_says_how_far_the_request_got() {
    let world = world()
        .whose_farm(|f| f.enabled = false)
        .resource(Resource {
            farm_id: Some("erp".into()),
            ..desktop("closed")
        });
    let decision = world.decide(by_resource("closed"), "ann");
    assert_eq!(decision.resource, Some("closed".into()));
    assert_eq!(decision.farm, Some("erp".into()));
    assert_eq!(decision.generation, 7);
    assert!(decision.candidates.is_empty());
    let decision = world.decide(by_resource("nothing"), "ann");
    assert_eq!((decision.resource, decision.farm), (None, None));
}

#[test]
fn the_farms_domain_comes_before_the_brokers() {
    let key = |change: fn(&mut Rules), own: Option<&str>, who: &str| {
        let world = farm("office")
            .whose_farm(|f| f.overrides.default_domain = own.map(str::to_owned))
            .with(host("a").answering())
            .rules(change);
        world
            .decide(by_resource("office"), who)
            .key
            .unwrap()
            .to_string()
    };
    let global: fn(&mut Rules) = |r| r.default_domain = Some("CORP".into());
    assert_eq!(key(|_| {}, None, "ann"), "ann");
    assert_eq!(key(global, None, "ann"), "corp\\ann");
    assert_eq!(key(global, Some("Lab"), "ann"), "lab\\ann");
    assert_eq!(key(global, Some("Lab"), "ANN@other"), "other\\ann");
}

#[test]
fn address_and_port_come_from_the_configuration() {
    let world = farm("office").with(host("a").answering().configured(|h| h.port = 3390));
    let Outcome::Placed(placement) = world.decide(by_resource("office"), "ann").outcome else {
        panic!("not placed");
    };
    assert_eq!(placement.address, "a.example.com");
    assert_eq!(placement.port, 3390);
}
