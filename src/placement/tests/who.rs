//! Who the user is: spellings, domains, bare names, and names to doubt.

use std::collections::BTreeMap;

use super::build::*;
use crate::placement::Reason::{Lease, Score};
use crate::placement::*;

fn says(username: &str, domain: &str, name: &str) -> Claims {
    Claims {
        username: username.into(),
        domain: domain.into(),
        name: name.into(),
    }
}

fn table(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    let rows = rows.iter();
    rows.map(|(from, to)| (fold(from), fold(to))).collect()
}

fn world() -> World {
    farm("office").with(host("a").answering())
}

fn key(world: &World, claims: Claims) -> Option<String> {
    let decision = world.decide_as(by_resource("office"), claims);
    decision.key.map(|key| key.to_string())
}

fn trust(world: &World, claims: Claims) -> Trust {
    world.decide_as(by_resource("office"), claims).trust
}

#[test]
fn every_way_to_write_one_person_is_one_key_once_the_table_says_so() {
    let world = world().rules(|r| {
        r.default_domain = Some("CORP".into());
        r.domains = table(&[("corp.example.com", "CORP")]);
    });
    for (username, domain) in [
        ("CORP\\ann", ""),
        ("corp\\ANN", "ignored"),
        ("ann@corp.example.com", ""),
        ("Ann@CORP.Example.COM", ""),
        ("ann", "corp"),
        ("ann", "corp.example.com"),
        ("ANN", ""),
    ] {
        let key = key(&world, says(username, domain, ""));
        assert_eq!(key.as_deref(), Some("corp\\ann"), "{username} {domain}");
    }
}

#[test]
fn a_suffix_the_table_does_not_know_stays_apart() {
    let world = world().rules(|r| {
        r.default_domain = Some("CORP".into());
        r.domains = table(&[("corp.example.com", "CORP")]);
    });
    for (username, expected) in [
        ("ann@example.com", "example.com\\ann"),
        ("ann@lab.corp.example.com", "lab.corp.example.com\\ann"),
        ("LAB\\ann", "lab\\ann"),
    ] {
        let key = key(&world, says(username, "", ""));
        assert_eq!(key.as_deref(), Some(expected));
    }
}

#[test]
fn the_table_holds_for_the_default_domain_and_for_names_known_from_before() {
    let domains = || table(&[("corp.example.com", "CORP")]);
    let by_default = world().rules(|r| {
        r.default_domain = Some("corp.example.com".into());
        r.domains = domains();
    });
    let by_name = world()
        .rules(|r| r.domains = domains())
        .knows("ann@corp.example.com");
    for world in [by_default, by_name.clone(), by_name.knows("corp\\ann")] {
        let qualified = key(&world, says("ann@corp.example.com", "", ""));
        assert_eq!(qualified.as_deref(), Some("corp\\ann"));
        assert_eq!(key(&world, says("ann", "", "")), qualified);
        assert_eq!(trust(&world, says("ann", "", "")), Trust::Plain);
    }
}

#[test]
fn a_bare_name_takes_the_one_qualified_key_known_for_it() {
    let world = world().knows("corp\\ann").knows("lab\\bob");
    for (who, expected) in [
        ("ann", "corp\\ann"),
        ("ANN", "corp\\ann"),
        ("bob", "lab\\bob"),
        ("carl", "carl"),
        ("lab\\ann", "lab\\ann"),
    ] {
        assert_eq!(key(&world, claims(who)).as_deref(), Some(expected));
        assert_eq!(trust(&world, claims(who)), Trust::Plain);
    }
}

#[test]
fn a_bare_name_that_several_share_stays_its_own_and_says_so() {
    let world = world().knows("corp\\ann").knows("lab\\ann");
    assert_eq!(key(&world, claims("ann")).as_deref(), Some("ann"));
    assert_eq!(trust(&world, claims("ann")), Trust::Ambiguous);
    assert_eq!(trust(&world, claims("corp\\ann")), Trust::Plain);
}

#[test]
fn the_default_domain_comes_before_what_is_known() {
    let world = world()
        .knows("lab\\ann")
        .knows("ops\\ann")
        .rules(|r| r.default_domain = Some("corp".into()));
    assert_eq!(key(&world, claims("ann")).as_deref(), Some("corp\\ann"));
    assert_eq!(trust(&world, claims("ann")), Trust::Plain);
}

#[test]
fn the_login_is_asked_where_there_is_no_rdp_user() {
    let bare = world();
    assert_eq!(key(&bare, says("", "corp", "Ann")).as_deref(), Some("ann"));
    assert_eq!(key(&bare, says(" ", "", " ")), None);
    let turned = world().rules(|r| r.identity_order.reverse());
    assert_eq!(
        key(&turned, says("kiosk", "", "ann")).as_deref(),
        Some("ann")
    );
    let only_username = world().rules(|r| r.identity_order = vec![IdentitySource::Username]);
    assert_eq!(key(&only_username, says("", "", "ann")), None);
}

#[test]
fn a_login_that_is_another_person_is_doubted() {
    use Trust::{Doubtful, Plain};
    let world = world().rules(|r| r.domains = table(&[("corp.example.com", "CORP")]));
    for (username, domain, name, expected) in [
        // The user parts.
        ("ann", "", "ann", Plain),
        ("ANN", "", "ann", Plain),
        ("J\u{fc}rgen", "", "JU\u{308}RGEN", Plain),
        ("ann", "", "bob", Doubtful),
        ("corp\\ann", "", "bob", Doubtful),
        ("\u{131}lker", "", "ilker", Doubtful),
        // The domains, where both have one.
        ("corp\\ann", "", "ann", Plain),
        ("ann", "", "corp\\ann", Plain),
        ("ann", "corp", "ann@corp.example.com", Plain),
        ("ann@corp.example.com", "", "CORP\\ann", Plain),
        ("corp\\ann", "", "lab\\ann", Doubtful),
        ("ann", "corp", "ann@example.com", Doubtful),
        // Where only one speaks there is nothing to doubt.
        ("ann", "corp", "", Plain),
        ("", "corp", "ann", Plain),
        ("", "", "", Plain),
    ] {
        let got = trust(&world, says(username, domain, name));
        assert_eq!(got, expected, "{username} {domain} {name}");
    }
}

#[test]
fn a_login_the_order_does_not_ask_for_is_doubted_all_the_same() {
    let world = world().rules(|r| r.identity_order = vec![IdentitySource::Username]);
    assert_eq!(trust(&world, says("ann", "", "bob")), Trust::Doubtful);
}

#[test]
fn require_match_refuses_what_is_doubted_and_nothing_else() {
    let world = world().rules(|r| r.require_match = true);
    let ask = |claims| went(world.decide_as(by_resource("office"), claims));
    assert_eq!(ask(says("ann", "corp", "bob")), Err(Refusal::LoginMismatch));
    assert_eq!(
        ask(says("ann", "corp", "lab\\ann")),
        Err(Refusal::LoginMismatch)
    );
    for claims in [
        says("ann", "corp", "ANN"),
        says("ann", "", ""),
        says("", "", "ann"),
    ] {
        assert_eq!(ask(claims), on("a", Score));
    }
}

#[test]
fn a_refused_login_says_which_farm_and_resource_it_was_for() {
    let world = world().rules(|r| r.require_match = true);
    let decision = world.decide_as(by_resource("office"), says("ann", "", "bob"));
    assert_eq!(decision.resource, Some("office".into()));
    assert_eq!(decision.farm, Some("office".into()));
    assert_eq!(decision.key, None);
}

#[test]
fn a_doubted_user_may_use_the_lease_of_whom_they_say_they_are() {
    let world = farm("office")
        .with(host("a").reporting().cpu(99.0))
        .with(host("b").reporting())
        .lingers("office", "a", 600);
    let decision = world.decide_as(by_resource("office"), says("ann", "", "mallory"));
    assert_eq!(decision.trust, Trust::Doubtful);
    assert_eq!(went(decision), on("a", Lease));
}

#[test]
fn who_logs_on_is_who_the_resource_says() {
    let set = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let values = pairs.map(|(n, v)| (n.to_string(), v.to_string())).collect();
        world().resource(Resource {
            farm_id: Some("office".into()),
            parameters: ParameterValues(values),
            ..desktop("r")
        })
    };
    let key = |world: World| {
        let decision = world.decide_as(by_resource("r"), says("ann", "corp", ""));
        decision.key.map(|key| key.to_string())
    };
    assert_eq!(key(set(&[])).as_deref(), Some("corp\\ann"));
    assert_eq!(
        key(set(&[("username", "kiosk")])).as_deref(),
        Some("corp\\kiosk")
    );
    assert_eq!(key(set(&[("domain", "lab")])).as_deref(), Some("lab\\ann"));
    let both = set(&[("username", "kiosk"), ("domain", "")]);
    assert_eq!(key(both).as_deref(), Some("kiosk"));
    // A resource that blanks the user has Guacamole prompt.
    assert_eq!(key(set(&[("username", "")])), None);
    assert_eq!(
        key(set(&[("password", "x"), ("locale", "de")])).as_deref(),
        Some("corp\\ann")
    );
}

#[test]
fn a_host_says_nothing_about_who_logs_on() {
    let of_host = ParameterValues([("username".to_owned(), "kiosk".to_owned())].into());
    let world = farm("office").with(host("a").answering().configured(|h| h.parameters = of_host));
    assert_eq!(key(&world, claims("ann")).as_deref(), Some("ann"));
}
