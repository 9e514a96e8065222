//! What the environment sets, and what in it is none of our business.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::config::environment::{known, name};
use crate::config::form::Form;
use crate::config::{Faults, Loaded, LogFormat, Place, load};
use crate::placement::{Conduct, FarmId};

/// Loads a text as the main file, with these variables.
fn with(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Faults> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessionguard.toml");
    fs::write(&path, text).unwrap();
    load(&path, pairs(variables))
}

fn pairs<'a>(variables: &'a [(&str, &str)]) -> impl Iterator<Item = (OsString, OsString)> + 'a {
    variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
}

#[test]
fn variables_come_after_files() {
    let text = "[broker]\nlease_seconds = 60\nmin_health_score = 5\nscore = { cpu = 3, active = 9 }\n\
                [[farms]]\nid = \"a\"\nenabled = false\n";
    let loaded = with(
        text,
        &[
            ("SESSIONGUARD_BROKER__LEASE_SECONDS", "120"),
            ("SESSIONGUARD_BROKER__MODE", "observe"),
            ("SESSIONGUARD_BROKER__SCORE__CPU", "7"),
            ("SESSIONGUARD_BROKER__RECONNECT_EXISTING", "false"),
            ("SESSIONGUARD_BROKER__SLOW_START", "5m"),
            ("SESSIONGUARD_BROKER__MAX_SESSIONS", "40"),
            ("SESSIONGUARD_BROKER__DEFAULT_FARM", "a"),
            ("SESSIONGUARD_GUACD__ADDRESS", "guacd:4822"),
            ("SESSIONGUARD_LOG__FORMAT", "json"),
        ],
    );
    let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
    let rules = loaded.config.directory.rules();
    assert_eq!((rules.lease.as_secs(), rules.min_health_score), (120, 5));
    assert_eq!((rules.weights.cpu, rules.weights.active), (7, 9));
    assert_eq!(rules.conduct, Conduct::Observe);
    assert_eq!(rules.slow_start, Duration::from_secs(300));
    assert_eq!(rules.max_sessions, Some(40));
    assert_eq!(rules.default_farm, Some(FarmId::from("a")));
    assert!(!rules.reconnect_existing);
    assert_eq!(
        loaded.config.guacd.members[0].address.to_string(),
        "guacd:4822"
    );
    assert_eq!(loaded.config.log.format, LogFormat::Json);
    assert_eq!(
        loaded.origins["broker.score.cpu"],
        Place::Variable {
            name: "SESSIONGUARD_BROKER__SCORE__CPU".to_owned()
        }
    );
    // The warning about a setting names the variable that made it.
    let places: Vec<_> = loaded
        .warnings
        .iter()
        .map(|w| w.place().to_string())
        .collect();
    assert_eq!(places, ["SESSIONGUARD_BROKER__DEFAULT_FARM"]);
}

#[test]
fn what_others_put_there_is_passed_over() {
    let loaded = with(
        "# nothing\n",
        &[
            // As Kubernetes does beside a Service of this name.
            ("SESSIONGUARD_PORT", "tcp://10.96.0.7:4822"),
            ("SESSIONGUARD_SERVICE_HOST", "10.96.0.7"),
            ("SESSIONGUARD_SERVICE_PORT", "4822"),
            ("SESSIONGUARD_SERVICE_PORT_GUACD", "4822"),
            ("SESSIONGUARD_PORT_4822_TCP", "tcp://10.96.0.7:4822"),
            ("SESSIONGUARD_PORT_4822_TCP_PROTO", "tcp"),
            ("SESSIONGUARDX_BROKER__MODE", "x"),
            ("XSESSIONGUARD_BROKER__MODE", "x"),
            ("BROKER__MODE", "x"),
            ("PATH", "/bin"),
            ("__", "x"),
        ],
    );
    let loaded = loaded.unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(loaded.warnings, []);
    assert!(loaded.origins.is_empty());
    assert_eq!(loaded.files.len(), 1);
}

#[test]
fn what_a_variable_gets_wrong_is_said_without_its_file() {
    let faults = with(
        "# nothing\n",
        &[
            ("SESSIONGUARD_BROKER__LEASE_SECOND", "5"),
            ("SESSIONGUARD_BROKER__LEASE_SECONDS", "5m"),
            ("SESSIONGUARD_BROKER__MIN_HEALTH_SCORE", "101"),
            ("SESSIONGUARD_BROKER__RECONNECT_EXISTING", "yes"),
            ("SESSIONGUARD_BROKER__SCORE", "1"),
            ("SESSIONGUARD_BROKER__SLOW_START", "60"),
            ("SESSIONGUARD_BROKER__UNMATCHED", ""),
            ("SESSIONGUARD_HOSTS__ADDRESS", "10.0.0.1"),
            ("SESSIONGUARD_IDENTITY__DOMAINS", "x"),
            ("SESSIONGUARD_IDENTITY__ORDER", "name"),
            ("SESSIONGUARD_PROBE__INTERVAL", "1s"),
            ("SESSIONGUARD_broker__mode", "observe"),
        ],
    )
    .unwrap_err();
    assert_eq!(
        faults.to_string(),
        "\
SESSIONGUARD_BROKER__LEASE_SECOND: fault: no setting belongs to this variable
  help: did you mean SESSIONGUARD_BROKER__LEASE_SECONDS?
SESSIONGUARD_BROKER__LEASE_SECONDS: fault: `lease_seconds` in [broker]: \"5m\" is not a whole number
SESSIONGUARD_BROKER__MIN_HEALTH_SCORE: fault: `min_health_score` in [broker]: expected 0 to 100, got 101
SESSIONGUARD_BROKER__RECONNECT_EXISTING: fault: `reconnect_existing` in [broker]: \"yes\" is neither true nor false
SESSIONGUARD_BROKER__SCORE: fault: `score` in [broker] cannot be set by a variable
  help: set it in a file
SESSIONGUARD_BROKER__SLOW_START: fault: `slow_start` in [broker]: expected a time with a unit, got the bare number 60
  help: write \"60s\" if these are seconds; units are ms, s, m, h and d
SESSIONGUARD_BROKER__UNMATCHED: fault: `unmatched` in [broker]: expected \"pass\" or \"refuse\", got \"\"
SESSIONGUARD_HOSTS__ADDRESS: fault: no setting belongs to this variable
  help: a setting of a table is SESSIONGUARD_, the table, two underscores and the key, as in SESSIONGUARD_BROKER__LEASE_SECONDS; everything else is set in files
SESSIONGUARD_IDENTITY__DOMAINS: fault: `domains` in [identity] cannot be set by a variable
  help: set it in a file
SESSIONGUARD_IDENTITY__ORDER: fault: `order` in [identity] cannot be set by a variable
  help: set it in a file
SESSIONGUARD_PROBE__INTERVAL: fault: the probe's `timeout` is longer than its `interval`
  help: make the timeout at most as long as the interval
SESSIONGUARD_broker__mode: fault: no setting belongs to this variable
  help: did you mean SESSIONGUARD_BROKER__MODE?"
    );
}

#[test]
fn a_value_that_is_no_text_is_a_fault() {
    let variable = (
        OsString::from("SESSIONGUARD_STORE__PATH"),
        OsString::from_vec(vec![b'/', 0xff]),
    );
    let path = super::project().join("config/minimal.toml");
    let faults = load(&path, [variable]).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "SESSIONGUARD_STORE__PATH: fault: `path` in [store]: is not UTF-8 text"
    );
}

#[test]
fn the_only_listener_can_be_set() {
    let address = |loaded: &Loaded| loaded.config.listen[0].address;
    let variables = [
        ("SESSIONGUARD_LISTEN__ADDRESS", "0.0.0.0:4822"),
        ("SESSIONGUARD_LISTEN__HANDSHAKE_TIMEOUT", "9s"),
    ];
    let any: SocketAddr = "0.0.0.0:4822".parse().unwrap();
    for text in [
        "# none\n",
        "[[listen]]\naddress = \"127.0.0.1:5000\"\nsource = \"s\"\n",
    ] {
        let loaded = with(text, &variables).unwrap();
        assert_eq!(loaded.config.listen.len(), 1);
        assert_eq!(address(&loaded), any);
        assert_eq!(
            loaded.config.listen[0].handshake_timeout,
            Duration::from_secs(9)
        );
        assert_eq!(
            loaded.config.listen[0].source.is_some(),
            text.contains("source")
        );
    }
    let two = "[[listen]]\naddress = \"127.0.0.1:0\"\n".repeat(2);
    let faults = with(&two, &variables).unwrap_err();
    assert!(
        faults
            .to_string()
            .starts_with("SESSIONGUARD_LISTEN__ADDRESS: fault: there are several listeners"),
        "{faults}"
    );
}

/// A variable for every single value, each with the default: nothing changes,
/// and each of them is read.
#[test]
fn every_single_setting_has_a_variable() {
    let folder = TempDir::new().unwrap();
    let settings = known().filter(|(_, key)| key.form.is_single());
    let variables: Vec<(OsString, OsString)> = settings
        .map(|(shape, key)| {
            let value = match (key.default, key.form) {
                (Some(default), _) => default.trim_matches('"'),
                (None, Form::Number(..)) => "5",
                (None, Form::Place(_)) => "/a",
                (None, _) => "a",
            };
            let value = match key.form {
                Form::SecretFile => super::secrets::good(folder.path(), key.name).into(),
                _ => OsString::from(value),
            };
            (name(shape, key).into(), value)
        })
        .collect();
    assert!(variables.len() > 30, "{}", variables.len());
    let path = folder.path().join("a.toml");
    fs::write(&path, "[[farms]]\nid = \"a\"\nenabled = false\n").unwrap();
    let loaded = load(&path, variables.clone()).unwrap_or_else(|faults| panic!("{faults}"));
    let rules = loaded.config.directory.rules();
    assert_eq!(rules.max_tunnels_per_user, Some(5));
    assert_eq!(rules.default_domain.as_deref(), Some("a"));
    let listener = variables
        .iter()
        .filter(|(name, _)| is_of_listener(Path::new(name)));
    assert_eq!(loaded.origins.len() + listener.count(), variables.len());
}

fn is_of_listener(name: &Path) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with("SESSIONGUARD_LISTEN__"))
}
