//! Guacamole and the network to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use guac_protocol::Side;

use super::*;
use crate::support::DEADLINE;

/// The descriptors this process may have are as many as it may ever have: so many.
fn raise_limit() -> usize {
    let pid = format!("--pid={}", std::process::id());
    let hard = Command::new("prlimit")
        .args([&pid, "--nofile", "--raw", "--noheadings", "--output=HARD"])
        .output()
        .expect("util-linux's prlimit");
    let hard = String::from_utf8(hard.stdout).unwrap();
    let hard = hard.trim();
    let limit = format!("--nofile={hard}:");
    assert!(
        Command::new("prlimit")
            .args([&pid, &limit])
            .status()
            .unwrap()
            .success()
    );
    hard.parse().unwrap_or(usize::MAX)
}

/// A scene whose broker may have as many descriptors as there may be, and admits everybody.
fn roomy(listening: &str) -> Stage {
    raise_limit();
    Stage::adjusted(polite(), 2, |site| {
        site.listening(listening).with(
            "[broker]\nmax_pending_logons = 10000\nslow_start = \"0s\"\n\
             [probe]\ninterval = \"5s\"\ntimeout = \"5s\"\n",
        )
    })
}

/// One of so many slow handshakes has got as far as guacd.
const DIALLING: usize = 25;

/// Crowds come one at a time: two would want more descriptors than there are.
static CROWD: Mutex<()> = Mutex::new(());

#[test]
fn ten_thousand_slow_handshakes_end_at_their_deadline_while_others_are_served() {
    let _alone = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    // Where so many descriptors can be had; other tests of this process need some, too.
    let slow = (raise_limit() / 5 * 2).min(10_000);
    assert!(slow >= 600, "no more than {slow}");
    let stage = roomy("handshake_timeout = \"15s\"");
    let before = stage.broker.descriptors();
    let start = Instant::now();
    let mut slow: Vec<_> = (0..slow)
        .map(|nth| {
            let mut visitor = Visitor::dial(stage.broker.address());
            // Some have guacd dialled for them, and then say no more.
            let begin = match nth % DIALLING {
                0 => "6.select,3.rdp;4.size",
                _ => "6.select,3.r",
            };
            visitor.wire.send(begin).unwrap();
            visitor
        })
        .collect();
    eventually("all of them", || {
        (stage.broker.descriptors() >= before + slow.len()).then_some(())
    });
    for nth in 0..10 {
        let mut visitor = Visit::office(&format!("user{nth}")).at(&stage.broker);
        visitor.ready();
    }
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    for (nth, visitor) in slow.iter_mut().enumerate() {
        if nth % DIALLING == 0 {
            visitor.read_args();
            visitor.ready();
        }
        assert_eq!(visitor.farewell().0, 0x308, "{nth}");
    }
    drop(slow);
    wait_for_descriptors(&stage.broker, before);
}

/// A whole handshake in one write, which those who know guacd's names may send.
fn whole_handshake(user: &str, shown: &[String]) -> Vec<u8> {
    let visit = Visit::office(user);
    let mut bytes = b"6.select,3.rdp;".to_vec();
    for instruction in visit.settings() {
        bytes.extend(instruction.encode(Side::Guacd).unwrap());
    }
    bytes.extend(visit.connect(shown).encode(Side::Guacd).unwrap());
    bytes
}

#[test]
fn two_thousand_connects_at_once_are_each_served_or_cleanly_refused() {
    connect_at_once(2000, 10);
}

#[test]
#[ignore = "takes nearly all descriptors this process may have: tests/run runs it alone"]
fn ten_thousand_connects_at_once_are_each_served_or_cleanly_refused() {
    // Each takes two descriptors here and two at the broker.
    connect_at_once((raise_limit() / 5 * 2).min(10_000), 100);
}

/// One of so many must be served at least.
fn connect_at_once(all: usize, of: usize) {
    let _alone = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = roomy("handshake_timeout = \"60s\"");
    let mut first = Visitor::dial(stage.broker.address());
    first.select("rdp");
    first.read_args();
    let shown = first.shown.clone();
    drop(first);
    let before = stage.broker.descriptors();
    let mut crowd: Vec<_> = (0..all)
        .map(|nth| {
            let mut stream = TcpStream::connect(stage.broker.address()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let handshake = whole_handshake(&format!("user{nth}"), &shown);
            stream.write_all(&handshake).unwrap();
            stream
        })
        .collect();
    let (mut served, mut refused) = (0, 0);
    for stream in &mut crowd {
        let mut said = String::new();
        let answered = |said: &str| said.contains("5.ready,") && said.ends_with(';');
        while !answered(&said) {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).expect("an answer, no reset");
            assert!(count > 0, "an end without a word: {said}");
            said.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        // A refusal comes in one write with its `ready`.
        match said.contains("5.error,") {
            true => {
                let codes = [",3.513;", ",3.514;", ",3.520;"];
                assert!(codes.iter().any(|code| said.contains(code)), "{said}");
                refused += 1;
            }
            false => served += 1,
        }
    }
    assert_eq!(served + refused, all);
    assert!(served > all / of, "{served} served, {refused} refused");
    drop(crowd);
    wait_for_descriptors(&stage.broker, before);
    let mut witness = Visit::office("witness").at(&stage.broker);
    witness.ready();
}

#[test]
fn a_reset_at_every_step_up_to_the_desktop_ends_that_tunnel_alone() {
    let stage = Stage::one();
    let (mut witness, mut of_witness) = stage.desktop(&Visit::office("witness"));
    // On its quiet thread by now, whose descriptors stay.
    for _ in 0..20 {
        assert_carries(&mut witness, &mut of_witness);
    }
    let before = stage.broker.descriptors();
    let ann = Visit::office("ann");
    for step in 0..9 {
        let mut visitor = Visitor::dial(stage.broker.address());
        if step >= 1 {
            visitor.wire.send(b"6.sel").unwrap();
        }
        if step >= 2 {
            visitor.wire.send(b"ect,3.rdp;").unwrap();
        }
        if step >= 3 {
            visitor.read_args();
        }
        if step >= 4 {
            for setting in ann.settings() {
                visitor.wire.say(&setting).unwrap();
            }
        }
        let connect = ann.connect(&visitor.shown).encode(Side::Guacd).unwrap();
        match step {
            5 => visitor.wire.send(&connect[..connect.len() / 2]).unwrap(),
            6.. => visitor.wire.send(&connect).unwrap(),
            _ => {}
        }
        let mut peer = None;
        if step >= 7 {
            visitor.ready();
            peer = Some(stage.guacd.ready());
        }
        if let (8.., Some(peer)) = (step, &mut peer) {
            peer.stand();
            visitor.hear_past_nops("sync");
        }
        visitor.wire.reset();
        wait_for_descriptors(&stage.broker, before);
        assert_carries(&mut witness, &mut of_witness);
        if let (2..=6, None) = (step, &peer) {
            // Whatever guacd was told, it is let go.
            let _ = stage.guacd.next().wire.rest();
        }
    }
    stage.desktop(&ann);
}

#[test]
fn gone_without_a_word_it_is_given_up_with_guacd_and_the_user_comes_back() {
    let stage = Stage::of(2);
    let network = FaultProxy::before(stage.broker.address());
    let before = stage.broker.descriptors();
    let mut visitor = Visitor::dial(network.address());
    visitor.click(&Visit::office("ann"));
    visitor.ready();
    let mut peer = stage.guacd.ready();
    peer.stand();
    visitor.hear_past_nops("sync");
    let host = stage.host_of(&peer);
    network.silence();
    drop(visitor);
    // Its tunnel holds her place, and a new page gets there at once.
    assert_eq!(serves(&stage, "ann"), host);
    // What guacd draws goes nowhere, until its own timer ends it.
    peer.wire.send(b"4.blob,1.1,4.AAAA;".repeat(1000)).unwrap();
    let start = Instant::now();
    drop(peer);
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["by"], "guacd");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    wait_for_descriptors(&stage.broker, before);
    wait_for_lease(&stage.site, "ann", &format!("{host} lingering"));
}

/// What the broker has in memory, in KiB.
fn memory(broker: &Broker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn sixteen_pages_that_stop_reading_cost_bounded_memory_and_slow_nobody_else() {
    const PAGES: usize = 16;
    let stage = Stage::of(2);
    let (mut witness, mut of_witness) = stage.desktop(&Visit::office("witness"));
    let mut slow: Vec<_> = (0..PAGES)
        .map(|nth| stage.desktop(&Visit::office(&format!("user{nth}"))))
        .collect();
    let before = memory(&stage.broker);
    let part = b"4.blob,1.1,4.AAAA;".repeat(2000);
    let mut sent = Vec::new();
    for (_, peer) in &slow {
        let mut stream = peer.wire.stream();
        stream
            .set_write_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut count = 0;
        while let Ok(written) = stream.write(&part[count % part.len()..]) {
            count += written;
            assert!(count < 64 << 20, "somebody takes it all in");
        }
        sent.push(count);
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
    }
    let grown = memory(&stage.broker).saturating_sub(before);
    assert!(
        grown < 512 * PAGES as u64,
        "{grown} KiB for {PAGES} tunnels"
    );
    for _ in 0..20 {
        assert_carries(&mut witness, &mut of_witness);
    }
    for ((visitor, _), count) in slow.iter_mut().zip(sent).take(3) {
        let got = visitor.wire.exact(count).unwrap();
        assert!(got.iter().zip(part.iter().cycle()).all(|(a, b)| a == b));
    }
}
