//! Parameters that hosts and resources set or keep, and what the log says of them.

use crate::support::{Names, ScriptedGuacd, ScriptedHost, Stage, Visit};

/// Part of every value that must not be in the log.
const MARK: &str = "marked-value";

/// A second farm, its host and its resource with parameters, and the host itself.
fn stage(level: &'static str) -> (Stage, ScriptedHost) {
    let host = ScriptedHost::up();
    let toml = format!(
        r#"
[[farms]]
id = "plant"

[[hosts]]
id = "press"
address = "127.0.0.1"
port = {}
farm_ids = ["plant"]
parameters = {{ printer-name = "{MARK} host", drive-name = "{MARK} host", wol-mac-addr = "{MARK} host", of-host = "{MARK} host" }}

[[resources]]
id = "plant"
kind = "desktop"
farm_id = "plant"
keep_parameters = ["cert-fingerprints", "gateway-hostname"]
parameters = {{ drive-name = "{MARK} resource", console = "{MARK} resource", of-resource = "{MARK} resource" }}
"#,
        host.address().port()
    );
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |mut site| {
        site.level = level;
        site.with(toml)
    });
    (stage, host)
}

/// A connection with a value of its own in everything that matters here.
fn visit() -> Visit {
    let names = [
        "printer-name",
        "drive-name",
        "wol-mac-addr",
        "console",
        "cert-fingerprints",
        "gateway-hostname",
        "gateway-password",
        "password",
        "server-layout",
        "remote-app",
    ];
    let start = Visit::rdp("ann").answer("hostname", "sessionguard:resource=plant");
    names.iter().fold(start, |visit, name| {
        visit.answer(name, &format!("{MARK} connection"))
    })
}

fn names(line: &serde_json::Value, field: &str) -> Vec<String> {
    let names = line[field].as_str().unwrap().split(',');
    let mut names: Vec<_> = names.map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn a_resource_wins_over_the_host_and_both_over_the_connection() {
    let (stage, host) = stage("info");
    let (_visitor, peer) = stage.tunnel(&visit());
    assert_eq!(peer.value("port"), host.address().port().to_string());
    for (name, from) in [
        ("printer-name", "host"),
        ("drive-name", "resource"),
        // Cleared for others; set by us they stand.
        ("wol-mac-addr", "host"),
        ("console", "resource"),
        ("server-layout", "connection"),
    ] {
        assert_eq!(peer.value(name), format!("{MARK} {from}"), "{name}");
    }
    let placed = stage.broker.placed("ann");
    let set = ["console", "drive-name", "printer-name", "wol-mac-addr"];
    assert_eq!(names(&placed, "set"), set);
}

#[test]
fn parameters_that_a_resource_keeps_stay_and_their_like_are_cleared() {
    let (stage, _host) = stage("info");
    let (_visitor, peer) = stage.tunnel(&visit());
    for name in ["cert-fingerprints", "gateway-hostname"] {
        assert_eq!(peer.value(name), format!("{MARK} connection"), "{name}");
    }
    for name in ["gateway-password", "remote-app"] {
        assert_eq!(peer.value(name), "", "{name}");
    }
    let cleared = names(&stage.broker.placed("ann"), "cleared");
    assert!(cleared.contains(&"gateway-password".to_owned()));
    assert!(!cleared.contains(&"gateway-hostname".to_owned()));
}

#[test]
fn parameters_that_this_guacd_does_not_have_are_logged_and_do_no_harm() {
    let (stage, _host) = stage("info");
    let (_visitor, peer) = stage.tunnel(&visit());
    assert!(!peer.connect.contains_key("of-host"));
    let unknown = names(&stage.broker.placed("ann"), "unknown");
    assert_eq!(unknown, ["of-host", "of-resource"]);
}

#[test]
fn no_value_is_ever_in_the_log_though_its_name_is() {
    let (stage, _host) = stage("trace");
    let (visitor, peer) = stage.desktop(&visit());
    assert!(
        peer.values.iter().any(|value| value.contains(MARK)),
        "the values were there"
    );
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));
    let unknown = visit().answer("hostname", "sessionguard:resource=nowhere");
    assert_eq!(unknown.refused_at(&stage.broker).code, 0x204);
    stage.broker.wait("Refused", |_| true);

    let said = |needle: &str| {
        let lines = stage.broker.said();
        let mut found = lines.iter().map(ToString::to_string);
        found.find(|line| line.contains(needle))
    };
    assert_eq!(said(MARK), None);
    for name in ["gateway-password", "printer-name", "of-resource"] {
        assert!(said(name).is_some(), "{name}");
    }
}

#[test]
fn the_user_a_resource_names_is_who_is_placed() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with(
            "[[resources]]\nid = \"kiosk\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
             parameters = { username = \"Kiosk\", domain = \"CORP\" }\n",
        )
    });
    let visit = Visit::rdp("ann").answer("hostname", "sessionguard:resource=kiosk");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_eq!(
        (peer.value("username"), peer.value("domain")),
        ("Kiosk", "CORP")
    );
    assert_eq!(stage.broker.placed("corp\\kiosk")["resource"], "kiosk");
}
