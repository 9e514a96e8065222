//! The files people start from.

use std::fs;
use std::time::Duration;

use super::{data, project, run};
use crate::config::node::{SourceId, Table, Value};
use crate::config::parse_toml::parse;
use crate::config::shape::Shape;
use crate::config::{Config, load, load_text};
use crate::placement::{FarmId, HostId, ResourceId, ResourceKind};

fn sample() -> String {
    fs::read_to_string(project().join("config/sessionguard.toml")).unwrap()
}

/// The sample with its examples switched on: lines that begin with `#` and no
/// blank.
pub(super) fn sample_in_full() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    sample().lines().map(|l| line(l) + "\n").collect()
}

#[test]
fn the_sample_says_what_the_defaults_are() {
    let loaded = load_text("sessionguard.toml", &sample()).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, []);
}

#[test]
fn the_examples_in_the_sample_work() {
    let loaded = load_text("sessionguard.toml", &sample_in_full()).unwrap();
    assert_eq!(loaded.warnings, []);
    let directory = &loaded.config.directory;
    assert!(directory.is_member(&FarmId::from("office"), &HostId::from("rds-1")));
    assert!(directory.resource(&ResourceId::from("sage")).is_some());
    assert_eq!(directory.rules().default_farm, Some(FarmId::from("office")));
}

/// The first table of a shape in a document, as the sample has them.
fn table_of(root: &Table, shape: Shape) -> &Table {
    let path: &[&str] = match shape {
        Shape::Document => &[],
        Shape::Listen => &["listen"],
        Shape::Host => &["hosts"],
        Shape::Farm => &["farms"],
        Shape::Resource => &["resources"],
        // A farm may name any part of the same score.
        Shape::BrokerScore | Shape::FarmScore => &["broker", "score"],
        single => &[single.section().unwrap()],
    };
    path.iter().fold(root, |table, key| {
        let entry = table.find(key).unwrap_or_else(|| panic!("no {key}"));
        match &entry.value.value {
            Value::Table(inner) => inner,
            Value::List(items) => match &items[0].value {
                Value::Table(inner) => inner,
                other => panic!("{key} holds {}", other.kind()),
            },
            other => panic!("{key} is {}", other.kind()),
        }
    })
}

#[test]
fn the_sample_names_every_key() {
    let root = parse(&sample_in_full(), SourceId(0)).unwrap();
    let Value::Table(root) = root.value else {
        panic!("a document is a table");
    };
    for shape in Shape::ALL {
        for key in shape.names() {
            let named = table_of(&root, shape).has(key);
            assert!(named, "`{key}` of {shape} is missing");
        }
    }
}

/// A comment above each key, or above the keys it stands with.
#[test]
fn the_sample_explains_every_key() {
    let text = sample();
    let lines: Vec<&str> = text.lines().collect();
    let is_key = |line: &str| {
        let line = line.strip_prefix('#').unwrap_or(line);
        line.split_once(" = ")
            .is_some_and(|(key, _)| Shape::ALL.into_iter().any(|shape| shape.knows(key)))
    };
    let mut explained = false;
    for line in lines {
        if line.starts_with("# ") {
            explained = true;
        } else if line.trim().is_empty() {
            explained = false;
        } else {
            assert!(explained || !is_key(line), "{line}");
        }
    }
}

#[test]
fn objects_of_other_tools_get_advice_that_is_no_warning() {
    let root = data("examples");
    let loaded = load(&root.join("sessionguard.toml"), []).unwrap();
    let advice: Vec<_> = loaded
        .advice
        .iter()
        .map(|advice| advice.to_string())
        .collect();
    let advice = advice
        .join("\n")
        .replace(&format!("{}/", root.display()), "");
    assert_eq!(
        advice,
        "conf.d/resource-office-desktop.json:2:11: advice: no host name leads to the resource `office-desktop`, only what a connection says
  2 |   \"name\": \"Office Desktop\",
    |           ^^^^^^^^^^^^^^^^
  help: in Guacamole, type this as the hostname of the connection: sessionguard:name=Office Desktop
conf.d/resource-sage.json:2:11: advice: no host name leads to the resource `sage`, only what a connection says
  2 |   \"name\": \"Sage\",
    |           ^^^^^^
  help: in Guacamole, type this as the hostname of the connection: sessionguard:name=Sage"
    );
}

#[test]
fn advice_names_the_most_telling_way_to_a_resource() {
    let selector = |keys: &str| {
        let text = format!("[[resources]]\nid = \"r\"\nkind = \"desktop\"\n{keys}\n");
        let loaded = load_text("a.toml", &text).unwrap();
        let help = loaded.advice.iter().find_map(|advice| advice.help());
        help.map(|help| help.split_once("connection: ").unwrap().1.to_owned())
    };
    for (keys, text) in [
        ("", Some("sessionguard:resource=r")),
        ("guacamole_connection_id = 42", Some("sessionguard:id=42")),
        (
            "guacamole_connection_id = \"a;b\"",
            Some("sessionguard:resource=r"),
        ),
        (
            "guacamole_connection_name = 'O\\ü; \"D\"'",
            Some("sessionguard:name=O\\ü; \"D\""),
        ),
        (
            "guacamole_connection_id = 42\nguacamole_connection_name = \"D\"",
            Some("sessionguard:name=D"),
        ),
        ("hostnames = [\"farm.example.com\"]", None),
        ("load_balance_info = \"tsv://x\"", None),
        ("enabled = false", None),
    ] {
        assert_eq!(selector(keys).as_deref(), text, "{keys}");
    }
}

#[test]
fn the_minimal_file_brokers() {
    let loaded = load(&project().join("config/minimal.toml"), []).unwrap();
    assert_eq!(loaded.warnings, []);
    let directory = &loaded.config.directory;
    assert_eq!(directory.hosts().count(), 1);
    let resource = directory
        .resource(&ResourceId::from("office-desktop"))
        .unwrap();
    assert_eq!(resource.kind, ResourceKind::Desktop);
    let office = FarmId::from("office");
    assert_eq!(resource.farm_id.as_ref(), Some(&office));
    assert_eq!(directory.members(&office).count(), 1);
}

#[test]
fn objects_of_other_tools_load_as_they_are() {
    let root = data("examples");
    let (loaded, printed) = run(&root.join("sessionguard.toml"), &root);
    let loaded = loaded.expect(&printed);
    assert_eq!(
        printed,
        "conf.d/resource-sage.json:4:14: warning: the resource `sage` names the farm `erp`, which does not exist
  4 |   \"farm_id\": \"erp\",
    |              ^^^^^
  help: define the farm; until then the resource is refused"
    );
    let directory = &loaded.config.directory;
    let office = FarmId::from("office");
    assert_eq!(directory.farm(&office).unwrap().name, "Office");
    // By its tags, as the farm asks.
    assert!(directory.is_member(&office, &HostId::from("rds-1")));
    let desktop = directory
        .resource(&ResourceId::from("office-desktop"))
        .unwrap();
    assert_eq!(
        desktop.guacamole_connection_name.as_deref(),
        Some("Office Desktop")
    );
    let ResourceKind::RemoteApp(sage) =
        &directory.resource(&ResourceId::from("sage")).unwrap().kind
    else {
        panic!("sage is a RemoteApp");
    };
    assert_eq!(
        (sage.alias.as_str(), sage.dir.as_str()),
        ("||Sage", r"C:\Program Files\Sage")
    );
    assert_eq!(loaded.files.len(), 4);
}

#[test]
fn settings_reach_their_place() {
    let text = r#"
        [broker]
        lease_seconds = 60
        drain_timeout = "2h"
        score = { cpu = 7 }
        [guacd]
        address = "[::1]:4900"
        [[listen]]
        address = "127.0.0.1:0"
        [[listen]]
        address = "127.0.0.1:0"
        handshake_timeout = "5s"
        [[farms]]
        id = "a"
        score = { health = 1 }
        min_health_score = 5
    "#;
    let config = load_text("a.toml", text).unwrap().config;
    assert_eq!(config.directory.rules().lease, Duration::from_secs(60));
    assert_eq!(config.timeouts.drain, Duration::from_secs(7200));
    assert_eq!(config.guacd.members[0].address.to_string(), "[::1]:4900");
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.listen[1].handshake_timeout, Duration::from_secs(5));
    let overrides = &config.directory.farm(&FarmId::from("a")).unwrap().overrides;
    assert_eq!(overrides.min_health_score, Some(5));
    // A farm's score is filled up from the global one.
    let weights = overrides.weights.unwrap();
    assert_eq!((weights.health, weights.cpu, weights.active), (1, 7, 20));
}
