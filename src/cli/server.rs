//! Which broker is asked over TCP, and with whose key.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::TcpStream;

use super::complain;
use super::table::visible;
use crate::config::{Fingerprint, GuacdTls, Secret, shown_url};
use crate::tls::{Certificates, ConnectError, Connector, Stream};

/// Longest file that is read for a key, in bytes.
const LONGEST: u64 = 4096;

/// The variables that say it for every command.
pub(super) const SERVER: &str = "SESSIONGUARD_SERVER";
pub(super) const TOKEN_FILE: &str = "SESSIONGUARD_TOKEN_FILE";

/// A broker's API, and the key to ask it with.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) key: Secret,
    /// How it proves who it is; `None` for plain text.
    tls: Option<Connector>,
}

/// How a broker is known over https.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Trust<'a> {
    pub(super) ca_file: Option<&'a Path>,
    pub(super) pins: &'a [String],
}

/// Why it is not asked at all.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerError {
    #[error("--server is a URL without a path, such as http://127.0.0.1:9822, not {url:?}")]
    Url { url: String },
    #[error(
        "--server {url}: name who may vouch for the broker with --ca-file, or its certificate's \
         SHA-256 with --pin"
    )]
    NoTrust { url: String },
    #[error("--ca-file and --pin are for https")]
    NoTls,
    #[error("--pin {pin:?} is no SHA-256: openssl x509 -noout -fingerprint -sha256 prints one")]
    Pin { pin: String },
    #[error("{0}")]
    Tls(String),
    #[error(
        "--server {url}: the key would travel in plain text; ask on the machine itself, or say \
         --insecure"
    )]
    Exposed { url: String },
    #[error("--server needs a key: name its file with --token-file, or in {TOKEN_FILE}")]
    NoTokenFile,
    #[error("the key cannot be read from {}: {reason}", path.display())]
    Token { path: PathBuf, reason: String },
}

impl Server {
    /// # Errors
    /// The URL is none, or leads over plain text to where it may not; there is
    /// no key.
    pub(super) fn read(
        url: &str,
        token_file: Option<&Path>,
        trust: Trust<'_>,
        insecure: bool,
    ) -> Result<Self, ServerError> {
        let (secure, host, port) = address(url)?;
        if !secure && !insecure && !is_here(&host) {
            let url = shown_url(url);
            return Err(ServerError::Exposed { url });
        }
        let tls = trust.connector(secure, url, &host)?;
        let path = token_file.ok_or(ServerError::NoTokenFile)?;
        let key = key(path).map_err(|reason| ServerError::Token {
            path: path.to_owned(),
            reason,
        })?;
        Ok(Self {
            host,
            port,
            key,
            tls,
        })
    }

    /// A connection to it.
    ///
    /// # Errors
    /// It cannot be reached, or is somebody else.
    pub(super) async fn connect(&self) -> Result<Stream, String> {
        let address = (self.host.as_str(), self.port);
        let socket = TcpStream::connect(address).await;
        let socket = socket.map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else {
            return Ok(Stream::from(socket));
        };
        let connected = tls.connect(socket).await;
        connected.map_err(|error| match error {
            ConnectError::NotTls => "it does not speak TLS: write http".to_owned(),
            ConnectError::Left => "it closed the connection during the TLS handshake".to_owned(),
            ConnectError::Distrusted(refused) => format!(
                "its certificate is not the one that --ca-file and --pin allow: it showed \"{}\", \
                 which --pin {} accepts; say so if openssl x509 -noout -fingerprint -sha256 prints \
                 that for the broker's own",
                visible(&refused.subject(), false),
                refused.presented(),
            ),
            ConnectError::Failed(error) => error,
        })
    }
}

impl Trust<'_> {
    fn connector(
        self,
        secure: bool,
        url: &str,
        host: &str,
    ) -> Result<Option<Connector>, ServerError> {
        let nothing = self.ca_file.is_none() && self.pins.is_empty();
        match (secure, nothing) {
            (false, true) => return Ok(None),
            (false, false) => return Err(ServerError::NoTls),
            (true, true) => {
                let url = shown_url(url);
                return Err(ServerError::NoTrust { url });
            }
            (true, false) => {}
        }
        let pins = self.pins.iter().map(|pin| {
            let known = Fingerprint::parse(pin.trim());
            known.ok_or_else(|| ServerError::Pin { pin: pin.clone() })
        });
        let tls = GuacdTls {
            ca_file: self.ca_file.map(Path::to_owned),
            pins: pins.collect::<Result<_, _>>()?,
            server_name: host.to_owned(),
        };
        let connector = Certificates::default().connector(&tls);
        let connector = connector.map_err(|fault| ServerError::Tls(fault.to_string()))?;
        Ok(Some(connector))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// Whether a URL asks for TLS, its host and port; an IPv6 address without its
/// brackets.
fn address(url: &str) -> Result<(bool, String, u16), ServerError> {
    let refused = || ServerError::Url {
        url: shown_url(url),
    };
    let trimmed = url.trim();
    let (scheme, rest) = trimmed.split_once("://").ok_or_else(refused)?;
    let (secure, usual) = match scheme {
        "http" => (false, 80),
        "https" => (true, 443),
        _ => return Err(refused()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(refused)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| refused())?;
            (host, port)
        }
        None => {
            let at = rest.find(':').unwrap_or(rest.len());
            rest.split_at(at)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| refused())?,
        None if port.is_empty() => usual,
        None => return Err(refused()),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(fits) {
        return Err(refused());
    }
    Ok((secure, host.to_owned(), port))
}

/// Whether it is this machine: nobody listens in between.
fn is_here(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

fn key(path: &Path) -> Result<Secret, String> {
    let file = fs::metadata(path).map_err(|error| error.to_string())?;
    if file.len() > LONGEST {
        return Err(format!("it is larger than {LONGEST} bytes"));
    }
    if file.permissions().mode() & 0o004 != 0 {
        complain(format_args!(
            "warning: everybody on this machine may read the key in {}: chmod 0600 it",
            path.display()
        ));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let key = text.trim();
    let plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    match plain {
        true => Ok(Secret::new(key.to_owned())),
        false => Err("it holds no key, or more than one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_host_and_port() {
        for (url, secure, host, port) in [
            ("http://127.0.0.1:9822", false, "127.0.0.1", 9822),
            ("http://localhost/", false, "localhost", 80),
            (" http://[::1]:9822/ ", false, "::1", 9822),
            ("https://broker.example", true, "broker.example", 443),
            ("https://broker.example:1", true, "broker.example", 1),
        ] {
            assert_eq!(address(url), Ok((secure, host.to_owned(), port)), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:9822",
            "ftp://x",
            "http://",
            "http://:80",
            "http://x:y",
            "http://x:99999",
            "http://x/api",
            "http://[x]:1",
            "http://[::1]9822",
            "http://u:p@x",
        ] {
            let refused = ServerError::Url {
                url: shown_url(url),
            };
            assert_eq!(address(url), Err(refused), "{url}");
        }
    }

    #[test]
    fn a_key_travels_in_plain_text_only_where_that_is_written_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "sg_x_y_z\n").unwrap();
        let read = |url, insecure| Server::read(url, Some(file.path()), Trust::default(), insecure);
        for url in ["http://127.0.0.2:1", "http://LOCALHOST:1", "http://[::1]:1"] {
            assert_eq!(read(url, false).unwrap().key.expose(), "sg_x_y_z", "{url}");
        }
        for url in ["http://10.0.0.1:1", "http://localhost.example:1"] {
            let error = read(url, false).unwrap_err();
            assert!(matches!(error, ServerError::Exposed { .. }), "{error}");
            assert!(read(url, true).is_ok());
        }
        let error = Server::read("http://127.0.0.1:1", None, Trust::default(), false);
        assert_eq!(error.unwrap_err(), ServerError::NoTokenFile);
    }

    #[test]
    fn who_is_asked_over_https_is_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "sg_x_y_z\n").unwrap();
        let read = |url, pins: &[&str], ca_file| {
            let pins: Vec<_> = pins.iter().map(|pin| (*pin).to_owned()).collect();
            let trust = Trust {
                ca_file,
                pins: &pins,
            };
            Server::read(url, Some(file.path()), trust, false)
        };
        let pin = "00".repeat(32);
        let server = read("https://10.0.0.1:1", &[&pin], None).unwrap();
        assert_eq!(server.to_string(), "https://10.0.0.1:1");
        for (url, pins, ca_file, reason) in [
            ("https://10.0.0.1:1", &[][..], None, "--ca-file"),
            ("https://10.0.0.1:1", &["00"], None, "is no SHA-256"),
            (
                "https://10.0.0.1:1",
                &[],
                Some(Path::new("/nowhere")),
                "/nowhere",
            ),
            ("http://127.0.0.1:1", &[pin.as_str()], None, "for https"),
        ] {
            let error = read(url, pins, ca_file).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["", "\n", "two words", "two\nlines"] {
            fs::write(file.path(), text).unwrap();
            let url = "http://127.0.0.1:1";
            let error = Server::read(url, Some(file.path()), Trust::default(), false);
            let said = error.unwrap_err().to_string();
            assert!(said.contains("it holds no key"), "{said}");
            assert!(!said.contains("two"), "{said}");
        }
    }
}
