//! The words that stand for a choice, and what each means.
//!
//! Named by [`super::keys`], which says where they may be written, and by the
//! readers, which want the meaning.

use crate::placement::{Conduct, IdentitySource, Mode, TrustAgents, Unmatched};

use super::settings::{LogFormat, LogLevel};
use super::store::{Degraded, StoreKind};

/// What a resource publishes, before its RemoteApp is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Desktop,
    RemoteApp,
    AsConnected,
}

/// Words with their meanings.
pub(super) type Words<T> = &'static [(&'static str, T)];

pub(super) const KINDS: Words<Kind> = &[
    ("desktop", Kind::Desktop),
    ("remoteapp", Kind::RemoteApp),
    ("as-connected", Kind::AsConnected),
];
pub(super) const MODES: Words<Mode> = &[
    ("online", Mode::Online),
    ("drain", Mode::Drain),
    ("maintenance", Mode::Maintenance),
];
pub(super) const UNMATCHED: Words<Unmatched> =
    &[("pass", Unmatched::Pass), ("refuse", Unmatched::Refuse)];
pub(super) const TRUST_AGENTS: Words<TrustAgents> = &[
    ("always", TrustAgents::Always),
    ("history", TrustAgents::History),
];
pub(super) const CONDUCTS: Words<Conduct> =
    &[("broker", Conduct::Broker), ("observe", Conduct::Observe)];
pub(super) const SOURCES: Words<IdentitySource> = &[
    ("username", IdentitySource::Username),
    ("name", IdentitySource::Name),
];
pub(super) const LEVELS: Words<LogLevel> = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
pub(super) const STORES: Words<StoreKind> = &[
    ("embedded", StoreKind::Embedded),
    ("postgres", StoreKind::Postgres),
];
pub(super) const DEGRADED: Words<Degraded> = &[
    ("refuse", Degraded::Refuse),
    ("existing-lease", Degraded::ExistingLease),
];
pub(super) const FORMATS: Words<LogFormat> =
    &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The words alone.
pub(super) fn spelt<T>(words: Words<T>) -> Vec<&'static str> {
    words.iter().map(|(word, _)| *word).collect()
}
