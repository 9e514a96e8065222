//! Which resource a connection names.

use super::build::*;
use crate::placement::*;

fn some(id: &str) -> Named {
    Ok(Some(id.into()))
}

fn with_id(id: &str, connection: &str) -> Resource {
    Resource {
        guacamole_connection_id: Some(connection.into()),
        ..desktop(id)
    }
}

fn with_name(id: &str, connection: &str) -> Resource {
    Resource {
        guacamole_connection_name: Some(connection.into()),
        ..desktop(id)
    }
}

fn at(resource: Resource, hostnames: &[&str]) -> Resource {
    let hostnames = hostnames.iter().map(|name| name.to_string()).collect();
    Resource {
        hostnames,
        ..resource
    }
}

/// A world whose every resource lands in the default farm.
fn world() -> World {
    farm("office").rules(|r| r.default_farm = Some("office".into()))
}

#[test]
fn every_carrier_alone_finds_its_resource() {
    let world = world()
        .resource(with_id("by-id", "42"))
        .resource(with_name("by-name", "Office Desktop"))
        .resource(at(desktop("by-host"), &["rds.example.com"]))
        .resource(at(remote_app("by-app", "||Sage"), &["rds.example.com"]));
    let cases = [
        ("sessionguard:resource=by-id", "", "", some("by-id")),
        ("10.0.0.1", "by-name", "", some("by-name")),
        ("sessionguard:id=42", "", "", some("by-id")),
        ("sessionguard:name=Office Desktop", "", "", some("by-name")),
        ("rds.example.com", "", "", some("by-host")),
        ("rds.example.com", "", "||Sage", some("by-app")),
        ("10.0.0.1", "", "", Ok(None)),
        ("", "", "", Ok(None)),
    ];
    for (hostname, extra, app, expected) in cases {
        assert_eq!(
            world.typed(hostname, extra, app),
            expected,
            "{hostname} {extra} {app}"
        );
    }
}

#[test]
fn the_more_explicit_carrier_wins() {
    let world = world()
        .resource(desktop("r"))
        .resource(with_id("i", "42"))
        .resource(with_name("n", "Desk"))
        .resource(at(remote_app("a", "||Sage"), &["h"]))
        .resource(at(desktop("h"), &["h"]));
    let mut carriers = Carriers {
        resource: Some("r".into()),
        connection_id: Some("42".into()),
        connection_name: Some("desk".into()),
        hostname: "h".into(),
        remote_app: "||Sage".into(),
        ..Carriers::default()
    };
    assert_eq!(world.names(carriers.clone()), some("r"));
    carriers.resource = None;
    assert_eq!(world.names(carriers.clone()), some("i"));
    carriers.connection_id = None;
    assert_eq!(world.names(carriers.clone()), some("n"));
    carriers.connection_name = None;
    assert_eq!(world.names(carriers.clone()), some("a"));
    carriers.remote_app.clear();
    assert_eq!(world.names(carriers.clone()), some("h"));
    carriers.hostname.clear();
    assert_eq!(world.names(carriers), Ok(None));
}

#[test]
fn an_id_that_matches_nothing_leaves_the_name_to_decide() {
    let world = world().resource(with_name("n", "Desk"));
    assert_eq!(
        world.typed("sessionguard:id=42;name=Desk", "", ""),
        some("n")
    );
}

#[test]
fn a_misspelt_resource_id_does_not_fall_to_a_weaker_carrier() {
    let world = world().resource(with_id("i", "42"));
    let text = "sessionguard:resource=typo;id=42";
    assert_eq!(world.typed(text, "", ""), Err(Refusal::UnknownResource));
    assert_eq!(
        world.typed("sessionguard:id=42", "typo", ""),
        Err(Refusal::UnknownResource)
    );
}

#[test]
fn connection_names_match_in_any_letter_case_and_any_composition() {
    let world = world().resource(with_name("n", "B\u{fc}ro Stra\u{df}e"));
    for name in [
        "B\u{fc}ro Stra\u{df}e",
        "B\u{dc}RO STRASSE",
        "bu\u{308}ro strasse",
    ] {
        assert_eq!(
            world.typed(&format!("sessionguard:name={name}"), "", ""),
            some("n"),
            "{name}"
        );
    }
    let other = world.typed("sessionguard:name=Buro Strasse", "", "");
    assert_eq!(other, Err(Refusal::UnknownResource));
}

#[test]
fn connection_ids_match_exactly() {
    let world = world().resource(with_id("i", "ab"));
    assert_eq!(
        world.typed("sessionguard:id=AB", "", ""),
        Err(Refusal::UnknownResource)
    );
}

#[test]
fn a_carrier_that_leads_nowhere_refuses() {
    let world = world().resource(with_id("i", "42"));
    for text in ["sessionguard:id=43", "sessionguard:name=Nobody"] {
        assert_eq!(
            world.typed(text, "", ""),
            Err(Refusal::UnknownResource),
            "{text}"
        );
    }
}

#[test]
fn a_selector_nobody_can_read_refuses() {
    for (text, error) in [
        ("sessionguard:", SelectorError::Empty),
        ("sessionguard:sage", SelectorError::UnknownKey),
        ("sessionguard:id=", SelectorError::NoValue),
        ("sessionguard:id=1;id=2", SelectorError::Repeated),
        (
            "sessionguard:id=${JDBC_CONNECTION_ID};name=${JDBC_CONNECTION_NAME}",
            SelectorError::UnfilledToken,
        ),
        (
            "sessionguard:id=42;name=${JDBC_CONNECTION_NAME}",
            SelectorError::UnfilledToken,
        ),
    ] {
        assert_eq!(
            read(text, "", ""),
            Err(Refusal::BadSelector(error)),
            "{text}"
        );
    }
}

#[test]
fn two_carriers_of_a_resource_id_must_agree() {
    let disagree = read("sessionguard:resource=a", "b", "");
    assert_eq!(disagree, Err(Refusal::CarriersDisagree));
    let agree = read("sessionguard:resource=a", " a ", "").unwrap();
    assert_eq!(agree.resource, Some("a".into()));
}

#[test]
fn two_enabled_resources_on_one_step_refuse() {
    let both = || Err(Refusal::AmbiguousResource("x".into(), "y".into()));
    let by_id = world()
        .resource(with_id("x", "42"))
        .resource(with_id("y", "42"));
    assert_eq!(by_id.typed("sessionguard:id=42", "", ""), both());
    // Not even the next step may settle it.
    let named = by_id.resource(with_name("z", "Desk"));
    assert_eq!(named.typed("sessionguard:id=42;name=Desk", "", ""), both());
    let by_name = world()
        .resource(with_name("x", "Desk"))
        .resource(with_name("y", "DESK"));
    assert_eq!(by_name.typed("sessionguard:name=desk", "", ""), both());
    let by_host = world()
        .resource(at(desktop("x"), &["h"]))
        .resource(at(desktop("y"), &["H."]));
    assert_eq!(by_host.typed("h", "", ""), both());
    let by_app = world()
        .resource(at(remote_app("x", "||Sage"), &["h"]))
        .resource(at(remote_app("y", "||SAGE"), &["h"]));
    assert_eq!(by_app.typed("h", "", "||sage"), both());
}

#[test]
fn an_enabled_resource_beats_a_disabled_one_on_the_same_step_and_on_a_later_one() {
    let off = |resource| Resource {
        enabled: false,
        ..resource
    };
    let same = world()
        .resource(off(with_id("x", "42")))
        .resource(with_id("y", "42"));
    assert_eq!(same.typed("sessionguard:id=42", "", ""), some("y"));
    let later = world()
        .resource(off(with_id("x", "42")))
        .resource(with_name("y", "Desk"));
    assert_eq!(
        later.typed("sessionguard:id=42;name=Desk", "", ""),
        some("y")
    );
}

#[test]
fn what_matches_only_a_disabled_resource_is_refused_and_never_passed_through() {
    let off = |resource| Resource {
        enabled: false,
        ..resource
    };
    let app = remote_app("x", "||Sage");
    for (resource, hostname, extra, app) in [
        (desktop("x"), "10.0.0.1", "x", ""),
        (with_id("x", "42"), "sessionguard:id=42", "", ""),
        (with_name("x", "D"), "sessionguard:name=d", "", ""),
        (at(desktop("x"), &["h"]), "h", "", ""),
        (at(app, &["h"]), "h", "", "||Sage"),
    ] {
        let named = world().resource(off(resource)).typed(hostname, extra, app);
        assert_eq!(
            named,
            Err(Refusal::ResourceDisabled("x".into())),
            "{hostname}"
        );
    }
}

#[test]
fn host_names_match_in_any_case_with_or_without_the_final_dot() {
    for (configured, carried, same) in [
        ("rds.example.com", "RDS.Example.COM", true),
        ("rds.example.com", "rds.example.com.", true),
        ("rds.example.com.", "rds.example.com", true),
        ("rds.example.com", " rds.example.com ", true),
        ("rds.example.com", "rds", false),
        ("rds.example.com", "rds.example.com.evil", false),
        ("", "", false),
        (".", ".", false),
    ] {
        let world = world().resource(at(desktop("h"), &["other", configured]));
        let expected = if same { some("h") } else { Ok(None) };
        assert_eq!(
            world.typed(carried, "", ""),
            expected,
            "{configured} {carried}"
        );
    }
}

#[test]
fn a_desktop_answers_to_a_hostname_only_where_remote_app_is_blank() {
    let world = world()
        .resource(at(desktop("desk"), &["h"]))
        .resource(at(remote_app("app", "||Sage"), &["h"]));
    for (carried, expected) in [
        ("", some("desk")),
        ("  ", some("desk")),
        ("||Sage", some("app")),
        ("sage", some("app")),
        ("||SAGE", some("app")),
        ("||Other", Ok(None)),
        ("||", Ok(None)),
    ] {
        assert_eq!(world.typed("h", "", carried), expected, "{carried}");
    }
}

#[test]
fn a_remote_app_does_not_answer_to_its_hostname_alone() {
    let world = world().resource(at(remote_app("app", "||Sage"), &["h"]));
    assert_eq!(world.typed("h", "", ""), Ok(None));
    assert_eq!(world.typed("elsewhere", "", "||Sage"), Ok(None));
}
