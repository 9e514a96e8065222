//! What a host said last, as it is kept: names as the host has them, so that
//! they are read by the rules of the day, and moments on our clock, so that
//! ages are right after a restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::{Heartbeat, ReportedSession};
use crate::placement::{self, Directory, HostId, Report, ReportNumber, Timestamp, Told};

/// Within this what another replica heard is told of, and clocks differ no more
/// than that where they are kept.
const AT_ONCE: Duration = Duration::from_secs(5);

/// What counts for a host without a health score.
const HEALTHY: u8 = 100;

/// A host's last report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Last {
    pub(super) received: Timestamp,
    /// What its sessions are of: of an earlier one where this one had none.
    pub(super) taken: Timestamp,
    pub(super) order: Option<ReportNumber>,
    /// When it was made, by the host's own clock.
    pub(super) theirs: Option<Timestamp>,
    pub(super) hostname: String,
    pub(super) health: Option<u8>,
    rdp_listener_ok: bool,
    pub(super) failed_checks: Vec<String>,
    cpu_percent: Option<f64>,
    memory_used_percent: Option<f64>,
    /// `None`: the agent never could tell.
    pub(super) sessions: Option<Vec<Login>>,
    missing_remote_apps: Vec<String>,
}

/// One login, in the host's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Login {
    id: String,
    user: String,
    domain: String,
    state: String,
    latest: Timestamp,
    client_name: Option<String>,
}

/// A report that can be placed by, and what is odd about it.
pub(super) struct Read {
    pub(super) report: Report,
    pub(super) unknown_states: Vec<String>,
}

impl Last {
    /// Takes a heartbeat over. An agent that cannot tell who is there leaves
    /// standing what it said last: unknown is not empty.
    pub(super) fn of(
        heartbeat: Heartbeat,
        (received, made): (Timestamp, Timestamp),
        order: Option<ReportNumber>,
        before: Option<&Self>,
    ) -> Self {
        let told = heartbeat.sessions.map(|sessions| {
            let logins = sessions.into_iter();
            logins.map(|session| Login::of(session, made)).collect()
        });
        let (taken, sessions) = match (told, before) {
            (None, Some(before)) => (before.taken, before.sessions.clone()),
            (told, _) => (made, told),
        };
        Self {
            received,
            taken,
            order,
            theirs: heartbeat.time,
            hostname: heartbeat.hostname,
            health: heartbeat.health,
            rdp_listener_ok: heartbeat.rdp_listener_ok,
            failed_checks: heartbeat.failed_checks,
            cpu_percent: heartbeat.cpu_percent,
            memory_used_percent: heartbeat.memory_used_percent,
            sessions,
            missing_remote_apps: heartbeat.missing_remote_apps,
        }
    }

    /// Reads it by the rules in force; `None` where it does not say who is
    /// there: such a host is placed on as one without an agent.
    pub(super) fn read(&self, directory: &Directory, host: &HostId) -> Option<Read> {
        let told: Vec<_> = self.sessions.as_ref()?.iter().map(Login::told).collect();
        let heard = placement::Session::reported(&told, directory, host);
        Some(Read {
            report: Report {
                received: self.received,
                health: self.health.unwrap_or(HEALTHY),
                rdp_listener_ok: self.rdp_listener_ok,
                cpu_percent: self.cpu_percent,
                memory_used_percent: self.memory_used_percent,
                sessions: heard.sessions,
                missing_remote_apps: self.missing_remote_apps.clone(),
                order: self.order,
                taken: self.taken,
                overclaims: heard.overclaims,
            },
            unknown_states: heard.unknown_states.into_iter().collect(),
        })
    }

    /// Another replica heard it, of whose clock nothing is known: what is told
    /// at once is dated as that one dates it where both clocks agree, else as if
    /// it had come now; what is told `late` is no newer than now.
    pub(super) fn date(&mut self, late: bool, now: Timestamp) {
        let agrees = self.received <= now && (late || now.since(self.received) <= AT_ONCE);
        if agrees {
            return;
        }
        let millis = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        let by = millis(now).saturating_sub(millis(self.received));
        self.received = now;
        self.taken = self.taken.shifted(by);
        for login in self.sessions.iter_mut().flatten() {
            // One of an unknown age stays so.
            if login.latest != Timestamp::default() {
                login.latest = login.latest.shifted(by);
            }
        }
    }

    /// Whether both show the same people in the same states.
    pub(super) fn shows_the_same(&self, other: &Self) -> bool {
        let (Some(ours), Some(theirs)) = (&self.sessions, &other.sessions) else {
            return self.sessions.is_none() && other.sessions.is_none();
        };
        let mut pairs = ours.iter().zip(theirs);
        ours.len() == theirs.len() && pairs.all(|(one, other)| one.is_like(other))
    }
}

impl Login {
    fn of(session: ReportedSession, made: Timestamp) -> Self {
        Self {
            id: session.id,
            user: session.user,
            domain: session.domain,
            state: session.state,
            // One of an unknown age proves no logon.
            latest: session
                .latest
                .map_or(Timestamp::default(), |age| made - age),
            client_name: session.client_name,
        }
    }

    fn told(&self) -> Told<'_> {
        Told {
            id: &self.id,
            state: &self.state,
            user: &self.user,
            domain: &self.domain,
            client_name: self.client_name.as_deref().unwrap_or_default(),
            latest: self.latest,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        let parts = |login: &Self| {
            let Self {
                id,
                user,
                domain,
                state,
                latest: _,
                client_name,
            } = login.clone();
            (id, user, domain, state, client_name)
        };
        parts(self) == parts(other)
    }
}
