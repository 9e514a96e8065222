//! Whether a certificate is guacd's: one of the pins names it, or an authority
//! vouches for it.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::certificate::{Facts, fingerprint};
use crate::config::Fingerprint;

/// The judge of guacd's certificates.
#[derive(Debug)]
pub(super) struct GuacdVerifier {
    pub(super) pins: Vec<Fingerprint>,
    /// Checks chain, name and dates; `None` where pins alone count.
    pub(super) authorities: Option<Arc<WebPkiServerVerifier>>,
    pub(super) provider: Arc<CryptoProvider>,
}

/// A certificate that is not guacd's, as far as we were told.
#[derive(Debug, Clone)]
pub struct Refused {
    pub(super) presented: Fingerprint,
    pub(super) subject: String,
    /// Whether there are pins.
    pub(super) pinned: bool,
    /// What the authorities' check says; `None` where there are none.
    pub(super) error: Option<CertificateError>,
}

impl ServerCertVerifier for GuacdVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = fingerprint(end_entity);
        // Nobody learns a pin from how long this takes: certificates are public.
        if self.pins.contains(&presented) {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = self.authorities.as_ref().map(|authorities| {
            authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            )
        });
        let error = match verified {
            Some(Ok(verified)) => return Ok(verified),
            Some(Err(Error::InvalidCertificate(error))) => Some(error),
            Some(Err(other)) => return Err(other),
            None => None,
        };
        let subject = Facts::of(end_entity).map(|facts| facts.subject);
        let refused = Refused {
            presented,
            subject: subject.unwrap_or_default(),
            pinned: !self.pins.is_empty(),
            error,
        };
        let error = CertificateError::Other(OtherError(Arc::new(refused)));
        Err(Error::InvalidCertificate(error))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// The text must leave room for the pin where little is shown of it.
const LONGEST_SUBJECT: usize = 64;

impl Refused {
    /// What is wrong, in one sentence.
    pub fn reason(&self) -> String {
        let mut reason = match &self.error {
            None => return "its certificate is none of those in pin_sha256".to_owned(),
            Some(error) if is_ca(error) => {
                "ca_file cannot vouch for its certificate, which is an authority's own, as \
                 self-signed ones are (CaUsedAsEndEntity); a pin can"
                    .to_owned()
            }
            Some(error) => format!("ca_file does not vouch for its certificate ({error})"),
        };
        if self.pinned {
            reason.push_str(", and is none of those in pin_sha256");
        }
        reason
    }

    /// It is good, and somebody else's.
    pub fn is_another_name(&self) -> bool {
        names(self.error.as_ref())
    }

    /// Whose it is, shortened to what a line can hold.
    pub fn subject(&self) -> String {
        self.subject.chars().take(LONGEST_SUBJECT).collect()
    }

    /// The certificate that was shown.
    pub fn presented(&self) -> Fingerprint {
        self.presented
    }
}

/// What is wrong, what was shown, and what to do.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())?;
        if self.is_another_name() {
            f.write_str("; tls_server_name in [guacd] sets the name")?;
        }
        let subject = self.subject();
        write!(
            f,
            "; it showed \"{subject}\": set pin_sha256 = [\"{}\"] in [guacd] if that is what openssl \
             x509 -noout -fingerprint -sha256 prints for guacd's own",
            self.presented,
        )
    }
}

impl std::error::Error for Refused {}

fn is_ca(error: &CertificateError) -> bool {
    // It has no case of its own and arrives wrapped.
    match error {
        CertificateError::Other(OtherError(inner)) => {
            format!("{inner:?}").contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}

fn names(error: Option<&CertificateError>) -> bool {
    matches!(
        error,
        Some(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
    )
}
