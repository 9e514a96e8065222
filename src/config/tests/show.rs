//! `config show`: everything in force, and nothing secret.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{data, project};
use crate::config::{Config, Secrets, load, load_text, show};
use crate::placement::{Directory, Host, ParameterValues, Resource};

const NONE: [(std::ffi::OsString, std::ffi::OsString); 0] = [];

/// The same configuration with every parameter's value masked.
fn masked(config: &Config) -> Config {
    let mask = |values: &ParameterValues| {
        let names = values.0.keys().cloned();
        ParameterValues(names.map(|name| (name, "***".to_owned())).collect())
    };
    let directory = &config.directory;
    let hosts = directory.hosts().cloned().map(|host| Host {
        parameters: mask(&host.parameters),
        ..host
    });
    let resources = directory.resources().cloned().map(|resource| Resource {
        parameters: mask(&resource.parameters),
        ..resource
    });
    let farms = directory.farms().cloned();
    let masked = Directory::new(directory.rules().clone(), hosts, farms, resources);
    let mut shown = Config {
        directory: masked.into(),
        ..config.clone()
    };
    shown.api.secrets = Secrets::default();
    shown.store.postgres.password = None;
    shown
}

pub(super) fn round_trip(path: &Path) {
    let loaded = load(path, NONE).unwrap_or_else(|faults| panic!("{faults}"));
    for origins in [false, true] {
        let shown = show(path, NONE, origins).unwrap();
        let again = load_text("shown.toml", &shown)
            .unwrap_or_else(|faults| panic!("{}: {faults}\n{shown}", path.display()));
        assert_eq!(again.config, masked(&loaded.config), "{}", path.display());
    }
}

#[test]
fn every_path_is_shown_whole() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessionguard.toml");
    for name in ["broker.key", "admin.key", "password"] {
        super::secrets::good(folder.path(), name);
    }
    let text = "[store]\npath = \"the.redb\"\npassword_file = \"./password\"\n\
                [api]\nsocket = \"./the.sock\"\nbroker_key_file = \"./broker.key\"\n\
                admin_key_file = \"./admin.key\"\n[log]\naudit = \"./audit.jsonl\"\n";
    fs::write(&path, text).unwrap();
    round_trip(&path);
}

#[test]
fn what_is_shown_loads_as_the_same_configuration() {
    for (_, path) in super::cases(&data("valid")) {
        round_trip(&path);
    }
    for path in ["config/minimal.toml", "config/sessionguard.toml"] {
        round_trip(&project().join(path));
    }
    round_trip(&data("examples").join("sessionguard.toml"));
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sample.toml");
    let sample = super::samples::sample_in_full();
    let beside = folder.path().to_str().unwrap();
    for name in ["broker.key", "admin.key", "database.password"] {
        super::secrets::good(folder.path(), name);
    }
    fs::write(&path, sample.replace("/etc/sessionguard", beside)).unwrap();
    round_trip(&path);
}

#[test]
fn texts_of_every_kind_survive() {
    let text = r#"
        [broker]
        default_farm = "a"
        [identity]
        default_domain = "q\"u\\o'te"
        domains = { "a.b" = "A" }
        [[farms]]
        id = "a"
        enabled = false
        required_tags = { "" = "x", "b ü.c" = "\u202e = # \" ''' " }
        [[resources]]
        name = "Säge # \\ \"1\""
        kind = "remoteapp"
        remote_app = "||||".Sage"
    "#
    .replace("\"||||\".Sage\"", "'||Sa\"ge'")
    .replace("\\u202e = # \\\" ''' ", "x\\u202ey # \\\" '''");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.toml");
    fs::write(&path, text).unwrap();
    round_trip(&path);
}

#[test]
fn nothing_of_a_parameter_but_its_name_is_shown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.toml");
    let text = r#"
        [[hosts]]
        id = "h"
        address = "h"
        parameters = { sftp-password = "hunter2", "timezone" = "hunter3" }
        [[resources]]
        id = "r"
        kind = "as-connected"
        [resources.parameters]
        password = "hunter4"
    "#;
    fs::write(&path, text).unwrap();
    for origins in [false, true] {
        let shown = show(&path, NONE, origins).unwrap();
        assert!(!shown.contains("hunter"), "{shown}");
        let masked = "parameters = { sftp-password = \"***\", timezone = \"***\" }";
        assert!(shown.contains(masked), "{shown}");
        assert!(
            shown.contains("parameters = { password = \"***\" }"),
            "{shown}"
        );
    }
}

#[test]
fn each_value_says_where_it_came_from() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("conf.d")).unwrap();
    let path = folder.path().join("main.toml");
    let text = "[broker]\nlease_seconds = 60\nmin_health_score = 5\nscore = { cpu = 3 }\n\
                [[hosts]]\nname = \"RDS 1\"\naddress = \"h\"\n";
    fs::write(&path, text).unwrap();
    let later = r#"{ "min_health_score": 7, "score": { "memory": 4 } }"#;
    fs::write(folder.path().join("conf.d/b.json"), later).unwrap();
    let variables = [
        ("SESSIONGUARD_BROKER__SCORE__MEMORY".into(), "9".into()),
        ("SESSIONGUARD_LISTEN__ADDRESS".into(), "127.0.0.1:1".into()),
        ("SESSIONGUARD_PORT".into(), "tcp://10.0.0.1:1".into()),
    ];
    let shown = show(&path, variables, true).unwrap();
    let shown = shown.replace(&format!("{}/", folder.path().display()), "");
    let lines: Vec<&str> = shown.lines().collect();
    for line in [
        "mode = \"broker\" # default",
        "lease_seconds = 60 # main.toml:2:17",
        "min_health_score = 7 # conf.d/b.json:1:23",
        "[broker.score]",
        "cpu = 3 # main.toml:4:17",
        "memory = 9 # SESSIONGUARD_BROKER__SCORE__MEMORY",
        "active = 20 # default",
        "address = \"127.0.0.1:1\" # SESSIONGUARD_LISTEN__ADDRESS",
        "handshake_timeout = \"15s\" # default",
        "id = \"rds-1\" # derived from the name",
        "name = \"RDS 1\" # main.toml:6:8",
        "port = 3389 # default",
    ] {
        assert!(lines.contains(&line), "{line} is missing:\n{shown}");
    }
}

#[test]
fn what_cannot_be_used_is_not_shown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.toml");
    fs::write(&path, "[broker]\nmode = 5\n").unwrap();
    assert!(show(&path, NONE, true).is_err());
}
