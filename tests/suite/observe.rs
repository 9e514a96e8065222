//! `mode = "observe"`: decisions are made and logged, and nothing changes.

use crate::support::{Broker, Names, ScriptedGuacd, ScriptedHost, Stage, Visit};

fn stage(hosts: usize) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let mut stage = Stage::before(guacd, hosts);
    let addresses: Vec<_> = stage.hosts.iter().map(ScriptedHost::address).collect();
    let farm = Stage::farm(&addresses, &[]);
    let observing = format!("{farm}[broker]\nmode = \"observe\"\n");
    stage.site.change_first(observing);
    stage.restarted(end)
}

fn end(broker: Broker) {
    broker.signal("TERM");
    assert!(broker.exit().success());
}

/// A visit with something to clear.
fn visit(hostname: &str) -> Visit {
    ["console", "remote-app", "gateway-hostname", "client-name"]
        .iter()
        .fold(Visit::rdp("ann"), |visit, name| visit.answer(name, "own"))
        .answer("hostname", hostname)
        .answer("port", "3390")
}

#[test]
fn every_decision_is_logged_and_every_connection_goes_on_as_it_came() {
    let stage = stage(1);
    for (hostname, message) in [
        ("sessionguard:resource=office", "Would place"),
        ("sessionguard:resource=ofice", "Would refuse"),
        ("sessionguard:id=${JDBC_CONNECTION_ID}", "Would refuse"),
        ("${SESSIONGUARD_HOST}", "Would refuse"),
        ("192.0.2.7", "Would pass through"),
    ] {
        let before = stage.broker.lines(message).len();
        let visit = visit(hostname);
        let (_visitor, peer) = stage.tunnel(&visit);
        for name in Names::rdp("1.6.0").names() {
            assert_eq!(peer.value(name), visit.value(name), "{hostname}: {name}");
        }
        let lines = stage.broker.wait_for_lines(message, before + 1);
        let line = lines.last().unwrap();
        assert_eq!(line["decision_id"].as_str().unwrap().len(), 36);
        match message {
            "Would place" => assert_eq!(
                (&line["user"], &line["host"]),
                (&"ann".into(), &"rds1".into())
            ),
            "Would refuse" => assert!(!line["reason"].as_str().unwrap().is_empty()),
            _ => {}
        }
    }
    for message in ["Placed", "Refused"] {
        assert!(stage.broker.lines(message).is_empty(), "{message}");
    }
}

#[test]
fn a_resource_in_the_extra_parameter_is_decided_on_and_never_reaches_guacd() {
    let stage = stage(1);
    let visit = visit("192.0.2.7").answer("sessionguard-resource", "sage");
    let (_visitor, peer) = stage.tunnel(&visit);
    assert_eq!(peer.value("hostname"), "192.0.2.7");
    assert_eq!(peer.value("remote-app"), "own");
    assert_eq!(stage.broker.wait("Would place", |_| true)["host"], "rds1");
}

#[test]
fn a_desktop_that_was_only_watched_leaves_no_lease() {
    let stage = stage(2);
    let (first, of_first) = stage.desktop(&Visit::office("ann"));
    // Nor does the tunnel that is open hold its user.
    let (second, of_second) = stage.desktop(&Visit::office("ann"));
    for line in stage.broker.wait_for_lines("Would place", 2) {
        assert_eq!(line["reason"], "best score");
    }
    drop((first, of_first, second, of_second));
    stage.broker.wait_for_lines("Tunnel ended", 2);

    // A broker that acts finds nothing.
    let stage = stage.restarted_with(&[]);
    stage.tunnel(&Visit::office("ann"));
    assert_eq!(stage.broker.placed("ann")["reason"], "best score");
}
