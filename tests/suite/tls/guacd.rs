//! The leg towards guacd.

use std::io::Read;
use std::net::TcpListener;

use super::*;

const ANY: &str = "127.0.0.1";

/// A stage before a guacd that shows this certificate, and what `[guacd]` says of it.
fn stage(shown: &Identity, settings: impl Into<String>, files: &[(&str, String)]) -> Stage {
    Stage::adjusted(secured(shown.server(None)), 1, |site| {
        for (name, text) in files {
            write(site.folder(), name, text);
        }
        site.with(settings)
    })
}

fn carries(stage: &Stage) {
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    assert_carries(&mut visitor, &mut peer);
    // It leaves without a farewell of TLS, as guacd does: that is an end like any other.
    drop(peer);
    visitor.end();
    let ended = stage.broker.ended(&stage.broker.placed("ann"));
    assert_eq!(ended["how"], "guacd closed the connection");
}

/// What the page and the log are told.
fn refused(stage: &Stage) -> String {
    let refusal = Visit::office("ann").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    let line = stage.broker.wait("Refused", |_| true);
    let reason = line["reason"].as_str().unwrap().to_owned();
    assert!(refusal.text.starts_with(&reason), "whole: {}", refusal.text);
    reason
}

#[test]
fn a_self_signed_guacd_is_known_by_its_pin_alone() {
    let shown = Identity::self_signed("whatever.test");
    carries(&stage(&shown, pinned(&[shown.fingerprint()]), &[]));
}

#[test]
fn two_pins_are_for_the_time_of_an_exchange() {
    let (old, new) = (
        Identity::self_signed("guacd"),
        Identity::self_signed("guacd"),
    );
    let pins = [old.fingerprint(), new.fingerprint()];
    carries(&stage(&old, pinned(&pins), &[]));
    carries(&stage(&new, pinned(&pins), &[]));
}

#[test]
fn another_certificate_than_the_pinned_one_is_refused_and_named() {
    let (shown, meant) = (
        Identity::self_signed("shown.test"),
        Identity::self_signed("meant.test"),
    );
    let stage = stage(&shown, pinned(&[meant.fingerprint()]), &[]);
    let reason = refused(&stage);
    assert!(reason.contains("none of those in pin_sha256"), "{reason}");
    assert!(
        reason.contains("shown.test") && reason.contains(&shown.fingerprint()),
        "{reason}"
    );
    // What guacd heard was TLS and nothing more.
    assert!(stage.guacd.next().outcome.is_err());
}

#[test]
fn a_self_signed_guacd_cannot_be_known_by_an_authority_and_is_told_the_pin() {
    let shown = Identity::self_signed(ANY);
    let settings = "[guacd]\ntls = true\nca_file = \"guacd.crt\"\n";
    let files = [("guacd.crt", shown.certificate.clone())];
    let reason = refused(&stage(&shown, settings, &files));
    assert!(reason.contains("CaUsedAsEndEntity"), "{reason}");
    let advice = format!("set pin_sha256 = [\"{}\"] in [guacd]", shown.fingerprint());
    assert!(reason.contains(&advice), "{reason}");

    // Which is all there is to do.
    let more = format!("{settings}pin_sha256 = [\"{}\"]\n", shown.fingerprint());
    carries(&stage(&shown, more, &files));
}

#[test]
fn an_authority_vouches_for_the_name_in_the_address_or_the_one_that_is_set() {
    let authority = Authority::new("guacd's");
    let files = [("ca.crt", authority.pem())];
    let settings = "[guacd]\ntls = true\nca_file = \"ca.crt\"\n";
    carries(&stage(&authority.sign(ANY), settings, &files));

    let named = authority.sign("guacd.test");
    let reason = refused(&stage(&named, settings, &files));
    assert!(
        reason.contains("guacd.test") && reason.contains("tls_server_name"),
        "{reason}"
    );
    let more = format!("{settings}tls_server_name = \"guacd.test\"\n");
    carries(&stage(&named, more, &files));
}

#[test]
fn strangers_and_the_expired_are_refused() {
    let authority = Authority::new("guacd's");
    let files = [("ca.crt", authority.pem())];
    let settings = "[guacd]\ntls = true\nca_file = \"ca.crt\"\n";
    let strangers = Authority::new("Another").sign(ANY);
    let reason = refused(&stage(&strangers, settings, &files));
    assert!(reason.contains("UnknownIssuer"), "{reason}");
    let reason = refused(&stage(&authority.expired(ANY), settings, &files));
    assert!(reason.contains("expired"), "{reason}");
}

#[test]
fn both_legs_at_once() {
    let papers = Papers::new();
    let guacd = papers.authority.sign("guacd.test");
    let stage = Stage::adjusted(secured(guacd.server(None)), 1, |site| {
        write(site.folder(), "ca.crt", &papers.authority.pem());
        papers
            .listening(site)
            .with("[guacd]\ntls = true\nca_file = \"ca.crt\"\ntls_server_name = \"guacd.test\"\n")
    });
    let (mut visitor, mut peer) = desktop(&stage, &papers.client(), "ann");
    assert_carries(&mut visitor, &mut peer);
    // Guacamole leaves without a farewell.
    drop(visitor);
    assert_eq!(peer.wire.rest().unwrap(), b"");
}

#[test]
fn a_guacd_without_tls_is_told_apart() {
    let pin = Identity::self_signed(ANY).fingerprint();
    let stage = Stage::adjusted(polite(), 1, |site| site.with(pinned(&[pin])));
    let reason = refused(&stage);
    assert!(
        reason.contains("-C and -K") && reason.contains("tls = false in [guacd]"),
        "{reason}"
    );
}

#[test]
fn a_guacd_without_tls_that_waits_is_told_apart_too() {
    let pin = Identity::self_signed(ANY).fingerprint();
    let silent = ScriptedGuacd::playing(|peer| peer.wire.rest().map(drop));
    let stage = Stage::adjusted(silent, 1, |site| {
        site.with(pinned(&[pin]) + "connect_timeout = \"1s\"\n")
    });
    let reason = refused(&stage);
    assert!(
        reason.contains("connect_timeout") && reason.contains("tls = false in [guacd]"),
        "{reason}"
    );
}

#[test]
fn a_guacd_with_tls_that_is_spoken_to_in_plain_text_is_told_apart() {
    // With an alert, and as OpenSSL does it: without a word.
    for answer in [&b"\x15\x03\x01\x00\x02\x02\x46"[..], b""] {
        let secure = ScriptedGuacd::playing(move |peer| {
            peer.hear_select()?;
            peer.wire.send(answer)?;
            peer.wire.finish();
            Ok(())
        });
        let reason = refused(&Stage::before(secure, 1));
        assert!(reason.contains("tls = true in [guacd]"), "{reason}");
    }
}

#[test]
fn a_guacd_with_tls_that_resets_is_told_apart() {
    // As the real one does: it leaves with most of our question unread.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0]);
        }
    });
    let broker = Stage::site(address, &[]).start();
    let refusal = Visit::office("ann").refused_at(&broker);
    assert_eq!(refusal.code, 0x208, "{}", refusal.text);
    let reason = broker.wait("Refused", |_| true)["reason"].to_string();
    assert!(reason.contains("tls = true in [guacd]"), "{reason}");
}
