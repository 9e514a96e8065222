//! The leg towards Guacamole.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::*;

#[test]
fn a_tunnel_comes_by_tls_and_ends_with_tlss_own_farewell() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    let listening = stage.broker.wait("Listening", |_| true);
    assert_eq!(listening["tls"], true);
    let (mut visitor, mut peer) = desktop(&stage, &papers.client(), "ann");
    assert_carries(&mut visitor, &mut peer);
    // A scripted peer reads a bare end as an error: this one is announced.
    drop(peer);
    visitor.end();
}

#[test]
fn a_client_without_sni_is_served() {
    let authority = Authority::new("Test Authority");
    let papers = Papers {
        own: authority.sign("127.0.0.1"),
        authority,
    };
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    // An address is never sent as a name.
    let mut visitor = Visitor::secured(stage.broker.address(), &papers.client(), "127.0.0.1");
    visitor.click(&Visit::office("ann"));
    visitor.ready();
    assert_carries(&mut visitor, &mut stage.guacd.ready());
}

#[test]
fn refusals_are_read_whole_through_tls() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 0, |site| papers.listening(site));
    let refusal = click(stage.broker.address(), &papers.client(), "ann").refusal();
    assert_eq!(refusal.code, 0x204, "{}", refusal.text);
}

#[test]
fn a_client_that_must_show_a_certificate_is_refused_without() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| {
        write(site.folder(), "clients.crt", &papers.authority.pem());
        let site = papers.listening(site);
        site.listening("tls_client_ca_file = \"clients.crt\"")
    });
    let address = stage.broker.address();

    let mut bare = Visitor::secured(address, &papers.client(), NAME);
    // With TLS 1.3 it learns of it after its own part of the handshake.
    let _ = bare.wire.send(b"6.select,3.rdp;");
    assert!(bare.wire.instruction().is_err());
    said(&stage, "WARN", "tls_client_ca_file");

    let stranger = Authority::new("Another").sign("stranger");
    let shown = papers.authority.client(Some(&stranger));
    let mut other = Visitor::secured(address, &shown, NAME);
    let _ = other.wire.send(b"6.select,3.rdp;");
    assert!(other.wire.instruction().is_err());
    assert_eq!(
        stage.broker.wait_for_lines("TLS handshake failed", 2).len(),
        2
    );
    assert_eq!(stage.guacd.accepted(), 0);

    let guacamole = papers.authority.sign("guacamole");
    let shown = papers.authority.client(Some(&guacamole));
    let (mut visitor, mut peer) = desktop(&stage, &shown, "ann");
    assert_carries(&mut visitor, &mut peer);
}

#[test]
fn a_client_that_does_not_trust_us_is_told_of_in_the_log() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    let strangers = Authority::new("Another").client(None);
    let mut visitor = Visitor::secured(stage.broker.address(), &strangers, NAME);
    assert!(visitor.wire.send(b"6.select,3.rdp;").is_err());
    said(&stage, "WARN", "trust store of Guacamole's Java");
}

#[test]
fn plain_text_on_a_tls_port_is_told_to_the_administrator_and_closed() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    for (bytes, setting) in [
        (&b"6.select,3.rdp;"[..], "guacd-ssl to true"),
        (b"GET / HTTP/1.1\r\n\r\n", "guacd-hostname"),
    ] {
        let mut visitor = Visitor::dial(stage.broker.address());
        visitor.wire.send(bytes).unwrap();
        visitor.end();
        said(&stage, "WARN", setting);
    }
    let (mut visitor, mut peer) = desktop(&stage, &papers.client(), "ann");
    assert_carries(&mut visitor, &mut peer);
    assert_eq!(stage.guacd.accepted(), 1);
}

#[test]
fn health_checks_of_a_tls_port_leave_no_line() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    for n in 0..50 {
        let check = Visitor::dial(stage.broker.address());
        if n % 2 == 0 {
            check.wire.reset();
        }
    }
    drop(desktop(&stage, &papers.client(), "witness"));
    stage.broker.ended(&stage.broker.placed("witness"));
    assert_eq!(stage.broker.told(), ["Placed", "Tunnel ended"]);
}

#[test]
fn who_is_slow_with_tls_keeps_nobody_waiting_and_is_closed_in_time() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| {
        let site = papers.listening(site);
        site.listening("first_byte_timeout = \"2s\"\nhandshake_timeout = \"2s\"")
    });
    let since = Instant::now();
    let mut slow: Vec<_> = (0..20)
        .map(|_| {
            let mut visitor = Visitor::dial(stage.broker.address());
            visitor.wire.send(b"\x16\x03\x01\x02\x00").unwrap();
            visitor
        })
        .collect();
    let (mut visitor, mut peer) = desktop(&stage, &papers.client(), "ann");
    assert_carries(&mut visitor, &mut peer);
    for one in &mut slow {
        assert_eq!(one.wire.rest().unwrap_or_default(), b"");
    }
    assert!(since.elapsed() >= Duration::from_secs(2));
    stage.broker.wait_for_lines("TLS handshake failed", 20);
    assert_carries(&mut visitor, &mut peer);
}

#[test]
fn much_passes_unchanged_both_ways_however_slowly_it_is_read() {
    let papers = Papers::new();
    let guacd = papers.authority.sign("127.0.0.1");
    let stage = Stage::adjusted(secured(guacd.server(None)), 1, |site| {
        let site = papers.listening(site);
        site.with(pinned(&[guacd.fingerprint()]))
    });
    let (mut visitor, mut peer) = desktop(&stage, &papers.client(), "ann");
    // No two places of it alike, so that nothing lost or doubled passes.
    let mut part = Vec::new();
    for n in 0..400_000 {
        let number = format!("{n:06}");
        part.extend(format!("4.blob,1.1,{}.{number};", number.len()).into_bytes());
    }
    let (down, up) = (part.clone(), part.clone());
    std::thread::scope(|scope| {
        let (peer_wire, visitor_wire) = (&mut peer.wire, &mut visitor.wire);
        scope.spawn(move || {
            peer_wire.send(&down).unwrap();
            let mut got = Vec::new();
            while got.len() < up.len() {
                let some = peer_wire.exact(100_000.min(up.len() - got.len())).unwrap();
                got.extend(some);
            }
            assert!(got == up, "Guacamole's bytes as they were");
        });
        scope.spawn(|| {
            let mut got = Vec::new();
            while got.len() < part.len() {
                let some = visitor_wire.exact(50_000.min(part.len() - got.len()));
                got.extend(some.unwrap());
                std::thread::sleep(Duration::from_millis(2));
            }
            assert!(got == part, "guacd's bytes as they were");
            visitor_wire.send(&part).unwrap();
        });
    });
}

#[test]
fn a_hello_that_is_none_is_answered_with_an_alert() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    let mut garbage = TcpStream::connect(stage.broker.address()).unwrap();
    std::io::Write::write_all(&mut garbage, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00").unwrap();
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer);
    // An alert, and nothing else.
    assert_eq!(answer.first(), Some(&0x15), "{answer:?}");
    said(&stage, "WARN", "TLS handshake failed");
}
