//! A host fails before the desktop stood: the user lands on the next one, and the page sees one
//! clean start. What is no fault of a host is never tried elsewhere.

mod bounds;
mod dialled;
mod gone;
mod guacd;
mod held;
mod joins;
mod returning;
mod silence;
mod stopping;

use std::time::Duration;

use crate::support::{GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor, trace};

/// Probes so rare that only what is asked on demand counts.
const RARELY: &str = "[probe]\ninterval = \"1h\"\n";

/// So many hosts, and a configuration that differs.
fn stage(hosts: usize, more: &str) -> Stage {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    Stage::adjusted(guacd, hosts, |site| site.with(more))
}

/// A click that has its `ready`, and the first guacd connection for it.
fn click(stage: &Stage, user: &str) -> (Visitor, GuacdPeer) {
    stage.tunnel(&Visit::office(user))
}

/// What guacd says when it fails, then.
fn fail(mut peer: GuacdPeer, said: &[u8]) {
    peer.wire.send(said).unwrap();
    peer.wire.finish();
}

/// The line of an attempt that was given up.
fn failed(stage: &Stage, user: &str, attempt: u64) -> serde_json::Value {
    let tunnel = stage.broker.placed(user)["tunnel"].clone();
    stage.broker.wait(
        "Host failed before the desktop stood, trying the next",
        |line| line["tunnel"] == tunnel && line["attempt"] == attempt,
    )
}

#[test]
fn a_refused_host_is_followed_by_one_that_stands_and_the_page_sees_that_alone() {
    let stage = stage(2, "# Nothing more.\n");
    let (mut visitor, first) = click(&stage, "ann");
    let dead = stage.host_of(&first);
    fail(
        first,
        b"3.img,1.0,2.12,9.image/png;5.error,7.Refused,3.519;10.disconnect;",
    );
    let mut second = stage.guacd.ready();
    assert_ne!(stage.host_of(&second), dead);
    assert_eq!(second.select, "rdp");
    let desktop = b"4.size,1.0,4.1024,3.768;4.sync,5.12345,1.1;";
    second.wire.send(desktop).unwrap();
    assert_eq!(visitor.wire.exact(desktop.len()).unwrap(), desktop);
    visitor.wire.send(b"4.sync,5.12345;").unwrap();
    assert_eq!(second.wire.exact(15).unwrap(), b"4.sync,5.12345;");

    let line = failed(&stage, "ann", 1);
    assert_eq!(
        (&line["host"], &line["status"]),
        (&dead.into(), &519.into())
    );
    let placed = stage.broker.wait_for_lines("Placed", 2);
    assert_eq!(placed[0]["tunnel"], placed[1]["tunnel"]);
    assert_eq!(line["decision_id"], placed[0]["decision_id"]);
    assert_ne!(line["decision_id"], placed[1]["decision_id"]);
    drop((visitor, second));
    let ended = stage.broker.ended(&placed[0]);
    assert_eq!(
        (&ended["phase"], &ended["attempts"]),
        (&"stood".into(), &2.into())
    );
    let (_, metrics) = stage.broker.health("/metrics");
    for count in [
        "sessionguard_attempts_total{result=\"failed\"} 1",
        "sessionguard_attempts_total{result=\"stood\"} 1",
        "sessionguard_connections_saved_total 1",
    ] {
        assert!(metrics.contains(count), "{count} in {metrics}");
    }
}

#[test]
fn the_settings_and_parameters_are_said_again_as_they_were() {
    let stage = stage(2, "# Nothing more.\n");
    let visit = Visit::office("ann").answer("drive-name", "${SESSIONGUARD_AGENT_ID}");
    let (_visitor, first) = stage.tunnel(&visit);
    let (settings, mut values) = (first.settings.clone(), first.connect.clone());
    assert_eq!(settings, visit.settings());
    assert_eq!(first.value("drive-name"), stage.host_of(&first));
    fail(first, b"5.error,1.x,3.519;");
    let second = stage.guacd.ready();
    assert_eq!(second.settings, settings);
    // Rewritten from what Guacamole sent, not from what the first one was told.
    values.insert("drive-name".to_owned(), stage.host_of(&second));
    values.insert("port".to_owned(), second.value("port").to_owned());
    assert_eq!(second.connect, values);
}

#[test]
fn two_dead_hosts_are_followed_by_the_third() {
    let stage = stage(3, "# Nothing more.\n");
    let (mut visitor, first) = click(&stage, "ann");
    let mut hosts = vec![stage.host_of(&first)];
    fail(first, b"5.error,1.x,3.519;");
    let second = stage.guacd.ready();
    hosts.push(stage.host_of(&second));
    fail(second, b"5.error,1.x,3.515;");
    let mut third = stage.guacd.ready();
    hosts.push(stage.host_of(&third));
    third.stand();
    visitor.hear_past_nops("sync");
    hosts.sort();
    assert_eq!(hosts, ["rds1", "rds2", "rds3"]);
    failed(&stage, "ann", 2);
}

#[test]
fn what_points_at_the_host_is_tried_elsewhere() {
    let ways: [(&str, &[u8]); 7] = [
        ("timeout", b"5.error,1.x,3.514;"),
        ("other", b"5.error,1.x,3.515;10.disconnect;"),
        ("refused", b"5.error,1.x,3.519;"),
        ("lost", b"5.error,1.x,3.520;"),
        ("bare", b"10.disconnect;"),
        ("drawn", b"4.size,1.0,4.1024,3.768;3.nop;"),
        ("empty", b"5.mouse,1.0,1.0,1.0,5.12345;4.sync,5.12345,1.0;"),
    ];
    let stage = stage(2, "# Nothing more.\n");
    for (user, said) in ways {
        let (mut visitor, first) = click(&stage, user);
        let dead = stage.host_of(&first);
        fail(first, said);
        let mut second = stage.guacd.ready();
        assert_ne!(stage.host_of(&second), dead, "{user}");
        second.stand();
        visitor.hear_past_nops("sync");
    }
    let (mut visitor, first) = click(&stage, "reset");
    first.wire.reset();
    stage.guacd.ready().stand();
    visitor.hear_past_nops("sync");
}

#[test]
fn what_is_no_fault_of_the_host_is_told_as_guacd_tells_it_and_tried_nowhere_else() {
    let codes = [
        256, 512, 513, 516, 517, 521, 522, 523, 768, 769, 771, 776, 797, 9999,
    ];
    let stage = stage(2, "# Nothing more.\n");
    for code in codes {
        let user = format!("user{code}");
        let (mut visitor, mut peer) = click(&stage, &user);
        let said = format!(
            "3.img,1.0;5.error,5.Sorry,{}.{code};",
            code.to_string().len()
        );
        peer.wire.send(&said).unwrap();
        assert_eq!(visitor.wire.rest().unwrap(), said.as_bytes(), "{code}");
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed(&user));
        assert_eq!(ended["attempts"], 1, "{code}");
    }
    assert_eq!(stage.guacd.accepted(), codes.len());
    let failed = "Host failed before the desktop stood, trying the next";
    assert!(stage.broker.lines(failed).is_empty());
}

#[test]
fn a_prompt_is_a_desktop_and_stays_where_it_is() {
    let stage = stage(2, "# Nothing more.\n");
    let (mut visitor, mut peer) = click(&stage, "ann");
    peer.wire.send(b"8.required,8.password;").unwrap();
    visitor.hear("required");
    peer.wire.send(b"5.error,1.x,3.519;").unwrap();
    assert_eq!(visitor.hear("error").args()[1], "519");
    assert_eq!(stage.guacd.accepted(), 1);
}

#[test]
fn recorded_failures_of_three_releases_leave_no_trace_in_the_page() {
    for release in ["1.3.0", "1.5.5", "1.6.0"] {
        let stage = stage(2, "# Nothing more.\n");
        let behind_ready = |what| {
            let recorded = trace(release, what);
            let mut ends = recorded
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b';');
            let end = ends.nth(1).unwrap().0 + 1;
            recorded[end..].to_vec()
        };
        let (mut visitor, first) = click(&stage, "ann");
        fail(first, &behind_ready("rdp-refused"));
        let mut second = stage.guacd.ready();
        let desktop = behind_ready("rdp-desktop");
        second.wire.send(&desktop).unwrap();
        assert!(
            visitor.wire.exact(desktop.len()).unwrap() == desktop,
            "{release}"
        );
    }
}

#[test]
fn a_host_that_does_not_answer_costs_no_guacd_connection() {
    let stage = stage(2, RARELY);
    let (visitor, peer) = click(&stage, "ann");
    let first = stage.host_of(&peer);
    drop((visitor, peer));
    stage.broker.ended(&stage.broker.placed("ann"));
    let index = usize::from(first == "rds2");
    stage.hosts[index].answer(false);
    // What was found less than a second ago counts.
    std::thread::sleep(Duration::from_millis(1_100));
    // The probe found it well, so that some are sent there.
    let mut others = Vec::new();
    loop {
        let user = format!("user{}", others.len());
        let (mut visitor, mut peer) = click(&stage, &user);
        assert_ne!(stage.host_of(&peer), first);
        peer.stand();
        visitor.hear_past_nops("sync");
        others.push((visitor, peer));
        let given_up = stage
            .broker
            .lines("Host failed before the desktop stood, trying the next");
        if let [line] = &given_up[..] {
            assert_eq!(line["host"], first.as_str());
            let reason = line["reason"].as_str().unwrap();
            assert!(reason.contains("does not answer"), "{reason}");
            break;
        }
        assert!(others.len() < 8, "nobody is sent there");
    }
    assert_eq!(stage.guacd.accepted(), 1 + others.len());
}

#[test]
fn another_guacd_behind_the_name_is_answered_by_its_own_names() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let guacd = ScriptedGuacd::playing(move |peer| {
        let first = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        peer.shake_hands(&Names::rdp(if first { "1.6.0" } else { "1.3.0" }))
    });
    let stage = Stage::before(guacd, 2);
    let visit = Visit::office("ann").answer("timezone", "Europe/Berlin");
    let (mut visitor, first) = stage.tunnel(&visit);
    fail(first, b"5.error,1.x,3.519;");
    let mut second = stage.guacd.ready();
    assert_eq!(second.values[0], "VERSION_1_3_0", "the lower of both");
    for (name, value) in [("username", "ann"), ("timezone", "Europe/Berlin")] {
        assert_eq!(second.value(name), value);
    }
    second.stand();
    visitor.hear_past_nops("sync");
}
