//! The fault proxy itself: each fault is what it says, and nothing else.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{DEADLINE, FaultProxy, Way, eventually};

/// Who dialled, who was dialled, and what is between them.
fn between() -> (TcpStream, TcpStream, FaultProxy) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = FaultProxy::before(listener.local_addr().unwrap());
    let near = TcpStream::connect(proxy.address()).unwrap();
    let (far, _) = listener.accept().unwrap();
    for end in [&near, &far] {
        end.set_nodelay(true).unwrap();
        end.set_read_timeout(Some(DEADLINE)).unwrap();
        end.set_write_timeout(Some(DEADLINE)).unwrap();
    }
    (near, far, proxy)
}

fn exact(mut from: &TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

/// Nothing arrives for a while: no bytes, no end, no reset.
fn assert_hears_nothing(mut end: &TcpStream) {
    end.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let heard = end.read(&mut [0]).expect_err("nothing arrives");
    assert!(
        matches!(heard.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{heard}"
    );
    end.set_read_timeout(Some(DEADLINE)).unwrap();
}

#[test]
fn without_a_fault_bytes_and_ends_pass_both_ways() {
    let (mut near, mut far, proxy) = between();
    let large: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let sent = large.clone();
    let writer = thread::spawn(move || {
        near.write_all(&sent).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        near
    });
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert!(got == large);
    let mut near = writer.join().unwrap();
    far.write_all(b"still here").unwrap();
    drop(far);
    got.clear();
    near.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"still here");
    assert_eq!((proxy.dialled(), proxy.swallowed()), (1, 0));
}

#[test]
fn latency_delays_every_piece_keeps_their_order_and_costs_no_throughput() {
    let (mut near, far, proxy) = between();
    let latency = Duration::from_millis(200);
    proxy.delay(latency, Duration::from_millis(50), 7);
    let start = Instant::now();
    for piece in 0..100u8 {
        near.write_all(&[piece]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let got = exact(&far, 100);
    assert!(got.iter().copied().eq(0..100));
    let spent = start.elapsed();
    assert!(spent >= latency, "{spent:?}");
    assert!(spent < 50 * latency, "one after the other: {spent:?}");
}

#[test]
fn jitter_of_one_seed_is_the_same_each_time() {
    let (mut a, mut b) = (crate::support::Dice::of(7), crate::support::Dice::of(7));
    let mut other = crate::support::Dice::of(8);
    let rolls: Vec<_> = (0..20).map(|_| a.share()).collect();
    assert!(rolls.iter().all(|share| (0.0..=1.0).contains(share)));
    assert!(rolls.iter().all(|share| b.share() == *share));
    assert!(rolls.iter().any(|share| other.share() != *share));
}

#[test]
fn a_stall_stops_one_way_alone_and_loses_nothing() {
    let (mut near, mut far, proxy) = between();
    proxy.stall(Way::Out);
    near.write_all(b"held").unwrap();
    far.write_all(b"passes").unwrap();
    assert_eq!(exact(&near, 6), b"passes");
    assert_hears_nothing(&far);
    // Who goes on writing is held back in the end.
    near.set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut held = 4;
    let part = [7; 64 * 1024];
    while let Ok(count) = near.write(&part) {
        held += count;
        assert!(held < 64 << 20, "somebody takes it all in");
    }
    proxy.flow();
    let got = exact(&far, held);
    assert_eq!(&got[..4], b"held");
    assert!(got[4..].iter().all(|byte| *byte == 7));
    proxy.stall(Way::Back);
    far.write_all(b"later").unwrap();
    assert_hears_nothing(&near);
    proxy.flow();
    assert_eq!(exact(&near, 5), b"later");
}

#[test]
fn a_reset_reaches_both_sides_and_later_connections_are_whole() {
    let (mut near, mut far, proxy) = between();
    near.write_all(b"x").unwrap();
    exact(&far, 1);
    proxy.reset();
    for end in [&mut near, &mut far] {
        let error = end.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    TcpStream::connect(proxy.address()).unwrap();
    eventually("another connection", || {
        (proxy.dialled() == 2).then_some(())
    });
}

#[test]
fn a_reset_by_one_side_is_one_to_the_other() {
    let (near, mut far, _proxy) = between();
    let socket = socket2::SockRef::from(&near);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(near);
    let error = far.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn half_open_neither_words_nor_ends_nor_resets_come_through() {
    for with_reset in [false, true] {
        let (mut near, mut far, proxy) = between();
        near.write_all(b"heard").unwrap();
        assert_eq!(exact(&far, 5), b"heard");
        proxy.silence();
        near.write_all(b"lost").unwrap();
        far.write_all(b"lost, too").unwrap();
        eventually("losses", || (proxy.swallowed() == 13).then_some(()));
        if with_reset {
            let socket = socket2::SockRef::from(&near);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(near);
        assert_hears_nothing(&far);
        far.write_all(b"nobody is there").unwrap();
        assert_hears_nothing(&far);
    }
}

#[test]
fn slices_arrive_one_by_one() {
    let (mut near, mut far, proxy) = between();
    proxy.slice(1);
    proxy.limit(Some(20));
    near.write_all(b"abcd").unwrap();
    let mut reads = Vec::new();
    let mut buffer = [0; 16];
    while reads.iter().sum::<usize>() < 4 {
        reads.push(far.read(&mut buffer).unwrap());
    }
    // A machine under load may read two at once, and never all of them.
    assert!(reads.len() > 1, "{reads:?}");
}

#[test]
fn bandwidth_is_what_it_is_said_to_be_until_it_is_lifted() {
    let (mut near, far, proxy) = between();
    proxy.limit(Some(10_000));
    let start = Instant::now();
    near.write_all(&[1; 5000]).unwrap();
    exact(&far, 5000);
    let spent = start.elapsed();
    assert!(spent >= Duration::from_millis(400), "{spent:?}");
    proxy.limit(Some(1));
    near.write_all(&[2; 100_000]).unwrap();
    proxy.limit(None);
    assert!(exact(&far, 100_000).iter().all(|byte| *byte == 2));
}
