//! How often and for how long, and what the page is told when nothing is left.

use std::time::{Duration, Instant};

use super::{RARELY, click, fail, stage};
use crate::support::{Names, ScriptedGuacd, Stage, Visit};

#[test]
fn when_nothing_is_left_the_page_hears_guacds_own_code_the_hosts_and_the_decision() {
    for (said, code) in [
        (&b"5.error,1.x,3.519;"[..], 0x207),
        (b"5.error,1.x,3.514;", 0x202),
        (b"10.disconnect;", 0x208),
        (b"", 0x208),
    ] {
        let stage = stage(2, "# Nothing more.\n");
        let (mut visitor, first) = click(&stage, "ann");
        let mut hosts = vec![stage.host_of(&first)];
        fail(first, b"5.error,1.x,3.515;");
        let second = stage.guacd.ready();
        hosts.push(stage.host_of(&second));
        fail(second, said);
        let (told, text) = visitor.farewell();
        assert_eq!(told, code, "a balancing group tries its next member");
        let named = format!("no desktop: {} failed before it stood", hosts.join(", "));
        assert!(text.starts_with(&named), "{text}");
        let refused = stage.broker.wait("Refused", |_| true);
        let decision = refused["decision_id"].as_str().unwrap();
        assert!(text.contains(decision), "{text}");
        let id = ["explain", "--decision", decision];
        let (_, explained, _) = crate::suite::asking::asked(&stage.site, &id);
        assert!(explained.contains("failed this connection"), "{explained}");
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(
            (&ended["by"], &ended["attempts"]),
            (&"sessionguard".into(), &2.into())
        );
        assert_eq!(stage.guacd.accepted(), 2);
    }
}

#[test]
fn no_more_hosts_are_tried_than_the_configuration_allows() {
    for (most, tried) in [("1", 1), ("2", 2)] {
        let more = format!("[broker]\nmax_attempts = {most}\n");
        let stage = stage(3, &more);
        let (mut visitor, first) = click(&stage, "ann");
        fail(first, b"5.error,1.x,3.519;");
        for _ in 1..tried {
            fail(stage.guacd.ready(), b"5.error,1.x,3.520;");
        }
        visitor.farewell();
        assert_eq!(stage.guacd.accepted(), tried);
    }
}

#[test]
fn beyond_the_deadline_what_is_held_back_goes_to_the_page_and_nobody_else_is_tried() {
    let stage = stage(2, "[broker]\nattempt_deadline = \"3s\"\n");
    let start = Instant::now();
    let (mut visitor, mut peer) = click(&stage, "ann");
    peer.wire.send(b"4.size,1.0,4.1024,3.768;").unwrap();
    visitor.wire.send(b"3.key,2.97,1.1;").unwrap();
    visitor.hear("size");
    assert!(
        start.elapsed() >= Duration::from_millis(2_900),
        "held back until then"
    );
    assert_eq!(peer.wire.exact(15).unwrap(), b"3.key,2.97,1.1;");
    peer.wire.send(b"5.error,1.x,3.519;").unwrap();
    assert_eq!(visitor.wire.rest().unwrap(), b"5.error,1.x,3.519;");
    drop((visitor, peer));
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["phase"], "pending");
    assert_eq!(stage.guacd.accepted(), 1);
}

#[test]
fn ends_without_an_error_at_hosts_that_answer_are_tried_once_more_and_not_again() {
    for said in [&b"10.disconnect;"[..], b""] {
        let stage = stage(4, "# Nothing more.\n");
        let (mut visitor, first) = click(&stage, "ann");
        fail(first, said);
        fail(stage.guacd.ready(), said);
        // What she typed may be why: a third time may lock her account.
        assert_eq!(visitor.farewell().0, 0x208);
        let ended = stage.broker.ended(&stage.broker.placed("ann"));
        assert_eq!(ended["attempts"], 2);
        assert_eq!(stage.guacd.accepted(), 2);
    }
}

#[test]
fn a_resource_may_be_tried_for_longer() {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, 2, |site| {
        site.with("[broker]\nattempt_deadline = \"3s\"\n").with(
            "[[resources]]\nid = \"patient\"\nkind = \"desktop\"\nfarm_id = \"office\"\n\
             attempt_deadline = \"20s\"\n",
        )
    });
    let patient = Visit::rdp("ann").answer("sessionguard-resource", "patient");
    let (mut visitor, first) = stage.tunnel(&patient);
    std::thread::sleep(Duration::from_millis(3_500));
    fail(first, b"5.error,1.x,3.519;");
    stage.guacd.ready().stand();
    visitor.hear_past_nops("sync");
}

#[test]
fn a_desktop_that_stood_and_is_lost_is_told_as_it_is_and_its_host_is_asked_at_once() {
    let stage = stage(1, RARELY);
    for (user, said) in [
        ("ann", &b"5.error,4.Lost,3.520;"[..]),
        ("bob", b"5.error,4.Lost,3.515;"),
        ("carl", b""),
    ] {
        let (mut visitor, mut peer) = stage.desktop(&Visit::office(user));
        std::thread::sleep(Duration::from_millis(1_100));
        let asked = stage.hosts[0].asked();
        peer.wire.send(said).unwrap();
        peer.wire.finish();
        assert_eq!(visitor.wire.rest().unwrap(), said);
        crate::support::eventually("the host is asked", || {
            (stage.hosts[0].asked() > asked).then_some(())
        });
        let ended = stage.broker.ended(&stage.broker.placed(user));
        assert_eq!(ended["phase"], "stood");
    }
    assert_eq!(stage.guacd.accepted(), 3);
}

#[test]
fn a_session_taken_over_by_another_connection_is_not_fought_for() {
    let stage = stage(2, RARELY);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    peer.wire.send(b"5.error,5.Taken,3.521;").unwrap();
    assert_eq!(visitor.wire.rest().unwrap(), b"5.error,5.Taken,3.521;");
    drop((visitor, peer));
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["status"], "SESSION_CONFLICT");
    assert_eq!(stage.guacd.accepted(), 1);
}

#[test]
fn guacds_own_trouble_is_dialled_once_more_and_blames_no_host() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let guacd = ScriptedGuacd::playing(move |peer| {
        let names = Names::rdp("1.6.0");
        peer.hear_select()?;
        peer.wire.say(&names.to_instruction())?;
        peer.hear_connect(&names)?;
        match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => {
                peer.wire.finish();
                Ok(())
            }
            _ => peer.say_ready(),
        }
    });
    let stage = Stage::before(guacd, 2);
    let mut visitor = Visit::office("ann").at(&stage.broker);
    visitor.ready();
    let first = stage.guacd.next();
    let mut second = stage.guacd.ready();
    assert_eq!(stage.host_of(&first), stage.host_of(&second));
    second.stand();
    visitor.hear_past_nops("sync");
    assert_eq!(stage.broker.lines("Placed").len(), 1);
}
