//! Certificates that are exchanged while the broker runs.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::*;
use crate::suite::metrics::Scraped;
use crate::support::Broker;

/// Writes files into the site's folder, then has them looked at.
fn exchange(stage: &Stage, own: &Identity, message: &str) {
    let before = stage.broker.lines(message).len();
    own.write(stage.site.folder(), "own");
    stage.broker.signal("HUP");
    stage.broker.wait_for_lines(message, before + 1);
}

fn status(stage: &Stage) -> Value {
    let config = stage.site.folder().join("sessionguard.toml");
    let output = Site::run(&["status", "-o", "json"], &config);
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

const EXCHANGED: &str = "Certificate exchanged";
const REFUSED: &str = "Certificate refused, the one before stays in force";

/// Whether a client of this authority gets a tunnel.
fn is_served(broker: &Broker, authority: &Authority) -> bool {
    let mut visitor = Visitor::secured(broker.address(), &authority.client(None), NAME);
    let sent = visitor.wire.send(b"6.select,3.rdp;");
    sent.is_ok() && matches!(visitor.wire.instruction(), Ok(Some(_)))
}

#[test]
fn newcomers_see_the_new_certificate_and_open_tunnels_live_on() {
    let old = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| old.listening(site));
    let (mut visitor, mut peer) = desktop(&stage, &old.client(), "ann");
    let new = Papers::new();
    exchange(&stage, &new.own, EXCHANGED);
    assert!(!is_served(&stage.broker, &old.authority));
    assert!(is_served(&stage.broker, &new.authority));
    assert_carries(&mut visitor, &mut peer);
    assert_eq!(stage.broker.lines(EXCHANGED).len(), 1);
}

#[test]
fn a_broken_one_leaves_the_old_in_place_and_is_shown_until_it_is_mended() {
    let old = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| old.listening(site));
    let new = Papers::new();
    let mixed = Identity {
        certificate: new.own.certificate.clone(),
        key: old.own.key.clone(),
    };
    exchange(&stage, &mixed, REFUSED);
    assert!(is_served(&stage.broker, &old.authority));
    let shown = &status(&stage)["certificates"][0];
    assert_eq!(shown["subject"], format!("CN={NAME}"));
    let error = shown["last_error"].as_str().unwrap();
    assert!(error.contains("does not belong"), "{error}");
    // People see it, too.
    let config = stage.site.folder().join("sessionguard.toml");
    let table = Site::run(&["status"], &config).stdout;
    assert!(String::from_utf8_lossy(&table).contains("does not belong"));

    // The same again is not said again, but to whoever asks.
    let reload = || {
        let output = Site::run(&["reload"], &config);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = reload();
    let key = stage.site.folder().join("own.key");
    let named = format!(
        "not exchanged: tls_key_file {}: the key does not",
        key.display()
    );
    assert!(said.contains(&named), "{said}");
    assert_eq!(code, Some(1), "{said}");
    stage.broker.wait_for_lines("Configuration unchanged", 2);
    exchange(&stage, &new.own, EXCHANGED);
    assert_eq!(stage.broker.lines(REFUSED).len(), 1);
    assert!(is_served(&stage.broker, &new.authority));
    assert_eq!(status(&stage)["certificates"][0]["last_error"], Value::Null);
    assert_eq!(reload(), (Some(0), String::new()));
}

#[test]
fn a_reload_that_exchanges_a_certificate_says_so() {
    let old = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| old.listening(site));
    let new = Papers::new();
    let config = stage.site.folder().join("sessionguard.toml");
    let reload = || {
        let output = Site::run(&["reload"], &config);
        String::from_utf8(output.stdout).unwrap()
    };
    let unchanged = "nothing has changed: configuration 1 is in force\n";
    assert_eq!(reload(), unchanged);
    let mut owns = [&new.own, &old.own].into_iter().cycle();
    // The broker may notice it before it is asked.
    let said = crate::support::eventually("a reload that is the first to see it", || {
        owns.next().unwrap().write(stage.site.folder(), "own");
        Some(reload()).filter(|said| said.contains("exchanged"))
    });
    let file = stage.site.folder().join("own.crt");
    let expected = format!(
        "exchanged: {}\nconfiguration 1 stays in force\n",
        file.display()
    );
    assert_eq!(said, expected);
}

#[test]
fn a_file_that_is_gone_leaves_the_old_in_place() {
    let old = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| old.listening(site));
    std::fs::remove_file(stage.site.folder().join("own.crt")).unwrap();
    stage.broker.signal("HUP");
    stage.broker.wait_for_lines(REFUSED, 1);
    assert!(is_served(&stage.broker, &old.authority));
}

#[test]
fn a_configuration_that_names_an_authority_that_cannot_be_used_changes_nothing() {
    let shown = Identity::self_signed("guacd");
    let authority = Authority::new("guacd's");
    let stage = Stage::adjusted(secured(shown.server(None)), 1, |site| {
        site.with(pinned(&[shown.fingerprint()]))
    });
    let refused = "Configuration refused, the one before stays in force";
    let settings = stage.site.folder().join("conf.d/01.toml");
    std::fs::write(&settings, "[guacd]\ntls = true\nca_file = \"ca.crt\"\n").unwrap();
    let line = stage.broker.wait_for_lines(refused, 1).remove(0);
    let findings = line["findings"].as_str().unwrap();
    assert!(findings.contains("ca.crt"), "{findings}");
    drop(stage.tunnel(&Visit::office("ann")));

    // Mended where the fault is, not in the configuration.
    write(stage.site.folder(), "ca.crt", &authority.pem());
    stage.broker.signal("HUP");
    stage.broker.wait("Configuration applied", |_| true);
    let refusal = Visit::office("bob").refused_at(&stage.broker);
    assert!(refusal.text.contains("CaUsedAsEndEntity") || refusal.text.contains("UnknownIssuer"));
}

#[test]
fn the_authority_of_guacd_is_exchanged_for_new_dials() {
    let (one, other) = (Authority::new("One"), Authority::new("Other"));
    let shown = other.sign("127.0.0.1");
    let stage = Stage::adjusted(secured(shown.server(None)), 1, |site| {
        write(site.folder(), "ca.crt", &one.pem());
        site.with("[guacd]\ntls = true\nca_file = \"ca.crt\"\n")
    });
    let refusal = Visit::office("ann").refused_at(&stage.broker);
    assert_eq!(refusal.code, 0x208);
    assert!(stage.guacd.next().outcome.is_err());
    write(stage.site.folder(), "ca.crt", &other.pem());
    stage.broker.signal("HUP");
    stage.broker.wait(EXCHANGED, |_| true);
    let (mut visitor, mut peer) = stage.desktop(&Visit::office("ann"));
    assert_carries(&mut visitor, &mut peer);
}

#[test]
fn when_a_certificate_ends_is_a_figure_and_a_broken_one_is_named() {
    let papers = Papers::new();
    let stage = Stage::adjusted(polite(), 1, |site| papers.listening(site));
    let ends = || Scraped::of(&stage.broker).sum("tls_certificate_not_after_seconds{");
    let is_in_days = |seconds: f64, days: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let left = seconds - now.as_secs_f64();
        (left / 86_400.0 - days as f64).abs() < 0.1
    };
    assert!(is_in_days(ends(), 365), "{}", ends());
    let shorter = papers.authority.sign_for(NAME, 90);
    exchange(&stage, &shorter, EXCHANGED);
    assert!(is_in_days(ends(), 90), "{}", ends());

    let mixed = Identity {
        certificate: papers.own.certificate.clone(),
        key: shorter.key.clone(),
    };
    exchange(&stage, &mixed, REFUSED);
    let (status, text) = stage.broker.health("/readyz?verbose");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("certificates: degraded: a file"), "{text}");
    assert!(is_in_days(ends(), 90), "{}", ends());
}
