//! Certificates made on the spot, and TLS for the scripted peers.

use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use super::Flow;

/// An authority that signs whatever it is asked to.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

const DAY: Duration = Duration::from_secs(86_400);

fn params(name: &str, days: u32) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = (SystemTime::now() - 400 * DAY).into();
    // An hour more, so that whole days are whole for the length of a test.
    params.not_after = (SystemTime::now() + days * DAY + DAY / 24).into();
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name, 3650);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a name or address, good for a year.
    pub(crate) fn sign(&self, name: &str) -> Identity {
        self.sign_for(name, 365)
    }

    /// One that is good for so many days more.
    pub(crate) fn sign_for(&self, name: &str, days: u32) -> Identity {
        self.issue(params(name, days))
    }

    /// One whose time is over.
    pub(crate) fn expired(&self, name: &str) -> Identity {
        let mut params = params(name, 0);
        params.not_after = (SystemTime::now() - DAY).into();
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> Identity {
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// What trusts this authority and shows a certificate, if one is given.
    pub(crate) fn client(&self, shown: Option<&Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let client = match shown {
            None => builder.with_no_client_auth(),
            Some(shown) => builder
                .with_client_auth_cert(shown.chain(), shown.private_key())
                .unwrap(),
        };
        Arc::new(client)
    }
}

impl Identity {
    /// As `openssl req -x509` makes one: signed by itself, and an authority's.
    pub(crate) fn self_signed(name: &str) -> Self {
        let mut params = params(name, 365);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            certificate: params.self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .map(Result::unwrap)
            .collect()
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    /// The number of its elliptic curve that nobody else may know.
    pub(crate) fn private_bytes(&self) -> Vec<u8> {
        // Where PKCS #8 has it for the curve P-256.
        const AT: std::ops::Range<usize> = 36..68;
        self.private_key().secret_der()[AT].to_vec()
    }

    /// Its SHA-256, as openssl prints it.
    pub(crate) fn fingerprint(&self) -> String {
        let mut text = String::new();
        for byte in digest(&SHA256, &self.chain()[0]).as_ref() {
            let colon = if text.is_empty() { "" } else { ":" };
            write!(text, "{colon}{byte:02X}").unwrap();
        }
        text
    }

    /// What shows it, and asks for certificates of an authority, if one is given.
    pub(crate) fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let server = builder.with_single_cert(self.chain(), self.private_key());
        Arc::new(server.unwrap())
    }

    /// Writes both files into a folder, the key for its owner only.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let certificate = folder.join(format!("{name}.crt"));
        let key = folder.join(format!("{name}.key"));
        fs::write(&key, &self.key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&certificate, &self.certificate).unwrap();
        (certificate, key)
    }
}

pub(super) fn serve(under: TcpStream, server: &Arc<ServerConfig>) -> Box<dyn Flow> {
    let connection = ServerConnection::new(Arc::clone(server)).unwrap();
    Box::new(StreamOwned::new(connection, under))
}

pub(super) fn dial(under: TcpStream, client: &Arc<ClientConfig>, name: &str) -> Box<dyn Flow> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    Box::new(StreamOwned::new(connection, under))
}
