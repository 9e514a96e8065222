//! How a broker is known over https.

use std::path::PathBuf;

use crate::config::{Fingerprint, GuacdTls};
use crate::tls::{Certificates, ConnectError, Connector, Fault};

/// Who may vouch for a broker; nobody by default.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    ca_file: Option<PathBuf>,
    pins: Vec<Fingerprint>,
}

/// A pin is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pin:?} is no SHA-256: openssl x509 -noout -fingerprint -sha256 prints one")]
pub struct PinError {
    /// What was written.
    pub pin: String,
}

impl Trust {
    /// Authorities in a PEM file, and certificates by their SHA-256.
    ///
    /// # Errors
    /// A pin is none.
    pub fn read(ca_file: Option<PathBuf>, pins: &[String]) -> Result<Self, PinError> {
        let pins = pins.iter().map(|pin| {
            let known = Fingerprint::parse(pin.trim());
            known.ok_or_else(|| PinError { pin: pin.clone() })
        });
        Ok(Self {
            ca_file,
            pins: pins.collect::<Result<_, _>>()?,
        })
    }

    /// Nobody may vouch for a broker.
    pub(super) fn is_empty(&self) -> bool {
        self.ca_file.is_none() && self.pins.is_empty()
    }

    /// What a connection to this name or address needs. Blocks.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) fn connector(&self, host: &str) -> Result<Connector, Fault> {
        // The same kind of trust that a broker has in its guacd.
        let tls = GuacdTls {
            ca_file: self.ca_file.clone(),
            pins: self.pins.clone(),
            server_name: host.to_owned(),
        };
        Certificates::default().connector(&tls)
    }
}

/// Why there is no TLS with a broker, and what to do.
pub(super) fn why(error: &ConnectError) -> String {
    match error {
        ConnectError::NotTls => "it does not speak TLS: ask it by http".to_owned(),
        ConnectError::Left => {
            "it closed the connection during the TLS handshake: ask it by http if it speaks no TLS"
                .to_owned()
        }
        ConnectError::Distrusted(refused) => {
            let name = match refused.is_another_name() {
                true => "; ask it by a name that stands in the certificate",
                false => "",
            };
            format!(
                "{}{name}; it showed {:?}: name {} in pin_sha256 (enroll: --pin) if that is what \
                 openssl x509 -noout -fingerprint -sha256 prints for the broker's own",
                refused.reason(),
                refused.subject(),
                refused.presented(),
            )
        }
        ConnectError::Failed(error) => format!("the TLS handshake failed: {error}"),
    }
}
