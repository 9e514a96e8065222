//! Silence alone moves nobody; a host that answers no more while guacd says nothing is left.

use std::thread;
use std::time::{Duration, Instant};

use super::{RARELY, click, failed, stage};
use crate::support::{GuacdPeer, Stage, Visitor};

/// How long nothing is painted.
const A_MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_host_that_accepts_and_paints_nothing_for_a_minute_keeps_its_user() {
    thread::scope(|scope| {
        scope.spawn(within_the_deadline_both_sides_are_kept_awake);
        scope.spawn(beyond_the_deadline_both_sides_hear_each_other);
    });
}

fn within_the_deadline_both_sides_are_kept_awake() {
    let stage = stage(2, &format!("{RARELY}[broker]\nattempt_deadline = \"2m\"\n"));
    let (mut visitor, mut peer) = click(&stage, "ann");
    let host = stage.host_of(&peer);
    let asked = |id: &str| stage.hosts[usize::from(id == "rds2")].asked();
    let (start, asked_before) = (Instant::now(), asked(&host));
    let mut nops = vec![start.elapsed()];
    while start.elapsed() < A_MINUTE {
        visitor.hear("nop");
        nops.push(start.elapsed());
        assert_eq!(peer.wire.exact(6).unwrap(), b"3.nop;");
    }
    let pauses = nops.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.max().unwrap() < Duration::from_secs(8), "{nops:?}");
    let asked_meanwhile = asked(&host) - asked_before;
    assert!(asked_meanwhile >= 5, "is it there? {asked_meanwhile} times");
    visitor.wire.send(b"3.key,2.97,1.1;").unwrap();
    peer.stand();
    visitor.hear_past_nops("sync");
    assert_stayed(&stage, visitor, peer);
}

fn beyond_the_deadline_both_sides_hear_each_other() {
    let stage = stage(2, RARELY);
    let (mut visitor, mut peer) = click(&stage, "ann");
    peer.wire.send(b"4.size,1.0,4.1024,3.768;").unwrap();
    let start = Instant::now();
    visitor.hear_past_nops("size");
    let released = start.elapsed();
    let due = Duration::from_secs(12)..Duration::from_secs(20);
    assert!(due.contains(&released), "{released:?}");
    // From here on both say themselves that they are there, as guacd and a page do.
    let (mut of_guacd, mut of_page) = (0, 0);
    while start.elapsed() < A_MINUTE {
        peer.wire.send(b"3.nop;").unwrap();
        visitor.hear("nop");
        of_guacd += 1;
        visitor.wire.send(b"4.sync,1.0;").unwrap();
        while peer.wire.instruction().unwrap().unwrap().opcode() == "nop" {}
        of_page += 1;
        thread::sleep(Duration::from_secs(2));
    }
    assert!(of_guacd == of_page && of_guacd > 10, "{of_guacd}");
    peer.stand();
    visitor.hear_past_nops("sync");
    assert_stayed(&stage, visitor, peer);
}

/// One guacd connection, one placement, a tunnel that stood in the end.
fn assert_stayed(stage: &Stage, visitor: Visitor, peer: GuacdPeer) {
    assert_eq!(stage.guacd.accepted(), 1);
    drop((visitor, peer));
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(
        (&ended["phase"], &ended["attempts"]),
        (&"stood".into(), &1.into())
    );
    assert_eq!(stage.broker.lines("Placed").len(), 1);
}

#[test]
fn a_silent_host_that_answers_no_more_is_left_for_the_next() {
    let stage = stage(2, RARELY);
    let (mut visitor, peer) = click(&stage, "ann");
    let first = stage.host_of(&peer);
    stage.hosts[usize::from(first == "rds2")].answer(false);
    let mut second = stage.guacd.ready();
    assert_ne!(stage.host_of(&second), first);
    second.stand();
    // The page was kept awake meanwhile, by nothing but that.
    loop {
        let heard = visitor.wire.instruction().unwrap().unwrap();
        if heard.opcode() == "sync" {
            break;
        }
        assert_eq!(heard.opcode(), "nop");
    }
    let line = failed(&stage, "ann", 1);
    let reason = line["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("silent, and does not answer"),
        "{reason}"
    );
}

#[test]
fn a_host_that_takes_long_to_answer_while_somebody_logs_on_there_keeps_them() {
    let stage = stage(2, "[probe]\ninterval = \"1h\"\ntimeout = \"5s\"\n");
    let (mut visitor, mut peer) = click(&stage, "ann");
    let home = stage.host_of(&peer);
    let host = &stage.hosts[usize::from(home == "rds2")];
    let asked = host.asked();
    host.answer_after(Duration::from_millis(2_000));
    crate::support::eventually("it is asked", || (host.asked() > asked).then_some(()));
    // Another guacd connection would be there by then.
    assert!(stage.guacd.within(Duration::from_secs(3)).is_none());
    peer.stand();
    loop {
        let heard = visitor.wire.instruction().unwrap().unwrap();
        if heard.opcode() == "sync" {
            break;
        }
        assert_eq!(heard.opcode(), "nop");
    }
    assert_eq!(stage.guacd.accepted(), 1);
}
