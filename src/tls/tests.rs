//! Dates, and what is said of them when.

use std::time::Duration;

use rcgen::{CertificateParams, DnType, KeyPair};

use super::certificates::{Left, Standing, now};
use super::*;
use crate::config::{Beside, ServerTls};
use crate::placement::Timestamp;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn at(days: u32) -> Timestamp {
    Timestamp::default() + days * DAY
}

#[test]
fn a_certificate_has_a_beginning_and_an_end() {
    let standing = Standing {
        key: "tls_cert_file",
        file: "own.crt".to_owned(),
        subject: "CN=own".to_owned(),
        not_before: at(100),
        not_after: at(200),
        last_error: None,
    };
    for (now, left) in [
        (at(99), Left::NotYet),
        (at(100), Left::Plenty),
        (at(186), Left::Plenty),
        (at(186) + HOUR, Left::Days(13)),
        (at(199), Left::Days(1)),
        (at(199) + HOUR, Left::Days(0)),
        (at(200), Left::Expired),
        (at(300), Left::Expired),
    ] {
        assert_eq!(standing.left(now), left, "{now:?}");
    }
}

/// Writes a certificate that is good for so many days more, and its key.
fn write(folder: &std::path::Path, days: u32) -> ServerTls {
    let mut params = CertificateParams::new(["own.test".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "own");
    params.not_after = (std::time::SystemTime::now() + days * DAY + HOUR).into();
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let tls = ServerTls {
        cert_file: folder.join("own.crt"),
        key_file: folder.join("own.key"),
        client_ca_file: None,
    };
    std::fs::write(&tls.cert_file, certificate.pem()).unwrap();
    std::fs::write(&tls.key_file, key.serialize_pem()).unwrap();
    tls
}

#[test]
fn an_end_that_is_near_is_said_once_a_day_until_there_is_a_new_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::default();
    certificates.acceptor(&write(folder.path(), 5)).unwrap();
    let said = |after: Duration| {
        let due = certificates.due(now() + after);
        due.into_iter().map(|(_, left)| left).collect::<Vec<_>>()
    };
    assert_eq!(said(Duration::ZERO), [Left::Days(5)]);
    assert_eq!(said(HOUR), []);
    assert_eq!(said(23 * HOUR), []);
    assert_eq!(said(24 * HOUR), [Left::Days(4)]);
    assert_eq!(said(26 * HOUR), []);
    write(folder.path(), 100);
    certificates.look();
    assert_eq!(said(60 * HOUR), []);
}

#[test]
fn half_written_files_change_nothing_and_the_whole_ones_do() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::default();
    let tls = write(folder.path(), 50);
    certificates.acceptor(&tls).unwrap();
    let before = certificates.standings();
    let (certificate, key) = (
        std::fs::read(&tls.cert_file).unwrap(),
        std::fs::read(&tls.key_file).unwrap(),
    );
    for length in [0, 1, certificate.len() / 2, certificate.len() - 2] {
        std::fs::write(&tls.cert_file, &certificate[..length]).unwrap();
        certificates.look();
        let [standing] = &certificates.standings()[..] else {
            panic!("one certificate");
        };
        assert_eq!(standing.not_after, before[0].not_after);
        assert!(standing.last_error.is_some(), "{length} bytes");
    }
    std::fs::write(&tls.cert_file, &certificate).unwrap();
    certificates.look();
    assert_eq!(certificates.standings(), before);
    assert_eq!(std::fs::read(&tls.key_file).unwrap(), key);
}

#[test]
fn neither_keys_nor_texts_of_files_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::default();
    let tls = write(folder.path(), 50);
    let acceptor = certificates.acceptor(&tls).unwrap();
    let shown = format!("{acceptor:?} {certificates:?}");
    assert!(shown.contains("own.key"), "{shown}");
    assert!(shown.len() < 2000, "paths and no more: {shown}");
    std::fs::write(&tls.key_file, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0!").unwrap();
    let said = certificates.acceptor(&tls).unwrap_err();
    assert!(!format!("{said} {said:?}").contains("c2VjcmV0"), "{said:?}");
}
