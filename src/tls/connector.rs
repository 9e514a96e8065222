//! guacd's side: we are the client.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, OtherError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::acceptor::roots;
use super::fault::{Fault, Problem};
use super::live::{Batch, Live, Look, Recipe};
use super::pem::Text;
use super::provider;
use super::stream::Stream;
use super::verifier::{GuacdVerifier, Refused};
use crate::config::GuacdTls;

/// Turns connections to one guacd into TLS; clones are one.
#[derive(Debug, Clone)]
pub struct Connector {
    live: Arc<Live<GuacdTls>>,
    name: ServerName<'static>,
}

/// Why there is no TLS to guacd.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It answers, and with something else.
    #[error("it does not speak TLS: start it with -C and -K, or set tls = false in [guacd]")]
    NotTls,
    /// It left in the middle of the handshake.
    #[error(
        "it closed the connection during the TLS handshake, as one does that was started without \
         -C and -K: set tls = false in [guacd] for that one"
    )]
    Left,
    /// Its certificate is not the one we were told of.
    #[error("{0}")]
    Distrusted(Refused),
    /// Anything else.
    #[error("the TLS handshake failed: {0}")]
    Failed(String),
}

impl Connector {
    pub(super) fn new(live: Arc<Live<GuacdTls>>) -> Result<Self, Fault> {
        let name = server_name(live.recipe())?;
        Ok(Self { live, name })
    }

    /// Reads the file of authorities again, for whoever lets nobody else look
    /// after it; one that cannot be used leaves the one before in force. Blocks.
    pub fn look(&self) {
        self.live.look();
    }

    /// Shakes hands; to be bounded by whoever calls.
    ///
    /// # Errors
    /// Why, for the log and for the page.
    pub async fn connect(&self, socket: TcpStream) -> Result<Stream, ConnectError> {
        let connector = TlsConnector::from(self.live.made());
        let connected = connector.connect(self.name.clone(), socket).await;
        let stream = connected.map_err(|error| why(&error))?;
        Ok(Stream::secured(stream.into()))
    }
}

fn why(error: &io::Error) -> ConnectError {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidMessage(_)) => ConnectError::NotTls,
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner)))) => {
            match inner.downcast_ref::<Refused>() {
                Some(refused) => ConnectError::Distrusted(refused.clone()),
                None => ConnectError::Failed(inner.to_string()),
            }
        }
        Some(error) => ConnectError::Failed(error.to_string()),
        None => match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => ConnectError::Left,
            _ => ConnectError::Failed(error.to_string()),
        },
    }
}

fn server_name(tls: &GuacdTls) -> Result<ServerName<'static>, Fault> {
    let name = tls.server_name.clone();
    // The dot that ends a full name is not part of the one in a certificate.
    let bare = name.strip_suffix('.').unwrap_or(&name).to_owned();
    ServerName::try_from(bare).map_err(|_| {
        let path = Path::new("");
        Fault::new("tls_server_name", path, Problem::ServerName(name))
    })
}

impl Recipe for GuacdTls {
    type Made = ClientConfig;

    fn files(&self) -> Vec<(&'static str, &Path)> {
        let ca_file = self.ca_file.as_deref();
        ca_file.map(|path| ("ca_file", path)).into_iter().collect()
    }

    fn make(&self, texts: &[Text<'_>]) -> Result<Batch<ClientConfig>, Fault> {
        let (mut authorities, mut certificates) = (None, Vec::new());
        if let Some(text) = texts.first() {
            let (roots, facts) = roots(text)?;
            certificates = facts;
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
            let verifier =
                verifier.map_err(|error| text.fault(Problem::Certificate(error.to_string())))?;
            authorities = Some(verifier);
        }
        let verifier = GuacdVerifier {
            pins: self.pins.clone(),
            authorities,
            provider: provider(),
        };
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| {
            let path = self.ca_file.as_deref().unwrap_or(Path::new(""));
            Fault::new("ca_file", path, Problem::Certificate(error.to_string()))
        })?;
        let builder = builder.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
        let mut made = builder.with_no_client_auth();
        // A session taken up again would skip the certificate.
        made.resumption = Resumption::disabled();
        Ok(Batch { made, certificates })
    }
}
