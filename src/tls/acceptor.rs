//! Guacamole's side: we are the server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{AlertDescription, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::certificate::Facts;
use super::fault::{Fault, Problem};
use super::live::{Batch, Live, Look, Recipe, Shown};
use super::pem::Text;
use super::provider;
use super::stream::Stream;
use crate::config::{Fingerprint, ServerTls};

/// Turns connections of one listener into TLS; clones are one.
#[derive(Debug, Clone)]
pub struct Acceptor {
    live: Arc<Live<ServerTls>>,
}

/// Why a client got no TLS.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// It left in the middle of it.
    #[error("the connection ended during the handshake")]
    Left,
    /// It does not believe that we are we.
    #[error(
        "the client refused our certificate ({0}): import it, or its authority, into the trust \
         store of Guacamole's Java"
    )]
    Distrusted(String),
    /// It shows no certificate, and must.
    #[error(
        "the client showed no certificate and tls_client_ca_file asks for one: give Guacamole's \
         Java a key store, or take tls_client_ca_file away"
    )]
    NoCertificate,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl Acceptor {
    pub(super) fn new(live: Arc<Live<ServerTls>>) -> Self {
        Self { live }
    }

    /// Of the certificate that is shown now.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let shown = self.live.state().certificates;
        shown.first().map(|shown| shown.facts.fingerprint)
    }

    /// Shakes hands, with the certificate that is in force now; to be bounded
    /// by whoever calls. On failure gives the socket back, with what we had to
    /// say in it.
    ///
    /// # Errors
    /// Why, for the log.
    pub async fn accept(&self, socket: TcpStream) -> Result<Stream, (AcceptError, TcpStream)> {
        let acceptor = TlsAcceptor::from(self.live.made());
        let accepted = acceptor.accept(socket).into_fallible().await;
        let stream = accepted.map_err(|(error, socket)| (why(&error), socket))?;
        Ok(Stream::secured(stream.into()))
    }
}

fn why(error: &io::Error) -> AcceptError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::AlertReceived(alert)) if distrusts(*alert) => {
            AcceptError::Distrusted(format!("{alert:?}"))
        }
        Some(rustls::Error::NoCertificatesPresented) => AcceptError::NoCertificate,
        Some(error) => AcceptError::Failed(error.to_string()),
        None => AcceptError::Left,
    }
}

fn distrusts(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::UnknownCA
    )
}

impl Recipe for ServerTls {
    type Made = ServerConfig;

    fn files(&self) -> Vec<(&'static str, &Path)> {
        let mut files = vec![
            ("tls_cert_file", self.cert_file.as_path()),
            ("tls_key_file", self.key_file.as_path()),
        ];
        let client_ca = self.client_ca_file.as_deref();
        files.extend(client_ca.map(|path| ("tls_client_ca_file", path)));
        files
    }

    fn make(&self, texts: &[Text<'_>]) -> Result<Batch<ServerConfig>, Fault> {
        let [certificate, key, more @ ..] = texts else {
            return Err(Fault::new("tls_cert_file", &self.cert_file, missing()));
        };
        let chain = certificate.certificates()?;
        // Only the own one: those above it are exchanged together with it.
        let mut certificates: Vec<_> = shown(certificate, chain.get(..1).unwrap_or_default())?;
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| certificate.fault(unfit(&error)))?;
        let builder = match more.first() {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let (roots, facts) = roots(authorities)?;
                certificates.extend(facts);
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier
                    .build()
                    .map_err(|error| authorities.fault(Problem::Certificate(error.to_string())))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let made = builder.with_single_cert(chain, key.key()?);
        let mut made = made.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => key.fault(Problem::OtherKey),
            rustls::Error::InvalidCertificate(_) => certificate.fault(unfit(&error)),
            error => key.fault(Problem::Key(error.to_string())),
        })?;
        // A session taken up again would skip the client's certificate, and
        // outlive ours.
        made.session_storage = Arc::new(NoServerSessionStorage {});
        made.send_tls13_tickets = 0;
        Ok(Batch { made, certificates })
    }
}

/// Authorities, and what each says of itself.
pub(super) fn roots(text: &Text<'_>) -> Result<(RootCertStore, Vec<Shown>), Fault> {
    let certificates = text.certificates()?;
    let facts = shown(text, &certificates)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(certificate);
        added.map_err(|error| text.fault(unfit(&error)))?;
    }
    Ok((roots, facts))
}

fn shown(
    text: &Text<'_>,
    certificates: &[rustls::pki_types::CertificateDer<'_>],
) -> Result<Vec<Shown>, Fault> {
    let facts = certificates.iter().map(|certificate| {
        let facts = Facts::of(certificate);
        let facts = facts.map_err(|what| text.fault(Problem::Certificate(what)))?;
        Ok(Shown {
            key: text.key,
            path: text.path.to_owned(),
            facts,
        })
    });
    facts.collect()
}

fn unfit(error: &rustls::Error) -> Problem {
    Problem::Certificate(error.to_string())
}

fn missing() -> Problem {
    Problem::Unreadable(io::ErrorKind::NotFound)
}
