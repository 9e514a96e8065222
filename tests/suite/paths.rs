//! Every way through the relay, plain and with TLS on either leg: the same bytes arrive, however
//! they are cut, and the same ends.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::support::tls::{Authority, Identity};
use crate::support::{Dice, GuacdPeer, Names, ScriptedGuacd, Stage, Visit, Visitor};

const NAME: &str = "broker.test";

/// From the last byte on one side to the end on both; a machine under load takes some of it.
const CLOSED_WITHIN: Duration = Duration::from_millis(1500);

/// What is cut everywhere: characters of one to four bytes, empty elements, and text that looks
/// like ends of instructions and of tunnels.
const TRICKY: &str = "4.sync,5.12345,1.1;4.blob,1.1,4.AAAA;4.blob,1.2,3.\u{e9}\u{20ac}\u{1F600};\
                      3.nop;4.name,12.5.error,1.x;,0.;4.name,14.10.disconnect;;";

struct Path {
    name: &'static str,
    stage: Stage,
    /// Guacamole comes by TLS.
    client: Option<Arc<ClientConfig>>,
}

impl Path {
    fn all() -> [Self; 4] {
        [
            Self::of("plain", false, false),
            Self::of("TLS from Guacamole", true, false),
            Self::of("TLS to guacd", false, true),
            Self::of("TLS on both legs", true, true),
        ]
    }

    fn of(name: &'static str, from_guacamole: bool, to_guacd: bool) -> Self {
        let authority = Authority::new("Test Authority");
        let names = Names::rdp("1.6.0");
        let shown = Identity::self_signed("guacd.test");
        let guacd = match to_guacd {
            true => ScriptedGuacd::secured(shown.server(None), names),
            false => ScriptedGuacd::polite(names),
        };
        let stage = Stage::adjusted(guacd, 1, |mut site| {
            if from_guacamole {
                authority.sign(NAME).write(site.folder(), "own");
                site = site.listening("tls_cert_file = \"own.crt\"\ntls_key_file = \"own.key\"");
            }
            match to_guacd {
                true => {
                    let pin = shown.fingerprint();
                    site.with(format!("[guacd]\ntls = true\npin_sha256 = [{pin:?}]\n"))
                }
                false => site,
            }
        });
        Self {
            name,
            stage,
            client: from_guacamole.then(|| authority.client(None)),
        }
    }

    fn desktop(&self, user: &str) -> (Visitor, GuacdPeer) {
        let address = self.stage.broker.address();
        let mut visitor = match &self.client {
            Some(client) => Visitor::secured(address, client, NAME),
            None => Visitor::dial(address),
        };
        visitor.click(&Visit::office(user));
        visitor.ready();
        let mut peer = self.stage.guacd.ready();
        peer.stand();
        visitor.hear("sync");
        (visitor, peer)
    }
}

/// Instructions with pictures of any size up to 40 KB.
fn picture(dice: &mut Dice) -> Vec<u8> {
    let length = usize::try_from(dice.roll() % 40_000).unwrap();
    let letters = (0..length).map(|_| b'A' + u8::try_from(dice.roll() % 26).unwrap());
    let mut picture = format!("4.blob,1.1,{length}.").into_bytes();
    picture.extend(letters);
    picture.push(b';');
    picture
}

#[test]
fn what_is_cut_anywhere_arrives_byte_by_byte_on_every_path() {
    for path in Path::all() {
        let (mut visitor, mut peer) = path.desktop("ann");
        let whole = TRICKY.as_bytes();
        for cut in 1..whole.len() {
            // The second part is sent once the first has come through: no read holds both.
            for part in [&whole[..cut], &whole[cut..]] {
                peer.wire.send(part).unwrap();
                assert_eq!(
                    visitor.wire.exact(part.len()).unwrap(),
                    part,
                    "{}",
                    path.name
                );
                visitor.wire.send(part).unwrap();
                assert_eq!(peer.wire.exact(part.len()).unwrap(), part, "{}", path.name);
            }
        }
        drop((visitor, peer));
        let ended = path.stage.broker.ended(&path.stage.broker.placed("ann"));
        assert_eq!(ended["to_guacd"], whole.len() * (whole.len() - 1));
        let said = path.stage.broker.said();
        let is_lost = |message: &str| message.contains("cannot be followed");
        assert!(
            !said
                .iter()
                .any(|line| line["message"].as_str().is_some_and(is_lost)),
            "{}: the framing was followed",
            path.name
        );
    }
}

#[test]
fn pictures_pass_both_ways_byte_by_byte_on_every_path() {
    for path in Path::all() {
        let (mut visitor, mut peer) = path.desktop("ann");
        let mut dice = Dice::of(5);
        for _ in 0..60 {
            let (down, up) = (picture(&mut dice), picture(&mut dice));
            peer.wire.send(&down).unwrap();
            visitor.wire.send(&up).unwrap();
            assert!(
                visitor.wire.exact(down.len()).unwrap() == down,
                "{}",
                path.name
            );
            assert!(peer.wire.exact(up.len()).unwrap() == up, "{}", path.name);
        }
    }
}

#[test]
fn the_end_of_one_side_closes_both_behind_all_that_was_said_on_every_path() {
    for path in Path::all() {
        let said = [TRICKY.as_bytes(), &picture(&mut Dice::of(6))].concat();
        let (mut visitor, mut peer) = path.desktop("ann");
        peer.wire.send(&said).unwrap();
        peer.wire.finish();
        assert_eq!(
            visitor.wire.exact(said.len()).unwrap(),
            said,
            "{}",
            path.name
        );
        let start = Instant::now();
        visitor.end();
        assert_eq!(peer.wire.rest().unwrap(), b"", "{}", path.name);
        assert!(
            start.elapsed() < CLOSED_WITHIN,
            "{}: {:?}",
            path.name,
            start.elapsed()
        );

        let (mut visitor, mut peer) = path.desktop("bob");
        visitor.wire.send(&said).unwrap();
        visitor.wire.finish();
        assert_eq!(peer.wire.exact(said.len()).unwrap(), said, "{}", path.name);
        let start = Instant::now();
        assert_eq!(peer.wire.rest().unwrap(), b"", "{}", path.name);
        visitor.end();
        assert!(
            start.elapsed() < CLOSED_WITHIN,
            "{}: {:?}",
            path.name,
            start.elapsed()
        );
    }
}

#[test]
fn a_reset_passes_on_as_a_reset_on_every_path() {
    for path in Path::all() {
        let (mut visitor, peer) = path.desktop("ann");
        peer.wire.reset();
        let end = visitor.wire.rest().unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset, "{}", path.name);

        let (visitor, mut peer) = path.desktop("bob");
        visitor.wire.reset();
        let end = peer.wire.rest().unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset, "{}", path.name);
    }
}

#[test]
fn who_reads_a_little_at_a_time_gets_all_of_it_byte_by_byte() {
    let path = Path::of("plain", false, false);
    let mut visitor = Visitor::narrow(path.stage.broker.address());
    visitor.click(&Visit::office("ann"));
    visitor.ready();
    let mut peer = path.stage.guacd.ready();
    peer.stand();
    visitor.hear("sync");
    let mut dice = Dice::of(7);
    let said: Vec<u8> = (0..100).flat_map(|_| picture(&mut dice)).collect();
    let sent = said.clone();
    let writer = std::thread::spawn(move || {
        peer.wire.send(&sent).unwrap();
        peer.wire.stream().shutdown(Shutdown::Write).unwrap();
        peer
    });
    let got = visitor.wire.rest().unwrap();
    assert!(got == said, "{} of {} bytes", got.len(), said.len());
    drop(writer.join().unwrap());
}
