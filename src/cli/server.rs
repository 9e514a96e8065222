//! Which broker is asked over TCP, and with whose key.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::complain;
use crate::config::Secret;

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
}

/// Why it is not asked at all.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerError {
    #[error("--server is a URL without a path, such as http://127.0.0.1:9822, not {url:?}")]
    Url { url: String },
    #[error(
        "--server {url}: https is not spoken yet; ask on the machine itself, or through a tunnel"
    )]
    Https { url: String },
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
        insecure: bool,
    ) -> Result<Self, ServerError> {
        let (host, port) = address(url)?;
        if !insecure && !is_here(&host) {
            let url = url.to_owned();
            return Err(ServerError::Exposed { url });
        }
        let path = token_file.ok_or(ServerError::NoTokenFile)?;
        let key = key(path).map_err(|reason| ServerError::Token {
            path: path.to_owned(),
            reason,
        })?;
        Ok(Self { host, port, key })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "http://[{}]:{}", self.host, self.port),
            false => write!(f, "http://{}:{}", self.host, self.port),
        }
    }
}

/// Host and port of a URL; an IPv6 address without its brackets.
fn address(url: &str) -> Result<(String, u16), ServerError> {
    let refused = || ServerError::Url {
        url: url.to_owned(),
    };
    let trimmed = url.trim();
    if trimmed.starts_with("https://") {
        let url = trimmed.to_owned();
        return Err(ServerError::Https { url });
    }
    let rest = trimmed.strip_prefix("http://").ok_or_else(refused)?;
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
        None if port.is_empty() => 80,
        None => return Err(refused()),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(fits) {
        return Err(refused());
    }
    Ok((host.to_owned(), port))
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
        for (url, host, port) in [
            ("http://127.0.0.1:9822", "127.0.0.1", 9822),
            ("http://localhost/", "localhost", 80),
            (" http://[::1]:9822/ ", "::1", 9822),
            ("http://broker.example:1", "broker.example", 1),
        ] {
            assert_eq!(address(url), Ok((host.to_owned(), port)), "{url}");
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
                url: url.to_owned(),
            };
            assert_eq!(address(url), Err(refused), "{url}");
        }
    }

    #[test]
    fn a_key_travels_in_plain_text_only_where_that_is_written_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "sg_x_y_z\n").unwrap();
        let read = |url, insecure| Server::read(url, Some(file.path()), insecure);
        for url in ["http://127.0.0.2:1", "http://LOCALHOST:1", "http://[::1]:1"] {
            assert_eq!(read(url, false).unwrap().key.expose(), "sg_x_y_z", "{url}");
        }
        for url in ["http://10.0.0.1:1", "http://localhost.example:1"] {
            let error = read(url, false).unwrap_err();
            assert!(matches!(error, ServerError::Exposed { .. }), "{error}");
            assert!(read(url, true).is_ok());
        }
        let error = read("https://127.0.0.1", true).unwrap_err();
        assert!(matches!(error, ServerError::Https { .. }), "{error}");
        let error = Server::read("http://127.0.0.1:1", None, false).unwrap_err();
        assert_eq!(error, ServerError::NoTokenFile);
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["", "\n", "two words", "two\nlines"] {
            fs::write(file.path(), text).unwrap();
            let error = Server::read("http://127.0.0.1:1", Some(file.path()), false);
            let said = error.unwrap_err().to_string();
            assert!(said.contains("it holds no key"), "{said}");
            assert!(!said.contains("two"), "{said}");
        }
    }
}
