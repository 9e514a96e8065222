//! Why a broker cannot start, and what to do about it.

use std::io;
use std::net::SocketAddr;

use crate::api::{HealthError, SocketError};
use crate::config::AuditTarget;
use crate::store::StoreError;
use crate::succession::TakeError;
use crate::tls;

/// Why a broker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}; {}", mend(error))]
    Listen {
        /// The address as configured.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] tls::Fault),
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker that runs cannot be taken over from.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// A listening socket cannot be had twice.
    #[error("cannot start: {0}")]
    Socket(io::Error),
    /// The running broker could not be asked.
    #[error(transparent)]
    Admin(#[from] SocketError),
    /// Health and metrics could not be asked for.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The API's address cannot be listened on.
    #[error(
        "the API cannot listen on {address}: {error}; set listen in [api] to another address or to \"off\""
    )]
    Api {
        /// The address as configured.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The audit trail cannot be written.
    #[error(
        "cannot write the audit trail{}: {error}; set audit in [log]",
        place(target)
    )]
    Audit {
        /// Where it should go.
        target: AuditTarget,
        /// What the system said.
        error: io::Error,
    },
}

fn place(target: &AuditTarget) -> String {
    match target {
        AuditTarget::File(path) => format!(" {}", path.display()),
        AuditTarget::Off | AuditTarget::Stdout => String::new(),
    }
}

fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has it: a guacd, perhaps, that should move to the address in [guacd]"
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege",
        _ => "choose another in [[listen]]",
    }
}
