//! The long part: bytes both ways, and how it ends.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{Broker, DEADLINE, GuacdPeer, Stage, Visit};

/// What a desktop says first, in bytes.
const SYNC: usize = b"4.sync,5.12345,1.1;".len();

/// From the end on one side to the end on the other: a second of ours, on a machine under load.
const CLOSED_WITHIN: Duration = Duration::from_secs(8);

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.next() % bound).unwrap()
    }
}

/// Instructions of any length, none of which ends anything.
fn instructions(seed: u64, bytes: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let mut all = Vec::with_capacity(bytes + 100_000);
    let letters = ["x", "\u{e9}", "\u{20ac}", "\u{1F600}", ";", "5.error,"];
    while all.len() < bytes {
        all.extend(b"4.blob");
        for _ in 0..=numbers.below(5) {
            let letter = letters[numbers.below(6)];
            let longest = if numbers.below(50) == 0 { 9000 } else { 300 };
            let text = letter.repeat(numbers.below(longest));
            all.extend(format!(",{}.{text}", text.chars().count()).bytes());
        }
        all.push(b';');
    }
    all
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let eights = std::iter::repeat_with(|| numbers.next().to_le_bytes());
    eights.flatten().take(bytes).collect()
}

fn write_all(stream: &TcpStream, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut stream = stream.try_clone().unwrap();
    thread::spawn(move || stream.write_all(&bytes).unwrap())
}

fn assert_equal(got: &[u8], sent: &[u8]) {
    assert_eq!(got.len(), sent.len());
    let first = got.iter().zip(sent).position(|(a, b)| a != b);
    assert_eq!(first, None, "the first byte that differs");
}

#[test]
fn instructions_of_every_length_pass_both_ways_at_once_byte_by_byte() {
    const BYTES: usize = 8 * 1024 * 1024;
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let (down, up) = (instructions(7, BYTES), instructions(11, BYTES));
    let writers = [
        write_all(peer.wire.stream(), down.clone()),
        write_all(visitor.wire.stream(), up.clone()),
    ];
    let expected = up.len();
    let reader = thread::spawn(move || (peer.wire.exact(expected).unwrap(), peer));
    assert_equal(&visitor.wire.exact(down.len()).unwrap(), &down);
    let (got, peer) = reader.join().unwrap();
    assert_equal(&got, &up);
    for writer in writers {
        writer.join().unwrap();
    }
    drop((visitor, peer));
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["to_guacamole"], SYNC + down.len());
    assert_eq!(ended["to_guacd"], up.len());
    assert_eq!(ended["phase"], "stood");
}

#[test]
fn noise_from_guacd_is_relayed_and_said_once() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let sent = noise(3, 100_000);
    for part in sent.chunks(30_000) {
        peer.wire.send(part).unwrap();
        assert_equal(&visitor.wire.exact(part.len()).unwrap(), part);
    }
    let up = noise(5, 100_000);
    let writer = write_all(visitor.wire.stream(), up.clone());
    assert_equal(&peer.wire.exact(up.len()).unwrap(), &up);
    writer.join().unwrap();
    drop(visitor);
    assert_eq!(peer.wire.rest().unwrap(), b"");
    stage.broker.ended(&stage.broker.placed("ann"));
    let blind = |message: &str| message.contains("cannot be followed");
    let said = stage.broker.said();
    let said = said
        .iter()
        .filter(|line| line["message"].as_str().is_some_and(blind));
    assert_eq!(said.count(), 1);
}

#[test]
fn the_end_of_guacd_closes_both_once_everything_was_passed_on() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let sent = instructions(23, 2 * 1024 * 1024);
    let stream = peer.wire.stream().try_clone().unwrap();
    write_all(&stream, sent.clone());
    let reader = thread::spawn(move || {
        (
            visitor.wire.exact(sent.len()).map(|got| got == sent),
            visitor,
        )
    });
    let (got, mut visitor) = reader.join().unwrap();
    assert!(got.unwrap());
    let start = Instant::now();
    peer.wire.finish();
    visitor.end();
    assert_eq!(peer.wire.rest().unwrap(), b"");
    assert!(start.elapsed() < CLOSED_WITHIN, "{:?}", start.elapsed());
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["by"], "guacd");
}

#[test]
fn an_end_right_behind_the_bytes_cuts_none_of_them() {
    let stage = Stage::one();
    for seed in 1..6 {
        let (mut visitor, peer) = stage.desktop(&Visit::office("ann"));
        let sent = instructions(seed, 1024 * 1024);
        let stream = peer.wire.stream().try_clone().unwrap();
        let bytes = sent.clone();
        let writer = thread::spawn(move || {
            (&stream).write_all(&bytes).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        assert_equal(&visitor.wire.rest().unwrap(), &sent);
        writer.join().unwrap();
    }
}

#[test]
fn the_end_of_guacamole_closes_both_once_everything_was_passed_on() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let sent = instructions(29, 1024 * 1024);
    let writer = write_all(visitor.wire.stream(), sent.clone());
    assert_equal(&peer.wire.exact(sent.len()).unwrap(), &sent);
    writer.join().unwrap();
    let start = Instant::now();
    visitor.wire.send(b"10.disconnect;").unwrap();
    visitor.wire.finish();
    assert_eq!(peer.wire.rest().unwrap(), b"10.disconnect;");
    visitor.end();
    assert!(start.elapsed() < CLOSED_WITHIN, "{:?}", start.elapsed());
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["by"], "guacamole");
}

#[test]
fn a_reset_passes_on_as_a_reset() {
    let stage = Stage::one();
    let (mut visitor, peer) = stage.desktop(&Visit::office("ann"));
    peer.wire.reset();
    assert_eq!(
        visitor.wire.rest().unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );

    let (visitor, mut peer) = stage.desktop(&Visit::office("bob"));
    visitor.wire.reset();
    assert_eq!(
        peer.wire.rest().unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[test]
fn guacds_goodbye_closes_both_though_it_keeps_its_socket() {
    let stage = Stage::one();
    for (user, goodbye, how) in [
        (
            "ann",
            "5.error,7.Aborted,3.519;",
            "guacd ended it with error 519",
        ),
        ("bob", "10.disconnect;", "guacd ended it"),
        (
            "carl",
            "5.error,7.Aborted,3.523;10.disconnect;",
            "guacd ended it with error 523",
        ),
    ] {
        let (mut visitor, mut peer) = stage.desktop(&Visit::office(user));
        let start = Instant::now();
        peer.wire.send(goodbye).unwrap();
        assert_eq!(visitor.wire.rest().unwrap(), goodbye.as_bytes());
        assert_eq!(peer.wire.rest().unwrap(), b"");
        assert!(start.elapsed() < CLOSED_WITHIN, "{:?}", start.elapsed());
        drop((visitor, peer));
        let ended = stage.broker.ended(&stage.broker.placed(user));
        assert_eq!(
            (&ended["how"], &ended["by"]),
            (&how.into(), &"guacd".into())
        );
    }
}

/// Guacamole never stops talking, so guacd goes with much of it unread: its system resets.
#[test]
fn guacds_last_words_arrive_though_guacamole_talks_on() {
    let stage = Stage::one();
    for _ in 0..25 {
        let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
        let mut talk = visitor.wire.stream().try_clone().unwrap();
        let talker =
            thread::spawn(move || while talk.write_all(b"5.mouse,1.1,1.1,1.0;").is_ok() {});
        peer.wire.exact(100).unwrap();
        last_words(peer);
        let got = visitor
            .wire
            .exact(24)
            .map(|got| String::from_utf8_lossy(&got).into_owned());
        assert_eq!(got.unwrap(), "5.error,7.Aborted,3.523;");
        visitor.wire.stream().shutdown(Shutdown::Both).unwrap();
        talker.join().unwrap();
    }
}

fn last_words(mut peer: GuacdPeer) {
    peer.wire.send(b"5.error,7.Aborted,3.523;").unwrap();
}

#[test]
fn a_slow_reader_holds_guacd_back_and_loses_nothing() {
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let stream = peer.wire.stream();
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let part = instructions(41, 64 * 1024);
    let mut sent = 0;
    let full = loop {
        match (&*stream).write(&part[sent % part.len()..]) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
        assert!(sent < 64 * 1024 * 1024, "somebody takes it all in");
    };
    assert!(
        matches!(full.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{full}"
    );

    // The other direction is not held back.
    visitor.wire.send(b"3.nop;").unwrap();
    assert_eq!(peer.wire.exact(6).unwrap(), b"3.nop;");

    let got = visitor.wire.exact(sent).unwrap();
    assert!(got.iter().zip(part.iter().cycle()).all(|(a, b)| a == b));
    peer.wire.send(b"3.nop;").unwrap();
    assert_eq!(visitor.wire.exact(6).unwrap(), b"3.nop;");
}

/// What a process has in memory, in KiB.
fn memory(broker: &Broker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn guacds_that_stop_reading_hold_guacamole_back_in_bounded_memory_and_lose_nothing() {
    const TUNNELS: usize = 8;
    let stage = Stage::one();
    let mut tunnels: Vec<_> = (0..TUNNELS)
        .map(|nth| stage.desktop(&Visit::office(&format!("user{nth}"))))
        .collect();
    let before = memory(&stage.broker);
    let part = instructions(43, 64 * 1024);
    let mut sent = Vec::new();
    for (visitor, _) in &tunnels {
        let mut stream = visitor.wire.stream();
        let patience = Some(Duration::from_millis(200));
        stream.set_write_timeout(patience).unwrap();
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
        grown < 512 * TUNNELS as u64,
        "{grown} KiB for {TUNNELS} tunnels"
    );
    for ((visitor, peer), count) in tunnels.iter_mut().zip(sent) {
        // The other direction is not held back.
        peer.wire.send(b"3.nop;").unwrap();
        assert_eq!(visitor.wire.exact(6).unwrap(), b"3.nop;");
        let got = peer.wire.exact(count).unwrap();
        assert!(got.iter().zip(part.iter().cycle()).all(|(a, b)| a == b));
    }
}

/// Waits until so much has arrived, without reading it: who reads acknowledges.
fn wait_for(stream: &TcpStream, count: usize) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut arrived = [0; 256];
    let until = Instant::now() + DEADLINE;
    while stream.peek(&mut arrived).unwrap() < count {
        assert!(Instant::now() < until, "{count} bytes in time");
        thread::sleep(Duration::from_micros(100));
    }
}

/// A system that keeps a small segment back until the last one was acknowledged keeps it back for
/// 40 ms here, for nobody acknowledges at once.
#[test]
fn small_instructions_do_not_wait_for_those_before_to_be_acknowledged() {
    const SMALL: &[u8] = b"5.mouse,1.1,1.1,1.0;";
    const AT_MOST: Duration = Duration::from_millis(20);
    let stage = Stage::one();
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    let ends = [&mut visitor.wire, &mut peer.wire];
    for (from, to) in [(0, 1), (1, 0)] {
        let mut times = Vec::new();
        for _ in 0..61 {
            ends[from].send(SMALL).unwrap();
            wait_for(ends[to].stream(), SMALL.len());
            let start = Instant::now();
            ends[from].send(SMALL).unwrap();
            wait_for(ends[to].stream(), 2 * SMALL.len());
            times.push(start.elapsed());
            // Who answers each time acknowledges by that, and not at once.
            ends[to].exact(2 * SMALL.len()).unwrap();
            ends[to].send(SMALL).unwrap();
            ends[from].exact(SMALL.len()).unwrap();
        }
        times.sort_unstable();
        assert!(times[30] < AT_MOST, "from {from}: {times:?}");
    }
}
