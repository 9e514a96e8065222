//! Looks at the files a configuration names before they are used.

use std::os::unix::fs::PermissionsExt;

use tracing::warn;

use super::certificates::{Certificates, Left, now, of_guacd};
use crate::clock::rfc3339;
use crate::config::{Config, ServerTls};

/// What is to be said of a configuration's certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// What cannot be used; the broker does not start with it.
    pub faults: Vec<String>,
    /// What can, and will not do for long.
    pub warnings: Vec<String>,
}

/// Reads every certificate and key a configuration names. Blocks.
pub fn inspect(config: &Config) -> Inspection {
    let certificates = Certificates::default();
    let mut said = Inspection::default();
    let listeners = config.listen.iter().filter_map(|listen| {
        let place = format!("[[listen]] {}:", listen.address);
        listen.tls.as_ref().map(|tls| (place, tls))
    });
    let api = config.api.tls.iter().map(|tls| ("[api]".to_owned(), tls));
    for (place, tls) in listeners.chain(api) {
        if let Err(fault) = certificates.acceptor(tls) {
            said.faults.push(format!("{place} {fault}"));
        }
        said.warnings.extend(open_key(tls));
    }
    let mut of_guacd = of_guacd(config).map(|tls| certificates.connector(tls));
    // One file is named for all of them.
    if let Some(fault) = of_guacd.find_map(Result::err) {
        said.faults.push(format!("[guacd] {fault}"));
    }
    let now = now();
    for standing in certificates.standings() {
        let what = match standing.left(now) {
            Left::Plenty => continue,
            Left::Days(days) => {
                format!("expires in {days} days, at {}", rfc3339(standing.not_after))
            }
            Left::Expired => format!("has expired at {}", rfc3339(standing.not_after)),
            Left::NotYet => format!("is not valid before {}", rfc3339(standing.not_before)),
        };
        let (key, file, subject) = (standing.key, standing.file, standing.subject);
        let warning = format!("{key} {file}: the certificate of {subject} {what}");
        said.warnings.push(warning);
    }
    said
}

/// Says in the log that a key is open to everybody.
pub(super) fn warn_of_key(tls: &ServerTls) {
    if let Some(reason) = open_key(tls) {
        warn!(reason, "Private key is open to everybody");
    }
}

fn open_key(tls: &ServerTls) -> Option<String> {
    let about = std::fs::metadata(&tls.key_file).ok()?;
    let mode = about.permissions().mode() & 0o777;
    let path = tls.key_file.display();
    (mode & 0o007 != 0).then(|| {
        format!("tls_key_file {path}: everybody may read the private key (mode {mode:04o}): chmod o= {path}")
    })
}
