//! What in a connection names its resource, and what is done where nothing does.

use crate::support::{Names, ScriptedGuacd, Stage, Visit};

/// A farm with a disabled resource, and one whose hostname a disabled one has too.
const DISABLED: &str = r#"
[[resources]]
id = "old"
kind = "desktop"
farm_id = "office"
enabled = false
hostnames = ["old.example.test"]
guacamole_connection_id = "77"
"#;

fn stage() -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, 1, |site| site.with(DISABLED))
}

fn hostname(text: &str) -> Visit {
    Visit::rdp("ann").answer("hostname", text)
}

#[test]
fn each_carrier_leads_to_its_resource() {
    let stage = stage();
    let cases = [
        (hostname("sessionguard:resource=office"), "office"),
        (hostname("SESSIONGUARD:resource=sage"), "sage"),
        (hostname("sessionguard:id=42"), "office"),
        (hostname("sessionguard:id=43;name=Office Desktop"), "sage"),
        (hostname("sessionguard:name=office DESKTOP"), "office"),
        (
            hostname("sessionguard:id=999;name=Office Desktop"),
            "office",
        ),
        (hostname("").answer("sessionguard-resource", "sage"), "sage"),
        (
            hostname("10.9.9.9").answer("sessionguard-resource", "office"),
            "office",
        ),
        (
            hostname("sessionguard:resource=sage").answer("sessionguard-resource", "sage"),
            "sage",
        ),
        (hostname("office.example.test"), "office"),
        (hostname("OFFICE.example.TEST."), "office"),
        (
            hostname("office.example.test").answer("remote-app", "||Sage"),
            "sage",
        ),
        (
            hostname("office.example.test").answer("remote-app", "||sage"),
            "sage",
        ),
    ];
    for (n, (visit, resource)) in cases.into_iter().enumerate() {
        let visit = visit.answer("username", &format!("user-{n}"));
        let (_visitor, peer) = stage.tunnel(&visit);
        assert_eq!(peer.value("hostname"), "127.0.0.1", "{visit:?}");
        let placed = stage.broker.placed(&format!("user-{n}"));
        assert_eq!(placed["resource"], resource, "{visit:?}");
    }
}

#[test]
fn carriers_that_lead_nowhere_are_refused_and_never_forwarded() {
    let stage = stage();
    for (visit, code) in [
        (hostname("sessionguard:resource=ofice"), 0x204),
        (hostname("sessionguard:id=999"), 0x204),
        (hostname("sessionguard:name=Nobody"), 0x204),
        (hostname("sessionguard:"), 0x204),
        (hostname("sessionguard:office"), 0x204),
        (hostname("sessionguard:id=${JDBC_CONNECTION_ID}"), 0x204),
        (
            hostname("10.0.0.1").answer("sessionguard-resource", "ofice"),
            0x204,
        ),
        (
            hostname("sessionguard:resource=sage").answer("sessionguard-resource", "office"),
            0x205,
        ),
        (hostname("sessionguard:farm=office;resource=office"), 0x303),
        (hostname("sessionguard:resource=old"), 0x303),
        (hostname("sessionguard:id=77"), 0x303),
        (hostname("old.example.test"), 0x303),
        (hostname("x").answer("sessionguard-resource", "old"), 0x303),
    ] {
        let refusal = visit.refused_at(&stage.broker);
        assert_eq!(refusal.code, code, "{visit:?}: {}", refusal.text);
        let mut peer = stage.guacd.next();
        assert!(peer.outcome.is_err(), "guacd got no connect: {visit:?}");
        peer.wire.rest().unwrap();
        assert!(!String::from_utf8_lossy(&peer.wire.arrived).contains("7.connect"));
    }
}

#[test]
fn a_refusal_names_the_decision_that_the_log_names() {
    let stage = stage();
    let refusal = hostname("old.example.test").refused_at(&stage.broker);
    let line = stage.broker.wait("Refused", |_| true);
    let decision = line["decision_id"].as_str().unwrap();
    assert_eq!(decision.len(), 36);
    assert!(refusal.text.contains(decision), "{}", refusal.text);
    assert!(refusal.text.contains("old is disabled"), "{}", refusal.text);
}

#[test]
fn a_connection_that_names_no_resource_passes_through_unchanged() {
    let stage = stage();
    let mut visit = hostname("192.0.2.7").answer("port", "3390");
    for name in [
        "gateway-hostname",
        "load-balance-info",
        "console",
        "wol-send-packet",
        "remote-app",
    ] {
        visit = visit.answer(name, "kept");
    }
    let (visitor, peer) = stage.tunnel(&visit);
    for name in Names::rdp("1.6.0").names() {
        assert_eq!(peer.value(name), visit.value(name), "{name}");
    }
    drop((visitor, peer));
    let passed = stage.broker.wait("Passed through", |_| true);
    assert_eq!(stage.broker.ended(&passed)["phase"], "relayed");
    assert_eq!(stage.broker.lines("Placed"), [] as [serde_json::Value; 0]);
}

#[test]
fn an_application_that_nobody_publishes_under_a_known_hostname_passes_through() {
    let stage = stage();
    let visit = hostname("office.example.test").answer("remote-app", "||Notes");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_eq!(peer.value("hostname"), "office.example.test");
    assert_eq!(peer.value("remote-app"), "||Notes");
}

#[test]
fn a_farm_selector_is_obeyed_where_it_is_allowed() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with("[broker]\nallow_farm_selector = true\n")
    });
    stage.tunnel(&hostname("sessionguard:farm=office;resource=office"));
    assert_eq!(stage.broker.placed("ann")["farm"], "office");
}

/// Of two that a connection could mean, the more telling one is meant.
#[test]
fn what_a_connection_carries_counts_most_specific_first() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        site.with(
            "[[resources]]\nid = \"plugin\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
             guacamole_connection_name = \"A; B = C\"\nload_balance_info = \"tsv://Plugin\"\n",
        )
    });
    let plugin =
        |hostname_is: &str| hostname(hostname_is).answer("load-balance-info", "tsv://Plugin");
    let cases = [
        // An id over an id of Guacamole's over a name; the name takes the rest.
        (plugin("sessionguard:resource=sage"), "sage"),
        (
            plugin("sessionguard:resource=sage;id=42;name=A; B = C"),
            "sage",
        ),
        (hostname("sessionguard:id=42;name=A; B = C"), "office"),
        (hostname("sessionguard:name=a; b = c"), "plugin"),
        // Host name and application over load-balance-info over host name.
        (
            plugin("office.example.test").answer("remote-app", "||Sage"),
            "sage",
        ),
        (plugin("office.example.test"), "plugin"),
        (
            hostname("office.example.test").answer("remote-app", " "),
            "office",
        ),
    ];
    for (n, (visit, resource)) in cases.into_iter().enumerate() {
        let user = format!("user-{n}");
        let _tunnel = stage.tunnel(&visit.answer("username", &user));
        assert_eq!(stage.broker.placed(&user)["resource"], resource, "{n}");
    }
}
