//! The agent and the real broker, over https.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::super::admin::get;
use super::super::keys::create;
use super::{Agent, DAEMON, System, run, told};
use crate::support::tls::{Authority, Identity};
use crate::support::{Asker, Names, ScriptedGuacd, Stage, eventually};

/// A broker whose API shows this certificate, and the API's URL.
fn showing(own: &Identity, hosts: usize) -> (Stage, String) {
    let guacd = ScriptedGuacd::polite(Names::rdp("1.6.0"));
    let stage = Stage::adjusted(guacd, hosts, |site| {
        let (certificate, key) = own.write(site.folder(), "api");
        site.with(format!(
            "[api]\nlisten = \"127.0.0.1:0\"\ntls_cert_file = {certificate:?}\ntls_key_file = {key:?}\n"
        ))
    });
    let url = format!("https://{}", Asker::of(&stage.broker).address());
    (stage, url)
}

/// A session host with a token for its key.
fn newcomer(stage: &Stage, host: &str) -> System {
    let system = System::new();
    let token = create(&stage.site, &["enrollment", "--host", host]);
    system.put("token", &token);
    fs::set_permissions(system.path("token"), PermissionsExt::from_mode(0o600)).unwrap();
    system
}

fn enroll(system: &System, urls: &[&str], trust: &[&str]) -> Output {
    let (token, key) = (system.path("token"), system.path("agent.key"));
    let files = ["--token-file", text(&token), "--key-file", text(&key)];
    let servers = urls.iter().flat_map(|url| ["--server", url]);
    let arguments: Vec<_> = ["enroll"].into_iter().chain(servers).chain(files).collect();
    run(&[&arguments[..], trust].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn users(stage: &Stage, host: &str) -> Vec<Value> {
    let listed = get(&stage.site, "/api/v1/sessions");
    let listed = listed["sessions"].as_array().unwrap().iter();
    let here = listed.filter(|session| session["host"] == host);
    here.map(|session| session["user"].clone()).collect()
}

#[test]
fn a_host_is_enrolled_and_reports_by_pin_and_by_authority() {
    let authority = Authority::new("Test Authority");
    let own = authority.sign("127.0.0.1");
    let (stage, url) = showing(&own, 2);
    let ca = stage.site.folder().join("ca.crt");
    fs::write(&ca, authority.pem()).unwrap();
    let pin = own.fingerprint();
    let wrong = "00".repeat(32);
    for (host, trust, toml) in [
        (
            "rds1",
            ["--pin", &pin],
            format!("pin_sha256 = [{wrong:?}, {pin:?}]"),
        ),
        (
            "rds2",
            ["--ca-file", text(&ca)],
            format!("ca_file = {ca:?}"),
        ),
    ] {
        let system = newcomer(&stage, host);
        let refused = enroll(&system, &[&url], &["--pin", &wrong]);
        let said = told(&refused);
        assert_eq!(refused.status.code(), Some(4), "{said}");
        for part in ["none of those in pin_sha256", "127.0.0.1", &pin, "--pin"] {
            assert!(said.contains(part), "{part} is not in {said}");
        }
        assert!(!system.path("agent.key").exists());

        // The token was told to nobody: it is still good.
        let done = enroll(&system, &["https://127.0.0.1:1", &url], &trust);
        assert!(done.status.success(), "{}", told(&done));
        stage
            .broker
            .wait("Host enrolled", |line| line["host"] == host);
        system.log_on(10, DAEMON);
        let servers = ["https://127.0.0.1:1".to_owned(), url.clone()];
        let agent = Agent::start(&system.agent_toml(&servers, &toml));
        assert_eq!(agent.wait("Heartbeat accepted")["server"], url);
        eventually("the broker knows of the session", || {
            (users(&stage, host) == ["daemon"]).then_some(())
        });
        let report = get(&stage.site, &format!("/api/v1/hosts/{host}"));
        assert_eq!(report["agent"]["hostname"], "rds-a", "{report}");
        let key = fs::read_to_string(system.path("agent.key")).unwrap();
        let key: Value = serde_json::from_str(&key).unwrap();
        let secret = key["token"].as_str().unwrap();
        let said = agent.said.lock().unwrap();
        assert!(!said.iter().any(|line| line.contains(secret)));
    }
}

#[test]
fn a_broker_that_nobody_vouches_for_hears_nothing_until_somebody_does() {
    let authority = Authority::new("Test Authority");
    let own = authority.sign("127.0.0.1");
    let (stage, url) = showing(&own, 1);
    let system = newcomer(&stage, "rds1");
    let done = enroll(&system, &[&url], &["--pin", &own.fingerprint()]);
    assert!(done.status.success(), "{}", told(&done));
    system.put("ca.crt", &Authority::new("Another").pem());
    let toml = format!("ca_file = {:?}\ninterval = \"1s\"", system.path("ca.crt"));
    let agent = Agent::start(&system.agent_toml(&[url], &toml));
    let failed = agent.wait("Heartbeat failed");
    let error = failed["error"].as_str().unwrap();
    for part in [
        "ca_file does not vouch for its certificate",
        &own.fingerprint(),
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let report = get(&stage.site, "/api/v1/hosts/rds1");
    assert_eq!(report["agent"], Value::Null, "{report}");

    // Half of a file changes nothing, the whole one is taken at the next try.
    system.put("ca.crt", "-----BEGIN CERTIFICATE-----\n");
    agent.wait("Certificate refused, the one before stays in force");
    system.put("ca.crt", &authority.pem());
    agent.wait("Certificate exchanged");
    agent.wait("Heartbeat accepted");
}

#[test]
fn a_certificate_of_another_name_is_refused_with_what_to_do() {
    let authority = Authority::new("Test Authority");
    let own = authority.sign("broker.example");
    let (stage, url) = showing(&own, 1);
    let system = newcomer(&stage, "rds1");
    system.put("ca.crt", &authority.pem());
    let ca = system.path("ca.crt");
    let refused = enroll(&system, &[&url], &["--ca-file", text(&ca)]);
    let said = told(&refused);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(
        said.contains("a name that stands in the certificate"),
        "{said}"
    );
    assert!(said.contains(&own.fingerprint()), "{said}");
    for (trust, reason) in [
        (&["--pin", "00"][..], "--pin \"00\" is no SHA-256"),
        (&[], "--ca-file"),
        (
            &["--ca-file", "/nowhere/ca.pem"],
            "/nowhere/ca.pem: cannot be read",
        ),
    ] {
        let refused = enroll(&system, &[&url], trust);
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        assert!(told(&refused).contains(reason), "{}", told(&refused));
    }
    // One that speaks no TLS.
    let plain = Stage::one();
    let secure = format!("https://{}", Asker::of(&plain.broker).address());
    let refused = enroll(&system, &[&secure], &["--pin", &own.fingerprint()]);
    let said = told(&refused);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("ask it by http"), "{said}");
}
