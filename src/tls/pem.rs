//! Reads certificates and keys from files in PEM form.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::fault::{Fault, Found, Problem, Wanted};

/// A bundle of every public authority is a quarter of it.
const SIZE_LIMIT: usize = 1024 * 1024;

/// A file, by the key that names it. Read once, so that what is compared is
/// what is used.
pub(super) struct Text<'a> {
    pub(super) key: &'static str,
    pub(super) path: &'a Path,
    pub(super) bytes: Vec<u8>,
}

impl<'a> Text<'a> {
    /// Blocks.
    pub(super) fn read(key: &'static str, path: &'a Path) -> Result<Self, Fault> {
        let fault = |problem| Fault::new(key, path, problem);
        let unreadable = |error: std::io::Error| fault(Problem::Unreadable(error.kind()));
        // Asked before opening: to open a pipe is to wait for its other end.
        let about = std::fs::metadata(path).map_err(unreadable)?;
        if !about.is_file() {
            let kind = match about.is_dir() {
                true => std::io::ErrorKind::IsADirectory,
                false => std::io::ErrorKind::InvalidInput,
            };
            return Err(fault(Problem::Unreadable(kind)));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        let most = SIZE_LIMIT as u64 + 1;
        let read = file.take(most).read_to_end(&mut bytes);
        if read.map_err(unreadable)? > SIZE_LIMIT {
            return Err(fault(Problem::TooLarge { limit: SIZE_LIMIT }));
        }
        Ok(Self { key, path, bytes })
    }

    /// All certificates in it, at least one.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Fault> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        let read = read.map_err(|error| self.fault(Problem::Damaged(damage(&error))))?;
        if read.is_empty() {
            let found = match self.key().is_ok() {
                true => Found::Key,
                false => self.found(),
            };
            return Err(self.nothing(Wanted::Certificate, found));
        }
        Ok(read)
    }

    /// The first private key in it.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, Fault> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| match error {
            pem::Error::NoItemsFound => {
                let mut certificates = CertificateDer::pem_slice_iter(&self.bytes);
                let found = match self.found() {
                    Found::Unknown if certificates.next().is_some() => Found::Certificate,
                    found => found,
                };
                self.nothing(Wanted::Key, found)
            }
            error => self.fault(Problem::Damaged(damage(&error))),
        })
    }

    pub(super) fn fault(&self, problem: Problem) -> Fault {
        Fault::new(self.key, self.path, problem)
    }

    fn nothing(&self, wanted: Wanted, found: Found) -> Fault {
        self.fault(Problem::Nothing { wanted, found })
    }

    fn found(&self) -> Found {
        const LOCKED: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];
        let holds = |what: &&[u8]| self.bytes.windows(what.len()).any(|part| part == *what);
        match self.bytes.as_slice() {
            // A sequence of some length: how both begin.
            [0x30, 0x81 | 0x82, ..] => Found::Der,
            _ if LOCKED.iter().any(holds) => Found::LockedKey,
            _ => Found::Unknown,
        }
    }
}

/// In our own words: what the parser says quotes the file, which may be a key.
fn damage(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "an END line is missing".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed".to_owned(),
        pem::Error::Base64Decode(_) => "what stands between BEGIN and END is no Base64".to_owned(),
        _ => "it cannot be parsed".to_owned(),
    }
}
