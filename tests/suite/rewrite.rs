//! What a brokered connection's parameters are made to say.

use crate::support::{Names, ScriptedGuacd, ScriptedHost, Site, Stage, Visit};

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

#[test]
fn parameters_are_found_by_name_wherever_this_guacd_has_them() {
    let mut names = Names::rdp("1.6.0");
    // The version stays first; a newcomer stands in the middle.
    names.0[1..].reverse();
    names.0.insert(7, "newcomer".to_owned());
    let stage = Stage::before(ScriptedGuacd::polite(names), 1);
    let visit = filled("sage")
        .answer("newcomer", "kept")
        .answer("color-depth", "16");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_eq!(peer.value("hostname"), "127.0.0.1");
    assert_eq!(stage.host_of(&peer), "rds1");
    assert_eq!(
        REMOTE_APP.map(|name| peer.value(name)),
        ["||Sage", r"C:\Sage", "/quiet"]
    );
    for name in ["newcomer", "color-depth", "username", "password"] {
        assert_eq!(peer.value(name), visit.value(name), "{name}");
    }
    for name in BYPASSES {
        assert_eq!(peer.value(name), "", "{name}");
    }
    // Blank, it means the RDP host to guacd, and follows by itself.
    assert_eq!(peer.value("sftp-hostname"), "");
}

#[test]
fn an_alias_is_sent_with_one_pair_of_bars_and_odd_ones_do_not_load() {
    let with = |alias: &str| {
        format!(
            "[[resources]]\nid = \"notes\"\nkind = \"remoteapp\"\nfarm_id = \"office\"\n\
             remote_app = \"{alias}\"\n"
        )
    };
    let visit = Visit::rdp("ann").answer("hostname", "sessionguard:resource=notes");
    for alias in ["Notes", "||Notes"] {
        let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
        let stage = Stage::adjusted(guacd, 1, |site| site.with(with(alias)));
        let (_visitor, peer) = stage.tunnel(&visit);
        assert_eq!(peer.value("remote-app"), "||Notes", "{alias}");
    }
    for alias in ["|Notes", "|||Notes", "||", "||||Notes"] {
        let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
        let host = ScriptedHost::up();
        let site = Stage::site(guacd.address(), &[host.address()]).with(with(alias));
        let output = Site::run(&["check"], &site.write());
        assert_eq!(output.status.code(), Some(78), "{alias}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("remote_app"), "{alias}: {text}");
    }
}
