//! The settings of TLS: what a listener or the API shows, how guacd and the
//! database are known.
//!
//! Reads the keys of `[[listen]]`, `[api]`, `[guacd]` and `[store]` that are about it and judges
//! them together, once all files are read: they may stand in several. No
//! certificate is opened here; that is the work of the room `tls`.

use std::fmt;
use std::path::PathBuf;

use super::draft::Gathered;
use super::names::name;
use super::network::host_address;
use super::node::{At, Located, Node};
use super::problem::Problem;
use super::reader::Reader;
use super::report::Report;
use super::shape::Shape;
use super::value_error::ValueError;
use super::values::text;

/// What a listener shows and asks for: files in PEM form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerTls {
    /// The certificate, then those that lead to its authority.
    pub cert_file: PathBuf,
    /// Its private key, without a passphrase.
    pub key_file: PathBuf,
    /// The authorities one of which must have signed a client's certificate;
    /// `None` where clients need none.
    pub client_ca_file: Option<PathBuf>,
}

/// How guacd, or the database, proves that it is: by a certificate that one of the pins
/// names, or that the authorities vouch for under this name.
// INVARIANT: at least one pin, or authorities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GuacdTls {
    /// Authorities that may have signed it, a file in PEM form.
    pub ca_file: Option<PathBuf>,
    /// Certificates that are taken whoever signed them, whatever their names.
    pub pins: Vec<Fingerprint>,
    /// The name in it; also what we ask for. Name or IP address.
    pub server_name: String,
}

/// The SHA-256 of a whole certificate in DER form, as `openssl x509
/// -fingerprint -sha256` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Reads 64 hexadecimal digits of either case, with or without a colon
    /// after each pair.
    pub fn parse(text: &str) -> Option<Self> {
        let pairs: Vec<&str> = match text.contains(':') {
            true => text.split(':').collect(),
            false => (0..text.len())
                .step_by(2)
                .map(|at| text.get(at..at + 2))
                .collect::<Option<_>>()?,
        };
        let byte = |pair: &str| {
            let digits = pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
            digits.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
        };
        let bytes: Vec<u8> = pairs.into_iter().map(byte).collect::<Option<_>>()?;
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, byte) in self.0.iter().enumerate() {
            let colon = if nth == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The keys of a listener, as they are found.
#[derive(Debug, Default)]
pub(super) struct ServerDraft {
    cert_file: Option<Located<PathBuf>>,
    key_file: Option<Located<PathBuf>>,
    client_ca_file: Option<Located<PathBuf>>,
}

/// Those of guacd, or of the database.
#[derive(Debug, Default)]
pub(super) struct PeerDraft {
    on: Option<Located<bool>>,
    ca_file: Option<Located<PathBuf>>,
    pins: Option<Located<Vec<Fingerprint>>>,
    server_name: Option<Located<String>>,
}

pub(super) fn read_server(table: &mut Reader<'_>, draft: &mut ServerDraft) {
    later(&mut draft.cert_file, file(table, "tls_cert_file"));
    later(&mut draft.key_file, file(table, "tls_key_file"));
    later(&mut draft.client_ca_file, file(table, "tls_client_ca_file"));
}

pub(super) fn read_peer(table: &mut Reader<'_>, draft: &mut PeerDraft) {
    later(&mut draft.on, table.switch("tls"));
    later(&mut draft.ca_file, file(table, "ca_file"));
    let pins = table.list("pin_sha256", fingerprint);
    let pins = pins.map(|list| Located {
        value: list.value.into_iter().map(|pin| pin.value).collect(),
        at: list.at,
    });
    later(&mut draft.pins, pins);
    let server_name = table.read("tls_server_name", host_address);
    later(&mut draft.server_name, server_name);
}

fn later<T>(slot: &mut Option<T>, found: Option<T>) {
    if found.is_some() {
        *slot = found;
    }
}

fn file(table: &mut Reader<'_>, key: &'static str) -> Option<Located<PathBuf>> {
    table.file(key, |node| name(node).map(PathBuf::from))
}

fn fingerprint(node: &Node) -> Result<Fingerprint, ValueError> {
    let text = text(node)?;
    Fingerprint::parse(text).ok_or_else(|| ValueError::NotAFingerprint {
        text: text.to_owned(),
    })
}

/// Judges what was found and puts it where it belongs.
pub(super) fn conclude(gathered: &mut Gathered, report: &mut Report) {
    for draft in &mut gathered.listen {
        draft.listen.tls = server(std::mem::take(&mut draft.tls), report);
    }
    let draft = std::mem::take(&mut gathered.api_tls);
    gathered.config.api.tls = server(draft, report);
    let draft = std::mem::take(&mut gathered.guacd_tls);
    let is_named = draft.server_name.is_some();
    let members = &mut gathered.config.guacd.members;
    let host = members.first().map_or("", |first| &first.address.host);
    let tls = trust(draft, Shape::Guacd, host, report);
    for guacd in members {
        // Each is known by its own name, unless one is given for all.
        guacd.tls = tls.clone().map(|tls| match is_named {
            true => tls,
            false => GuacdTls {
                server_name: guacd.address.host.clone(),
                ..tls
            },
        });
    }
    let draft = std::mem::take(&mut gathered.store_tls);
    let postgres = &mut gathered.config.store.postgres;
    postgres.tls = trust(draft, Shape::Store, &postgres.address.host, report);
}

fn server(draft: ServerDraft, report: &mut Report) -> Option<ServerTls> {
    let ServerDraft {
        cert_file,
        key_file,
        client_ca_file,
    } = draft;
    let mut lacks = |at: At, key, lacking| {
        report.fault(at, Problem::HalfTls { key, lacking });
        None
    };
    match (cert_file, key_file, client_ca_file) {
        (None, None, None) => None,
        (Some(cert), Some(key), client_ca) => Some(ServerTls {
            cert_file: cert.value,
            key_file: key.value,
            client_ca_file: client_ca.map(|file| file.value),
        }),
        (Some(cert), None, _) => lacks(cert.at, "tls_cert_file", "tls_key_file"),
        (None, Some(key), _) => lacks(key.at, "tls_key_file", "tls_cert_file"),
        (None, None, Some(ca)) => lacks(ca.at, "tls_client_ca_file", "tls_cert_file"),
    }
}

fn trust(draft: PeerDraft, of: Shape, host: &str, report: &mut Report) -> Option<GuacdTls> {
    let PeerDraft {
        on,
        ca_file,
        pins,
        server_name,
    } = draft;
    match on {
        // Said in so many words: what is prepared beside it waits.
        Some(Located { value: false, .. }) => None,
        None => {
            // Whoever names a certificate believes that it is looked at.
            let named = [
                ("ca_file", ca_file.map(|found| found.at)),
                ("pin_sha256", pins.map(|found| found.at)),
                ("tls_server_name", server_name.map(|found| found.at)),
            ];
            for (key, at) in named {
                if let Some(at) = at {
                    report.fault(at, Problem::TlsNotOn { key, of });
                }
            }
            None
        }
        Some(Located { value: true, at }) => {
            let pins = pins.map(|found| found.value).unwrap_or_default();
            if pins.is_empty() && ca_file.is_none() {
                report.fault(at, Problem::NoTrust { of });
            }
            Some(GuacdTls {
                ca_file: ca_file.map(|found| found.value),
                pins,
                server_name: server_name.map_or_else(|| host.to_owned(), |found| found.value),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{load_text, settings::Config};

    const DIGITS: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

    fn load(text: &str) -> Result<Config, String> {
        let loaded = load_text("etc/main.toml", text);
        loaded
            .map(|loaded| loaded.config)
            .map_err(|faults| faults.to_string())
    }

    #[test]
    fn fingerprints_are_read_as_openssl_writes_them_and_without_colons() {
        let bare = Fingerprint::parse(DIGITS).unwrap();
        let shown = bare.to_string();
        assert!(shown.starts_with("00:11:22:33") && shown.ends_with("EE:FF"));
        assert_eq!(shown.len(), 95);
        assert_eq!(Fingerprint::parse(&shown), Some(bare));
        for bad in [
            "",
            "00",
            &DIGITS[2..],
            &format!("{DIGITS}00"),
            &DIGITS.replace("00", "+0"),
            &DIGITS.replace("00", "ü"),
            &shown.replace(':', "::"),
            "sha256 Fingerprint=00:11",
        ] {
            assert_eq!(Fingerprint::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn paths_start_where_the_main_file_is() {
        let config = load(
            "[[listen]]\naddress = \"127.0.0.1:0\"\ntls_cert_file = \"tls/a.crt\"\n\
             tls_key_file = \"/abs/a.key\"\n",
        );
        let config = config.unwrap();
        let tls = config.listen[0].tls.as_ref().unwrap();
        assert_eq!(tls.cert_file, Path::new("etc/tls/a.crt"));
        assert_eq!(tls.key_file, Path::new("/abs/a.key"));
        assert_eq!(tls.client_ca_file, None);
    }

    #[test]
    fn half_of_a_listeners_certificate_is_refused() {
        for (lines, lacking) in [
            ("tls_cert_file = \"a\"", "tls_key_file"),
            ("tls_key_file = \"a\"", "tls_cert_file"),
            ("tls_client_ca_file = \"a\"", "tls_cert_file"),
        ] {
            let text = format!("[[listen]]\naddress = \"127.0.0.1:0\"\n{lines}\n");
            let said = load(&text).unwrap_err();
            assert!(said.contains(&format!("without `{lacking}`")), "{said}");
        }
    }

    #[test]
    fn guacd_is_known_by_a_pin_or_an_authority() {
        let said = load("[guacd]\ntls = true\n").unwrap_err();
        assert!(
            said.contains("pin_sha256") && said.contains("ca_file"),
            "{said}"
        );
        let config = load(&format!(
            "[guacd]\naddress = \"guacd:4822\"\ntls = true\npin_sha256 = [\"{DIGITS}\"]\n"
        ));
        let tls = config.unwrap().guacd.members[0].tls.clone().unwrap();
        assert_eq!(
            (tls.pins.len(), tls.server_name.as_str()),
            (1, "guacd"),
            "the address is the name"
        );
        let config = load(
            "[guacd]\ntls = true\nca_file = \"ca.pem\"\ntls_server_name = \"guacd.example.com\"\n",
        );
        let tls = config.unwrap().guacd.members[0].tls.clone().unwrap();
        assert_eq!(tls.ca_file.as_deref(), Some(Path::new("etc/ca.pem")));
        assert_eq!(tls.server_name, "guacd.example.com");
    }

    #[test]
    fn a_certificate_is_not_named_in_vain() {
        let said = load("[guacd]\nca_file = \"ca.pem\"\n").unwrap_err();
        assert!(said.contains("tls = true"), "{said}");
        let off = load("[guacd]\ntls = false\nca_file = \"ca.pem\"\n").unwrap();
        assert_eq!(off.guacd.members[0].tls, None);
        let said = load("[guacd]\ntls = true\npin_sha256 = [\"AB\"]\n").unwrap_err();
        assert!(
            said.contains("openssl x509 -noout -fingerprint -sha256"),
            "{said}"
        );
    }
}
