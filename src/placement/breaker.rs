//! A breaker for each host: keeps newcomers away from one that answers our
//! probe and fails its users all the same, or that comes and goes.
//!
//! It opens when tunnels of two users and two resources failed there with none
//! that stood in between: a wrong fingerprint or a bad setting in one connection
//! gives the same errors on a healthy host. And when the probe answers again for
//! a host that has come and gone too often of late. After its time it is half
//! open: one tunnel may try. Each time it opens within [`QUIET`] of the last it
//! does so for twice as long.
//!
//! Kept in memory alone: after our own start every breaker is closed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::aim::Trust;
use super::identity::UserKey;
use super::ids::ResourceId;
use super::snapshot::{HostView, TunnelView, UNSEEN};
use super::time::Timestamp;

/// How long a failure is held against a host.
pub const WINDOW: Duration = Duration::from_secs(60);
/// How long a breaker is open the first time.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// How long it is open at most.
pub const LONGEST: Duration = Duration::from_secs(300);
/// After so long what opened it is old news: a breaker that nobody tried closes,
/// and one that opens again does so for the shortest time.
pub const QUIET: Duration = Duration::from_secs(300);
/// A probe that changed so often within [`QUIET`] flaps: a host that goes down
/// once and returns is taken back at once.
pub const FLAPS: usize = 3;

/// What stands between a host and newcomers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Breaker {
    /// The last failures of two users or at two resources; more are not needed
    /// to tell whether the next one is of another user and another resource.
    failures: Vec<Failure>,
    /// When the probe last changed its mind, latest first.
    changes: Vec<Timestamp>,
    /// How it opened last; whether it is closed again by now, time says.
    opening: Option<Arc<Opening>>,
    /// A tunnel stood after it opened.
    closed: Option<Timestamp>,
    openings: Openings,
}

/// An attempt that failed before its RDP connection stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whose.
    pub user: UserKey,
    /// For what; `None` where any host of a farm would do.
    pub resource: Option<ResourceId>,
    /// When.
    pub at: Timestamp,
}

/// One time that a breaker opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Why.
    pub cause: OpenedBy,
    /// When.
    pub since: Timestamp,
    /// Nobody new before that; from then on one tunnel may try.
    pub until: Timestamp,
}

/// Why a breaker opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenedBy {
    /// Attempts of two users at two resources failed.
    Attempts(Failure, Failure),
    /// The attempt failed that was to show whether the host is well again.
    Trial(Failure),
    /// The probe changed its mind so often.
    Flapping(usize),
}

/// How often a breaker opened, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Openings {
    /// Attempts of two users failed.
    pub attempts: u64,
    /// The attempt after an opening failed.
    pub trial: u64,
    /// The probe came and went.
    pub flapping: u64,
}

/// What a breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState<'a> {
    /// Everybody.
    Closed,
    /// One newcomer at a time.
    HalfOpen(&'a Arc<Opening>),
    /// No newcomer.
    Open(&'a Arc<Opening>),
}

impl<'a> BreakerState<'a> {
    /// How it opened that is not closed.
    pub fn opening(self) -> Option<&'a Arc<Opening>> {
        match self {
            Self::Closed => None,
            Self::HalfOpen(opening) | Self::Open(opening) => Some(opening),
        }
    }
}

impl Breaker {
    /// What it lets through at this moment. What came before `fresh_since` is of
    /// a host that has been worked on since.
    pub fn at(&self, now: Timestamp, fresh_since: Option<Timestamp>) -> BreakerState<'_> {
        let Some(opening) = self.in_force(now, fresh_since) else {
            return BreakerState::Closed;
        };
        if now < opening.until {
            BreakerState::Open(opening)
        } else {
            BreakerState::HalfOpen(opening)
        }
    }

    /// How often it opened, of the host as it is configured now.
    pub fn openings(&self) -> Openings {
        self.openings
    }

    /// Moments before the opening are of a clock that was set back.
    fn in_force(&self, now: Timestamp, fresh_since: Option<Timestamp>) -> Option<&Arc<Opening>> {
        let opening = self.opening.as_ref()?;
        let holds = self.closed.is_none()
            && opening.since <= now
            && now < opening.until + QUIET
            && fresh_since.is_none_or(|fresh| fresh <= opening.since);
        holds.then_some(opening)
    }

    /// An attempt failed. True where that opened it.
    fn failed(&mut self, failure: Failure, fresh_since: Option<Timestamp>) -> bool {
        let now = failure.at;
        self.forget(now, fresh_since);
        match self.at(now, fresh_since) {
            // Somebody on the way back; newcomers are kept away as it is.
            BreakerState::Open(_) => false,
            BreakerState::HalfOpen(_) => {
                self.open(OpenedBy::Trial(failure), now);
                true
            }
            BreakerState::Closed => {
                let other = self.failures.iter().find(|known| known.differs(&failure));
                if let Some(other) = other.cloned() {
                    self.open(OpenedBy::Attempts(other, failure), now);
                    return true;
                }
                self.failures.retain(|known| !known.is_like(&failure));
                self.failures.insert(0, failure);
                self.failures.truncate(2);
                false
            }
        }
    }

    /// A tunnel stood: the host is well. True where that closed it.
    fn stood(&mut self, now: Timestamp, fresh_since: Option<Timestamp>) -> bool {
        self.failures.clear();
        let closes = self.in_force(now, fresh_since).is_some();
        if closes {
            self.closed = Some(now);
        }
        closes
    }

    /// The probe changed its mind. True where that opened it.
    fn changed(&mut self, returned: bool, now: Timestamp, fresh_since: Option<Timestamp>) -> bool {
        self.forget(now, fresh_since);
        self.changes.insert(0, now);
        self.changes.truncate(MOST_CHANGES);
        let flaps = returned && self.changes.len() >= FLAPS;
        if flaps {
            self.open(OpenedBy::Flapping(self.changes.len()), now);
        }
        flaps
    }

    /// What is old, of a host that has been worked on since, or of a clock that
    /// was set back.
    fn forget(&mut self, now: Timestamp, fresh_since: Option<Timestamp>) {
        let counts =
            |at: Timestamp| at <= now && fresh_since.is_none_or(|fresh_since| fresh_since <= at);
        let young = |at: Timestamp, span| counts(at) && now.since(at) < span;
        self.failures.retain(|known| young(known.at, WINDOW));
        self.changes.retain(|at| young(*at, QUIET));
        if self
            .opening
            .as_ref()
            .is_some_and(|last| !counts(last.since))
        {
            (self.opening, self.closed) = (None, None);
        }
    }

    fn open(&mut self, cause: OpenedBy, now: Timestamp) {
        let span = self.span(now);
        let count = match cause {
            OpenedBy::Attempts(..) => &mut self.openings.attempts,
            OpenedBy::Trial(_) => &mut self.openings.trial,
            OpenedBy::Flapping(_) => &mut self.openings.flapping,
        };
        *count = count.saturating_add(1);
        self.failures.clear();
        self.closed = None;
        self.opening = Some(Arc::new(Opening {
            cause,
            since: now,
            until: now + span,
        }));
    }

    /// Twice the last one, where that is not long ago.
    fn span(&self, now: Timestamp) -> Duration {
        let Some(last) = &self.opening else {
            return SHORTEST;
        };
        let over = self.closed.unwrap_or(last.until);
        if now.since(over) >= QUIET {
            return SHORTEST;
        }
        let span = last.until.since(last.since);
        (span * 2).clamp(SHORTEST, LONGEST)
    }

    /// As it was before anything happened, but for what was counted.
    fn reset(&mut self) {
        *self = Self {
            openings: self.openings,
            ..Self::default()
        };
    }
}

/// Changes of the probe that are remembered: as many as are told.
const MOST_CHANGES: usize = 16;

impl Failure {
    /// Of another user and at another resource.
    fn differs(&self, other: &Self) -> bool {
        self.user != other.user && self.resource != other.resource
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.user, &self.resource) == (&other.user, &other.resource)
    }

    /// Of a tunnel whose user we take for who it says to be; others could speak
    /// for two.
    fn of(tunnel: &TunnelView, at: Timestamp) -> Option<Self> {
        let user = tunnel.user.clone()?;
        (tunnel.trust != Trust::Doubtful).then(|| Self {
            user,
            resource: tunnel.resource.clone(),
            at,
        })
    }
}

impl HostView {
    /// What the host's breaker lets through.
    pub fn breaker(&self, now: Timestamp) -> BreakerState<'_> {
        // Nearly every host of every decision.
        if self.breaker.opening.is_none() {
            return BreakerState::Closed;
        }
        self.breaker.at(now, self.modes.online_since(now))
    }

    /// How the breaker opened that keeps a newcomer out now: one that is open,
    /// or half open with a tunnel trying already.
    pub fn barred(&self, now: Timestamp) -> Option<&Arc<Opening>> {
        match self.breaker(now) {
            BreakerState::Closed => None,
            BreakerState::Open(opening) => Some(opening),
            BreakerState::HalfOpen(opening) => self.is_tried(now).then_some(opening),
        }
    }

    /// Whether a tunnel is on its way there. One that takes a logon's whole time
    /// shows nothing: its user may be asked for a password.
    fn is_tried(&self, now: Timestamp) -> bool {
        let mut tunnels = self.tunnels.iter();
        tunnels.any(|tunnel| tunnel.stood.is_none() && now.since(tunnel.since) < UNSEEN)
    }

    /// The attempt of an open tunnel failed before it stood. True where that
    /// opened the breaker.
    pub fn attempt_failed(&mut self, tunnel: &TunnelView, now: Timestamp) -> bool {
        let fresh_since = self.modes.online_since(now);
        let failure = Failure::of(tunnel, now);
        failure.is_some_and(|failure| self.breaker.failed(failure, fresh_since))
    }

    /// A tunnel stood there. True where that closed the breaker: from then on
    /// the host is filled slowly, as every host that turned usable.
    pub fn attempt_stood(&mut self, now: Timestamp) -> bool {
        let fresh_since = self.modes.online_since(now);
        let closed = self.breaker.stood(now, fresh_since);
        if closed {
            self.usable_since = Some(now);
        }
        closed
    }

    /// The probe answers after it failed, or fails after it answered.
    /// `returned`: the host was down, not the way of our questions. True where
    /// that opened the breaker.
    pub fn probe_changed(&mut self, returned: bool, now: Timestamp) -> bool {
        let fresh_since = self.modes.online_since(now);
        self.breaker.changed(returned, now, fresh_since)
    }

    /// The host is another one, or has been worked on.
    pub fn reset_breaker(&mut self) {
        self.breaker.reset();
    }
}

impl Opening {
    /// What it does now and why, for people: `breaker open for 12 s more: ...`.
    pub fn told(&self, now: Timestamp) -> String {
        let left = self.until.since(now);
        let cause = &self.cause;
        if left.is_zero() {
            return format!("breaker half open, one connection may try: {cause}");
        }
        // As long as it says, to the last second.
        let left = left.as_millis().div_ceil(1000);
        format!("breaker open for {left} s more: {cause}")
    }
}

impl OpenedBy {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Attempts(..) => "attempts",
            Self::Trial(_) => "trial",
            Self::Flapping(_) => "flapping",
        }
    }
}

impl fmt::Display for OpenedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempts(one, other) => {
                write!(f, "connections of {one} and {other} failed there")
            }
            Self::Trial(failure) => write!(f, "then the connection of {failure} failed there"),
            Self::Flapping(changes) => {
                write!(f, "its probe came and went {changes} times within minutes")
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => write!(f, "{} ({resource})", self.user),
            None => write!(f, "{}", self.user),
        }
    }
}
