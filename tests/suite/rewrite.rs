//! What a brokered connection's parameters are made to say.

use crate::support::{Names, ScriptedGuacd, Stage, Visit};

/// What leads past a placement, by name, in guacd 1.6.0.
const BYPASSES: [&str; 14] = [
    "gateway-hostname",
    "gateway-port",
    "gateway-domain",
    "gateway-username",
    "gateway-password",
    "load-balance-info",
    "preconnection-id",
    "preconnection-blob",
    "console",
    "wol-send-packet",
    "wol-mac-addr",
    "wol-broadcast-addr",
    "wol-udp-port",
    "cert-fingerprints",
];

const REMOTE_APP: [&str; 3] = ["remote-app", "remote-app-dir", "remote-app-args"];

fn filled(resource: &str) -> Visit {
    let start = Visit::rdp("ann").answer("hostname", &format!("sessionguard:resource={resource}"));
    let others = ["initial-program", "console-audio", "wol-wait-time"];
    let names = BYPASSES.iter().chain(&REMOTE_APP).chain(&others);
    names.fold(start, |visit, name| {
        visit.answer(name, &format!("old {name}"))
    })
}

#[test]
fn a_desktop_clears_what_bypasses_it_and_every_remote_app() {
    let stage = Stage::one();
    let (_visitor, peer) = stage.tunnel(&filled("office"));
    for name in BYPASSES.iter().chain(&REMOTE_APP).chain(&["wol-wait-time"]) {
        assert_eq!(peer.value(name), "", "{name}");
    }
    for name in ["initial-program", "console-audio"] {
        assert_eq!(peer.value(name), format!("old {name}"));
    }
    let placed = stage.broker.placed("ann");
    let cleared: Vec<_> = placed["cleared"].as_str().unwrap().split(',').collect();
    assert!(
        BYPASSES
            .iter()
            .chain(&REMOTE_APP)
            .all(|name| cleared.contains(name)),
        "{placed}"
    );
    assert!(
        !placed.to_string().contains("old "),
        "names, never values: {placed}"
    );
}

#[test]
fn an_application_is_set_whole_and_the_initial_program_cleared() {
    let stage = Stage::one();
    let (_visitor, peer) = stage.tunnel(&filled("sage"));
    let set = REMOTE_APP.map(|name| peer.value(name));
    assert_eq!(set, ["||Sage", r"C:\Sage", "/quiet"]);
    for name in BYPASSES.iter().chain(&["initial-program"]) {
        assert_eq!(peer.value(name), "", "{name}");
    }
}

#[test]
fn user_password_and_domain_stay_as_they_came() {
    let stage = Stage::one();
    let visit = Visit::office(r"CORP\Ann").answer("domain", "Other");
    let (_visitor, peer) = stage.tunnel(&visit);
    for name in ["username", "password", "domain"] {
        assert_eq!(peer.value(name), visit.value(name));
    }
}

#[test]
fn a_guacd_without_applications_is_refused_one_and_told_nothing() {
    let mut names = Names::rdp("1.6.0");
    names.0.retain(|name| !name.starts_with("remote-app"));
    let stage = Stage::before(ScriptedGuacd::polite(names), 1);
    let visit = Visit::rdp("ann").answer("hostname", "sessionguard:resource=sage");
    let refusal = visit.refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x204);
    assert!(refusal.text.contains("remote-app"), "{}", refusal.text);
    assert!(stage.guacd.next().connect.is_empty());
    // A desktop needs none.
    let (_visitor, peer) = stage.tunnel(&Visit::office("ann"));
    assert_eq!(peer.value("hostname"), "127.0.0.1");
}
