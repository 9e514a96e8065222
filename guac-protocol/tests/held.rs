//! What Guacamole says while guacd's output is held back.

use guac_protocol::{HandshakeError, Held, Phase, Said, Side, Word};

use crate::support::{in_every_cut, wire};

#[test]
fn nop_is_dropped_and_all_else_kept_in_order() {
    let key = wire("key", &["97", "1"]);
    let stream = [wire("nop", &[]), key.clone(), wire("nop", &[]), key.clone()].concat();
    let kept = in_every_cut(&[&stream[..], b"5.mou"].concat(), |cut| {
        let mut held = Held::new();
        for chunk in cut {
            assert_eq!(held.feed(chunk), Ok(Said::Nothing));
        }
        held.into_bytes()
    });
    assert_eq!(kept, [&key[..], &key, b"5.mou"].concat());
}

#[test]
fn disconnect_is_obeyed_and_nothing_read_behind_it() {
    let mut held = Held::default();
    let stream = [wire("disconnect", &[]), wire("connect", &["x"])].concat();
    assert_eq!(held.feed(&stream), Ok(Said::Disconnect));
    assert_eq!(held.feed(b"0.;"), Ok(Said::Disconnect));
    assert_eq!(held.feed(&[b'x'; 70_000]), Ok(Said::Disconnect));
}

#[test]
fn nothing_comes_out_that_stood_behind_disconnect() {
    let key = wire("key", &["97", "1"]);
    let gone = wire("disconnect", &[]);
    let stream = [key.clone(), gone, wire("connect", &["x"]), b"3.ke".to_vec()].concat();
    let kept = in_every_cut(&stream, |cut| {
        let mut held = Held::new();
        for chunk in cut {
            held.feed(chunk).unwrap();
        }
        held.into_bytes()
    });
    assert_eq!(kept, key);
}

#[test]
fn a_new_start_is_refused_for_good() {
    let mut held = Held::new();
    let (side, phase) = (Side::Guacamole, Phase::Ready);
    let error = HandshakeError::Unexpected {
        side,
        phase,
        expected: "anything but a new start",
        got: Word::new("connect"),
        offset: 6,
    };
    let stream = [wire("nop", &[]), wire("connect", &["x"])].concat();
    assert_eq!(held.feed(&stream), Err(error.clone()));
    assert_eq!(held.feed(&wire("nop", &[])), Err(error));
}

#[test]
fn at_most_64_kib_are_kept() {
    let (side, phase, limit) = (Side::Guacamole, Phase::Ready, 65_536);
    let mut held = Held::new();
    let blob = wire("blob", &["0", &"x".repeat(8_000)]);
    let error = loop {
        match held.feed(&blob) {
            Ok(said) => assert_eq!(said, Said::Nothing),
            Err(error) => break error,
        }
        assert!(held.len() <= limit);
    };
    assert_eq!(error, HandshakeError::TooMuch { side, phase, limit });
    assert_eq!(held.len(), 8 * blob.len());
}

#[test]
fn what_is_dropped_does_not_count() {
    let mut held = Held::new();
    let nops = wire("nop", &[]).repeat(1_000);
    for _ in 0..100 {
        assert_eq!(held.feed(&nops), Ok(Said::Nothing));
    }
    assert!(held.is_empty());
}

#[test]
fn it_goes_on_where_another_ended() {
    let mut first = Held::new();
    let stream = [wire("key", &["ü"]), b"10.discon".to_vec()].concat();
    first.feed(&stream).unwrap();
    let mut second = Held::new();
    assert_eq!(second.feed(&first.into_bytes()), Ok(Said::Nothing));
    assert_eq!(second.feed(b"nect;"), Ok(Said::Disconnect));
}
