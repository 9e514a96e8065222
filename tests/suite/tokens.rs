//! Tokens in what a connection says, and what else in it stands for a resource.

use serde_json::Value;

use crate::support::{GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor};

const ANY_HOST: &str = "${SESSIONGUARD_HOST}";

/// The tokens with a text around each.
const ALL: &str = "a ${SESSIONGUARD_HOST} b ${SESSIONGUARD_AGENT_ID} c \
                   ${SESSIONGUARD_RESOURCE_ID} d ${SESSIONGUARD_REMOTE_APP} e \
                   ${SESSIONGUARD_REMOTE_APP_DIR} f ${SESSIONGUARD_REMOTE_APP_ARGS} g";

fn stage(toml: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, 1, |site| site.with(toml))
}

fn default_farm() -> Stage {
    stage("[broker]\ndefault_farm = \"office\"\n")
}

fn hostname(text: &str) -> Visit {
    Visit::rdp("ann").answer("hostname", text)
}

/// The visit is refused so, and its guacd never hears a `connect`; what the page is told.
fn assert_refused(stage: &Stage, visit: &Visit, code: u16) -> String {
    let refusal = visit.refused_at(&stage.broker);
    assert_eq!(refusal.code, code, "{visit:?}: {}", refusal.text);
    let mut peer = stage.guacd.next();
    assert!(peer.outcome.is_err(), "guacd got no connect: {visit:?}");
    peer.wire.rest().unwrap();
    let arrived = String::from_utf8_lossy(&peer.wire.arrived).into_owned();
    assert!(arrived.contains("6.select"), "{arrived}");
    assert!(!arrived.contains("7.connect"), "{arrived}");
    refusal.text
}

fn assert_on_the_host(stage: &Stage, peer: &GuacdPeer) {
    assert_eq!(peer.value("hostname"), "127.0.0.1");
    assert_eq!(stage.host_of(peer), "rds1");
}

#[test]
fn any_host_without_a_resource_comes_to_the_default_farm_as_connected() {
    let stage = default_farm();
    let visit = hostname(ANY_HOST)
        .answer("remote-app", "||Notes")
        .answer("remote-app-dir", r"C:\Notes")
        .answer("remote-app-args", "/new")
        .answer("initial-program", "shell.exe")
        .answer("console", "true");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_on_the_host(&stage, &peer);
    for name in [
        "remote-app",
        "remote-app-dir",
        "remote-app-args",
        "initial-program",
    ] {
        assert_eq!(peer.value(name), visit.value(name), "{name}");
    }
    assert_eq!(peer.value("console"), "", "brokered all the same");
    let placed = stage.broker.placed("ann");
    assert_eq!(placed["farm"], "office");
    assert_eq!(placed["resource"], "");
}

#[test]
fn any_host_with_a_resource_in_the_extra_parameter_gets_that_resource() {
    let stage = default_farm();
    let visit = hostname(ANY_HOST)
        .answer("sessionguard-resource", "sage")
        .answer("remote-app", "||Notes");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_on_the_host(&stage, &peer);
    assert_eq!(peer.value("remote-app"), "||Sage");
    assert_eq!(stage.broker.placed("ann")["resource"], "sage");
}

#[test]
fn any_host_without_a_default_farm_is_refused_and_a_resource_still_leads() {
    let stage = Stage::one();
    assert_refused(&stage, &hostname(ANY_HOST), 0x204);
    let visit = hostname(ANY_HOST).answer("sessionguard-resource", "office");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_on_the_host(&stage, &peer);
}

#[test]
fn nothing_but_the_token_comes_to_the_default_farm() {
    let stage = default_farm();
    for text in ["", "192.0.2.7", "x${SESSIONGUARD_HOST}"] {
        let (_visitor, peer) = stage.tunnel(&hostname(text));
        assert_eq!(peer.value("hostname"), text);
    }
    assert_eq!(stage.broker.lines("Placed"), [] as [Value; 0]);
}

#[test]
fn every_token_is_filled_in_every_parameter_but_the_credentials() {
    let stage = Stage::one();
    let filled = [
        (
            "sage",
            r"a 127.0.0.1 b rds1 c sage d ||Sage e C:\Sage f /quiet g",
        ),
        ("office", "a 127.0.0.1 b rds1 c office d  e  f  g"),
    ];
    for (resource, filled) in filled {
        let selector = format!("sessionguard:resource={resource}");
        let visit = ["printer-name", "recording-path", "domain"]
            .iter()
            .fold(hostname(&selector), |visit, name| visit.answer(name, ALL))
            .answer("username", ALL)
            .answer("password", ALL)
            .answer("drive-name", "${SESSIONGUARD_OTHER} ${GUAC_USERNAME}");
        let (_visitor, peer) = stage.tunnel(&visit);
        for name in ["printer-name", "recording-path", "domain"] {
            assert_eq!(peer.value(name), filled, "{name}");
        }
        for name in ["username", "password", "drive-name"] {
            assert_eq!(peer.value(name), visit.value(name), "{name}");
        }
    }
}

#[test]
fn tokens_that_guacamole_left_unfilled_are_refused_and_guacd_gets_no_connect() {
    let stage = Stage::one();
    let selectors = [
        "sessionguard:id=${JDBC_CONNECTION_ID}",
        "sessionguard:id=${JDBC_CONNECTION_ID};name=${JDBC_CONNECTION_NAME}",
        "sessionguard:id=42;name=${JDBC_CONNECTION_NAME}",
    ];
    let extra = hostname("192.0.2.7").answer("sessionguard-resource", "${JDBC_CONNECTION_ID}");
    for visit in selectors.map(hostname).into_iter().chain([extra]) {
        let told = assert_refused(&stage, &visit, 0x204);
        assert!(told.contains("left a token unfilled"), "{told}");
    }
}

#[test]
fn a_host_name_published_as_connected_keeps_the_application_or_the_desktop() {
    let stage = stage(
        "[[resources]]\nid = \"pool\"\nkind = \"as-connected\"\nfarm_id = \"office\"\n\
         hostnames = [\"pool.example.test\"]\n",
    );
    for (user, app) in [("ann", "||Notes"), ("bob", "")] {
        let visit = Visit::rdp(user)
            .answer("hostname", "pool.example.test")
            .answer("remote-app", app);
        let (_visitor, peer) = stage.tunnel(&visit);
        assert_on_the_host(&stage, &peer);
        assert_eq!(peer.value("remote-app"), app);
        assert_eq!(stage.broker.placed(user)["resource"], "pool");
    }
}

#[test]
fn load_balance_info_names_its_resource_and_is_cleared() {
    let info = "tsv://MS Terminal Services Plugin.1.Office";
    let stage = stage(&format!(
        "[[resources]]\nid = \"plugin\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
         load_balance_info = \"{info}\"\n"
    ));
    let (_visitor, peer) = stage.tunnel(&hostname("192.0.2.7").answer("load-balance-info", info));
    assert_on_the_host(&stage, &peer);
    assert_eq!(peer.value("load-balance-info"), "");
    assert_eq!(stage.broker.placed("ann")["resource"], "plugin");
    // Another one is nobody's.
    let other = hostname("192.0.2.7").answer("load-balance-info", "tsv://Other");
    let (_visitor, peer) = stage.tunnel(&other);
    assert_eq!(peer.value("hostname"), "192.0.2.7");
    assert_eq!(peer.value("load-balance-info"), "tsv://Other");
}

#[test]
fn equal_connection_ids_of_two_guacamoles_are_told_apart_by_the_listener() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 1, |site| {
        let second = "[[listen]]\naddress = \"127.0.0.1:0\"\nsource = \"west\"";
        let site = site.listening("source = \"east\"").listening(second);
        ["east", "west"].iter().fold(site, |site, source| {
            site.with(format!(
                "[[resources]]\nid = \"of-{source}\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
                 guacamole_connection_id = \"7\"\nsource = \"{source}\"\n"
            ))
        })
    });
    let listening = stage.broker.wait_for_lines("Listening", 2);
    for (line, resource) in listening.iter().zip(["of-east", "of-west"]) {
        let mut visitor = Visitor::dial(line["address"].as_str().unwrap().parse().unwrap());
        visitor.click(&Visit::rdp(resource).answer("hostname", "sessionguard:id=7"));
        visitor.ready();
        stage.guacd.ready();
        assert_eq!(stage.broker.placed(resource)["resource"], resource);
    }
}

#[test]
fn where_the_unmatched_are_refused_other_protocols_still_pass() {
    let stage = stage("[broker]\nunmatched = \"refuse\"\n");
    assert_refused(&stage, &hostname("192.0.2.7"), 0x303);
    let visit = Visit::protocol("vnc").answer("hostname", "192.0.2.7");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_eq!(peer.select, "vnc");
    assert_eq!(peer.value("hostname"), "192.0.2.7");
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_on_the_host(&stage, &peer);
}
