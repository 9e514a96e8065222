//! What went wrong between us and the database, and what to do about it. No
//! text of it holds the password: neither we nor the database repeat it.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;
use crate::tls::ConnectError;

/// Which database it is about.
#[derive(Debug, Clone)]
pub(super) struct Whereabouts {
    pub(super) address: String,
    pub(super) database: String,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Cause {
    Lookup(io::Error),
    NoAddress,
    Connect(io::Error),
    Slow,
    ReadOnly,
    Said(Error),
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

/// What is known of a statement that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It was taken back.
    None,
    /// It was taken back, and this connection leads to a database that takes no
    /// writes, as an old primary does.
    WrongDatabase,
    /// Nobody knows; another connection has to be asked.
    Unknown,
}

impl Cause {
    pub(super) fn at(self, whereabouts: Whereabouts) -> StoreError {
        let (reason, help) = match self {
            Self::Lookup(error) => (error.to_string(), "correct address in [store]"),
            Self::NoAddress => (
                "the name has no address".to_owned(),
                "correct address in [store]",
            ),
            Self::Connect(error) => (
                error.to_string(),
                "see that it runs and listens there, or correct address in [store]",
            ),
            Self::Slow => (
                "no connection came about in time".to_owned(),
                "see that it answers, or raise connect_timeout in [store]",
            ),
            Self::ReadOnly => (
                "it takes no writes".to_owned(),
                "let address in [store] lead to the primary",
            ),
            Self::Said(error) => (describe(&error), help(&error)),
        };
        whereabouts.unusable(reason, help)
    }
}

impl Whereabouts {
    pub(super) fn unusable(self, reason: String, help: &'static str) -> StoreError {
        StoreError::Database {
            address: self.address,
            database: self.database,
            reason,
            help,
        }
    }

    pub(super) fn said(self, error: &Error) -> StoreError {
        self.unusable(describe(error), help(error))
    }

    pub(super) fn silent(self) -> StoreError {
        let reason = "no answer came in time".to_owned();
        self.unusable(
            reason,
            "see whether it is overloaded or out of connections, or raise query_timeout in [store]",
        )
    }
}

/// What an error of a statement that was sent says of it.
pub(super) fn effect(error: &Error) -> Effect {
    match error.code() {
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => Effect::WrongDatabase,
        // The server ends the connection, or is no more itself: the commit may
        // have been first.
        Some(code) => match code.code().get(..2) {
            Some("08" | "57" | "58" | "XX") => Effect::Unknown,
            _ => Effect::None,
        },
        None => Effect::Unknown,
    }
}

/// The error in one line.
fn describe(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("it says \"{}\" ({})", said.message(), said.code().code());
    }
    if let Some(error) = of_tls(error) {
        return match error {
            ConnectError::NotTls => "it does not speak TLS".to_owned(),
            ConnectError::Left => "it closed the connection during the TLS handshake".to_owned(),
            ConnectError::Distrusted(refused) => format!(
                "{}; it showed \"{}\", {}",
                refused.reason(),
                refused.subject(),
                refused.presented()
            ),
            ConnectError::Failed(reason) => format!("the TLS handshake failed: {reason}"),
        };
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn of_tls(error: &Error) -> Option<&ConnectError> {
    error.source()?.downcast_ref()
}

fn help(error: &Error) -> &'static str {
    if let Some(ConnectError::Distrusted(_)) = of_tls(error) {
        return "set pin_sha256 in [store] to that sum if it is the database's own, or ca_file and \
                tls_server_name";
    }
    match error.code() {
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            "see that pg_hba.conf lets the role in from here, with TLS or without as tls in [store] \
             says, and that user and password_file are right"
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            "create the database for the role, or correct database in [store]"
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            "let the role own the database, or a schema named sessionguard in it"
        }
        Some(&SqlState::TOO_MANY_CONNECTIONS) => {
            "raise max_connections there, lower pool_size in [store], or put a pooler in between"
        }
        Some(&SqlState::DISK_FULL) => "make room on its disk",
        Some(_) => "see the database's log",
        None if of_tls(error).is_some() || error.to_string().contains("TLS") => {
            "turn TLS on there (ssl = on), or set tls in [store] as it is"
        }
        None => "see that it runs, and the database's log",
    }
}
