//! Hosts that were well when they were last asked, and are gone when somebody is sent there: each
//! way to be gone costs a moment, no guacd connection, and nothing that the page sees.

use std::thread;
use std::time::{Duration, Instant};

use super::{RARELY, click, failed, stage};
use crate::support::{Names, ScriptedGuacd, ScriptedHost, Stage, Visit};

/// For what is found out within a probe's timeout, on a machine under load.
const SOON: Duration = Duration::from_secs(8);

/// What was found less than a second ago counts.
fn let_it_grow_old() {
    thread::sleep(Duration::from_millis(1_100));
}

/// Of two hosts the better one is gone, and Bob is sent there first.
fn bob_lands_on_the_other<T>(go: impl FnOnce(&ScriptedHost) -> T) {
    let stage = stage(2, RARELY);
    stage.broker.wait_for_lines("Host answers RDP", 2);
    let (_ann, of_ann) = stage.desktop(&Visit::office("ann"));
    let well = stage.host_of(&of_ann);
    let index = usize::from(well == "rds1");
    let _gone = go(&stage.hosts[index]);
    let_it_grow_old();
    let start = Instant::now();
    let (mut bob, mut peer) = click(&stage, "bob");
    assert_eq!(stage.host_of(&peer), well);
    peer.stand();
    bob.hear_past_nops("sync");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let line = failed(&stage, "bob", 1);
    assert_eq!(line["host"], format!("rds{}", index + 1));
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.starts_with("does not answer: "), "{reason}");
    assert_eq!(stage.guacd.accepted(), 2, "one for each user");
    let later = stage.broker.wait("Host does not answer RDP", |_| true);
    assert_eq!(later["host"], line["host"], "everybody knows it now");
}

#[test]
fn one_whose_port_is_refused_is_passed_over() {
    bob_lands_on_the_other(ScriptedHost::refuse);
}

#[test]
fn one_that_swallows_connections_is_passed_over() {
    bob_lands_on_the_other(ScriptedHost::swallow);
}

#[test]
fn one_that_accepts_and_never_answers_x224_is_passed_over() {
    bob_lands_on_the_other(ScriptedHost::hush);
}

#[test]
fn with_all_but_one_gone_the_user_lands_on_that_one_by_the_usual_number_of_attempts() {
    let stage = stage(8, RARELY);
    stage.broker.wait_for_lines("Host answers RDP", 8);
    let (_ann, of_ann) = stage.desktop(&Visit::office("ann"));
    let well = stage.host_of(&of_ann);
    let hosts = (1..).zip(&stage.hosts);
    let gone = hosts.filter(|(number, _)| format!("rds{number}") != well);
    let mut queued = Vec::new();
    for (nth, (_, host)) in gone.enumerate() {
        match nth % 3 {
            0 => host.refuse(),
            1 => host.hush(),
            _ => queued.push(host.swallow()),
        }
    }
    let_it_grow_old();
    let start = Instant::now();
    // Every other one looks better: nobody is there.
    let (mut bob, mut peer) = click(&stage, "bob");
    assert_eq!(stage.host_of(&peer), well);
    peer.stand();
    bob.hear_past_nops("sync");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(stage.guacd.accepted(), 2, "one for each user");
}

#[test]
fn one_that_answers_x224_with_a_refusal_of_our_security_is_tried_like_any_other() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let host = ScriptedHost::unwilling();
    let site = Stage::site(guacd.address(), &[host.address()]).with(RARELY);
    let stage = Stage {
        broker: site.start(),
        hosts: vec![host],
        guacd,
        site,
    };
    stage.broker.wait_for_lines("Host answers RDP", 1);
    let_it_grow_old();
    let asked = stage.hosts[0].asked();
    let _ann = stage.desktop(&Visit::office("ann"));
    assert!(stage.hosts[0].asked() > asked, "it was asked again");
}

#[test]
fn with_all_of_them_gone_the_page_is_told_in_time_and_guacd_is_sent_nowhere() {
    let stage = stage(3, RARELY);
    stage.broker.wait_for_lines("Host answers RDP", 3);
    stage.hosts[0].refuse();
    let _queued = stage.hosts[1].swallow();
    stage.hosts[2].hush();
    let_it_grow_old();
    let start = Instant::now();
    let mut visitor = Visit::office("ann").at(&stage.broker);
    visitor.ready();
    let (code, text) = visitor.farewell();
    assert_eq!(code, 0x208, "the page comes back by itself");
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(13), "{elapsed:?}");
    assert_eq!(stage.guacd.accepted(), 1);
    assert!(stage.guacd.next().connect.is_empty());
    // Whom the others' question found gone was not tried any more.
    let hosts = ["rds1", "rds2", "rds3"];
    let named = hosts.iter().filter(|host| text.contains(**host)).count();
    assert!(named >= 1, "{text}");
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["attempts"], named);
}
