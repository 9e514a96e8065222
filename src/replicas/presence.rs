//! What a replica says of itself in the store.

use serde::{Deserialize, Serialize};

use super::{Neighbour, Reached};
use crate::config::{Fingerprint, HostPort};

/// As it is stored. What a later release adds is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Presence {
    /// Host name or IP address of its Guacamole port; absent: nobody reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default)]
    port: u16,
    /// The SHA-256 of the certificate shown there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
}

impl Presence {
    pub(super) fn of(reached: &Reached) -> Self {
        let address = reached.address.as_ref();
        Self {
            host: address.map(|address| address.host.clone()),
            port: address.map_or(0, |address| address.port),
            certificate: (reached.certificate)().map(|it| it.to_string()),
        }
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// How it is reached; `None` where it is not, or not in a way we know of.
    pub(super) fn neighbour(&self) -> Option<Neighbour> {
        let host = self.host.clone().filter(|host| !host.is_empty())?;
        // One that says it has a certificate is never dialled without.
        let certificate = match &self.certificate {
            Some(text) => Some(Fingerprint::parse(text)?),
            None => None,
        };
        let address = HostPort {
            host,
            port: self.port,
        };
        (self.port != 0).then_some(Neighbour {
            address,
            certificate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(address: Option<&str>, certificate: Option<Fingerprint>) -> Reached {
        Reached {
            address: address.map(|host| HostPort {
                host: host.to_owned(),
                port: 4822,
            }),
            certificate: Box::new(move || certificate),
        }
    }

    #[test]
    fn what_is_said_is_what_others_read() {
        let seal = Fingerprint([7; 32]);
        for certificate in [None, Some(seal)] {
            let said = Presence::of(&reached(Some("fd00::7"), certificate)).to_text();
            let read = Presence::read(&said).unwrap().neighbour().unwrap();
            assert_eq!(read.address.to_string(), "[fd00::7]:4822");
            assert_eq!(read.certificate, certificate);
        }
        let said = Presence::of(&reached(None, None)).to_text();
        assert_eq!(Presence::read(&said).unwrap().neighbour(), None);
    }

    #[test]
    fn what_cannot_be_understood_is_not_dialled() {
        for odd in [
            r#"{}"#,
            r#"{"host":"","port":4822}"#,
            r#"{"host":"a","port":0}"#,
            r#"{"host":"a","port":4822,"certificate":"?"}"#,
        ] {
            assert_eq!(Presence::read(odd).unwrap().neighbour(), None, "{odd}");
        }
        assert_eq!(Presence::read("nonsense"), None);
        let later = r#"{"host":"a","port":1,"zone":"b"}"#;
        assert!(Presence::read(later).unwrap().neighbour().is_some());
    }
}
