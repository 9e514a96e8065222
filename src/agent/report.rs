//! Puts a report together from what was seen.

use super::host::{Host, Name};
use super::memory::Memory;
use super::sessions::Seen;
use super::wire::{Session, SessionState};
use crate::clock::rfc3339;
use crate::placement::Timestamp;

/// A session with its user's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) seen: Seen,
    pub(super) name: Name,
    /// What the machine it is used from calls itself.
    pub(super) client_name: Option<String>,
}

/// When a session's connection began, where one process serves it alone.
pub(super) fn began(host: &Host, session: &Seen) -> Option<Timestamp> {
    let carrier = session.carrier.filter(|carrier| carrier.alone)?;
    Some(Timestamp::from_millis(host.millis(carrier.process.started)))
}

/// A session as it is reported.
pub(super) fn session(host: &Host, memory: &Memory, named: &Named) -> Session {
    let since = memory.since(&named.seen);
    let logon = Timestamp::from_millis(host.millis(named.seen.leader.started));
    Session {
        id: named.seen.display,
        state: if named.seen.connected {
            SessionState::Active
        } else {
            SessionState::Disconnected
        },
        user: named.name.user.clone(),
        domain: named.name.domain.clone(),
        logon_at: rfc3339(logon),
        connect_at: since.connected.map(rfc3339),
        disconnected_since: since.disconnected.map(rfc3339),
        client_name: named.client_name.clone(),
    }
}
