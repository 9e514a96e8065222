//! What may be written for a key, and what is known of a key.
//!
//! The words in which [`super::keys`] is written.

use std::time::Duration;

use super::shape::Shape;

/// One key of one table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// As TOML writes it; none where no value says what leaving it out does.
    pub(super) default: Option<&'static str>,
    /// What it is for, in one sentence.
    pub(super) about: &'static str,
}

/// What may be written for a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// true or false.
    Switch,
    /// A whole number, from and to.
    Number(i64, i64),
    /// A bare whole number of seconds, from and to.
    Seconds(u64, u64),
    /// A number with a unit, from and to.
    Time(Duration, Duration),
    /// One of some words.
    Word(fn() -> Vec<&'static str>),
    /// A list of such words.
    Words(fn() -> Vec<&'static str>),
    Id,
    Ids,
    /// Text that is neither blank nor padded.
    Name,
    /// The path of a file; relative ones start at the main file's folder.
    File,
    /// Text that may be empty or padded.
    FreeText,
    /// One of some words, or a path, which holds a `/`.
    Place(&'static [&'static str]),
    /// The path of a file that holds a secret; never the secret itself.
    SecretFile,
    /// Text or a number from 0.
    ConnectionId,
    /// A RemoteApp's alias.
    Alias,
    /// A host name or IP address.
    Host,
    Hosts,
    /// A host name or IP address with a port.
    HostPort,
    /// The same, or `off`.
    HostPortOrOff,
    /// One of those or a list of them; a variable can hold one.
    OneOrMoreHostPorts,
    /// A host name or IP address, with a port or without.
    Reached,
    /// An IP address with a port.
    Listener,
    /// A list of SHA-256 sums of certificates.
    Fingerprints,
    /// The same, or `off`.
    ListenerOrOff,
    /// Names of connection parameters.
    ParameterNames,
    /// A table of connection parameters; the values may be secrets.
    Parameters,
    /// A table of texts.
    Texts,
    /// A table of its own.
    Table(Shape),
    /// A list of tables.
    Tables(Shape),
}

impl Form {
    /// Whether one plain value is written, as an environment variable can.
    pub(super) fn is_single(self) -> bool {
        !matches!(
            self,
            Self::Words(_)
                | Self::Ids
                | Self::Hosts
                | Self::Fingerprints
                | Self::ParameterNames
                | Self::Parameters
                | Self::Texts
                | Self::Table(_)
                | Self::Tables(_)
        )
    }
}

pub(super) const fn key(name: &'static str, form: Form, about: &'static str) -> Key {
    Key {
        name,
        form,
        default: None,
        about,
    }
}

impl Key {
    pub(super) const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}
