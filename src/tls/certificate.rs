//! What a certificate says of itself.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::config::Fingerprint;
use crate::placement::Timestamp;

/// When it holds, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) subject: String,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) fingerprint: Fingerprint,
}

impl Facts {
    /// What stands in a certificate; an error that says what does not.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let fingerprint = fingerprint(certificate);
        let parsed = Certificate::from_der(certificate);
        let parsed = parsed.map_err(|_| "it is no X.509 certificate".to_owned())?;
        let certificate = parsed.tbs_certificate;
        let at = |since: Duration| Timestamp::default() + since;
        Ok(Self {
            subject: certificate.subject.to_string(),
            not_before: at(certificate.validity.not_before.to_unix_duration()),
            not_after: at(certificate.validity.not_after.to_unix_duration()),
            fingerprint,
        })
    }
}

/// The SHA-256 of the whole certificate.
pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let mut sum = [0; 32];
    let digest = digest(&SHA256, certificate);
    // Both are 32 bytes long.
    for (to, from) in sum.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    Fingerprint(sum)
}
