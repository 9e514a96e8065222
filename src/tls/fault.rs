//! Why files cannot be used for TLS, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A file that cannot be used, by the key that names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}{}: {problem}", place(path))]
pub struct Fault {
    /// The key of the configuration.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub(super) problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    #[error("larger than {limit} bytes: not a file of certificates")]
    TooLarge { limit: usize },
    #[error("holds no {wanted} in PEM form{}", hint(*found))]
    Nothing { wanted: Wanted, found: Found },
    #[error("damaged PEM: {0}")]
    Damaged(String),
    #[error("the certificate in it cannot be used: {0}")]
    Certificate(String),
    #[error(
        "the key does not belong to the certificate in tls_cert_file: name the pair, and mind the order of a chain, the own certificate first"
    )]
    OtherKey,
    #[error("the key cannot be used: {0}")]
    Key(String),
    #[error("\"{0}\" is no name a certificate could carry: set tls_server_name in [guacd]")]
    ServerName(String),
}

/// What a file should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Certificate,
    Key,
}

/// What it holds in its place, where that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing we know.
    Unknown,
    /// The bare binary form.
    Der,
    /// A key that asks for a passphrase.
    LockedKey,
    /// A key where a certificate should be.
    Key,
    /// A certificate where a key should be.
    Certificate,
}

impl Fault {
    pub(super) fn new(key: &'static str, path: &Path, problem: Problem) -> Self {
        Self {
            key,
            path: path.to_owned(),
            problem,
        }
    }
}

/// A name has none.
fn place(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => String::new(),
        false => format!(" {}", path.display()),
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
        })
    }
}

fn hint(found: Found) -> &'static str {
    match found {
        Found::Unknown => "",
        Found::Der => ", it is DER: convert it with openssl x509 or openssl pkey, -inform der",
        Found::LockedKey => {
            ", only one with a passphrase: take it off with openssl pkey -in FILE -out NEW"
        }
        Found::Key => ", only a private key: exchange the two files",
        Found::Certificate => ", only a certificate: exchange the two files",
    }
}
