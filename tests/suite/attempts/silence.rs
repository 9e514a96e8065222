//! Silence alone moves nobody; a host that answers no more while guacd says nothing is left.

use std::time::{Duration, Instant};

use super::{RARELY, click, failed, stage};

#[test]
fn a_host_that_answers_and_paints_nothing_keeps_its_user_and_both_sides_stay_awake() {
    let stage = stage(2, RARELY);
    let (mut visitor, mut peer) = click(&stage, "ann");
    let start = Instant::now();
    let mut nops = Vec::new();
    // Beyond the deadline guacd's own `nop` would go on.
    while nops.len() < 3 {
        visitor.hear("nop");
        nops.push(start.elapsed());
        let heard = peer.wire.exact(6).unwrap();
        assert_eq!(heard, b"3.nop;");
    }
    let pauses = nops.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.max().unwrap() < Duration::from_secs(8), "{nops:?}");
    peer.stand();
    visitor.hear("sync");
    assert_eq!(stage.guacd.accepted(), 1);
    drop((visitor, peer));
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(
        (&ended["phase"], &ended["attempts"]),
        (&"stood".into(), &1.into())
    );
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
