//! What is said of certificates before they are used, and while they last.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A site that nobody starts.
fn idle(papers: &Papers) -> Site {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    papers.listening(Site::new(nowhere))
}

#[test]
fn good_ones_pass_the_check_without_a_word() {
    let papers = Papers::new();
    let (good, said) = check(&idle(&papers), &["--strict"]);
    assert!(good && !said.contains("own."), "{said}");
}

#[test]
fn files_that_cannot_be_used_are_faults_that_say_what_to_do() {
    let papers = Papers::new();
    let other = papers.authority.sign(NAME);
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (file, text, says) in [
        (
            "own.key",
            Some(other.key.as_str()),
            "does not belong to the certificate",
        ),
        (
            "own.key",
            Some(papers.own.certificate.as_str()),
            "exchange the two files",
        ),
        (
            "own.crt",
            Some(papers.own.key.as_str()),
            "exchange the two files",
        ),
        ("own.key", Some(locked), "passphrase"),
        (
            "own.crt",
            Some("nothing of the kind"),
            "no certificate in PEM form",
        ),
        (
            "own.crt",
            Some(&papers.own.certificate[..200]),
            "END line is missing",
        ),
        (
            "own.crt",
            Some("\u{30}\u{80}"),
            "no certificate in PEM form",
        ),
        ("own.crt", None, "cannot be read"),
    ] {
        let site = idle(&papers);
        let path = site.folder().join(file);
        match text {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let (good, said) = check(&site, &[]);
        assert!(!good && said.contains(says), "{says}: {said}");
        let key = if file == "own.crt" {
            "tls_cert_file"
        } else {
            "tls_key_file"
        };
        assert!(
            said.contains(&format!("{key} {}", path.display())),
            "{said}"
        );
        assert!(!said.contains(&papers.own.key[40..80]), "{said}");

        // What does not pass the check does not start either.
        let output = Site::run(&["serve"], &site.write());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
}

#[test]
fn an_authority_that_cannot_be_read_is_a_fault() {
    let site = Site::new("127.0.0.1:1".parse().unwrap());
    let site = site.with("[guacd]\ntls = true\nca_file = \"none.crt\"\n");
    let (good, said) = check(&site, &[]);
    assert!(!good && said.contains("[guacd] ca_file"), "{said}");
}

#[test]
fn a_key_that_everybody_may_read_is_warned_of() {
    let papers = Papers::new();
    let site = idle(&papers);
    let key = site.folder().join("own.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (good, said) = check(&site, &[]);
    assert!(good && said.contains("0644"), "{said}");
    assert!(!check(&site, &["--strict"]).0);
    let broker = site.start();
    broker.wait("Private key is open to everybody", |_| true);
}

#[test]
fn dates_are_warned_of_by_the_check_and_in_the_log() {
    for (days, check_says, log_says) in [
        (Some(13), "expires in 13 days", "Certificate expires soon"),
        (Some(0), "expires in 0 days", "Certificate expires soon"),
        (None, "has expired", "Certificate has expired"),
    ] {
        let authority = Authority::new("Test Authority");
        let own = match days {
            Some(days) => authority.sign_for(NAME, days),
            None => authority.expired(NAME),
        };
        let site = idle(&Papers { authority, own });
        let (good, said) = check(&site, &[]);
        assert!(good && said.contains(check_says), "{said}");
        assert!(!check(&site, &["--strict"]).0, "a warning fails there");
        let broker = site.start();
        let line = broker.wait(log_says, |_| true);
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["subject"], format!("CN={NAME}"));
    }
    // A fortnight is far enough.
    let authority = Authority::new("Test Authority");
    let own = authority.sign_for(NAME, 14);
    let (good, said) = check(&idle(&Papers { authority, own }), &["--strict"]);
    assert!(good, "{said}");
}
