//! The shadow's own account of a host's breaker: everything that happened there
//! since it was worked on, and what the rule makes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use sessionguard::placement::{HostId, ResourceId, Timestamp};

use super::ask::Who;

/// A failure counts for so long.
const MINUTE: Duration = Duration::from_secs(60);
/// Everything else does.
const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// Every host's breaker.
#[derive(Default)]
pub(super) struct Breakers(BTreeMap<HostId, Breaker>);

#[derive(Default)]
struct Breaker {
    failed: Vec<(Timestamp, Who, Option<ResourceId>)>,
    flips: Vec<Timestamp>,
    openings: Vec<Opened>,
    /// What the probe last said, and since when.
    probe: Option<(bool, Timestamp)>,
}

struct Opened {
    since: Timestamp,
    until: Timestamp,
    stood: Option<Timestamp>,
}

/// What lets somebody new in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Closed,
    Half,
    Open,
}

impl Breakers {
    fn of(&mut self, host: &HostId, now: Timestamp, worked_on: Option<Timestamp>) -> &mut Breaker {
        let breaker = self.0.entry(host.clone()).or_default();
        // Nothing from before the work on the host counts.
        if let Some(worked_on) = worked_on {
            breaker.failed.retain(|(at, ..)| *at >= worked_on);
            breaker.flips.retain(|at| *at >= worked_on);
            breaker.openings.retain(|opened| opened.since >= worked_on);
        }
        breaker.failed.retain(|(at, ..)| now < *at + MINUTE);
        breaker.flips.retain(|at| now < *at + FIVE_MINUTES);
        breaker
    }

    pub(super) fn gate(&self, host: &HostId, now: Timestamp, worked_on: Option<Timestamp>) -> Gate {
        let breaker = self.0.get(host);
        let last = breaker.and_then(|breaker| breaker.openings.last());
        let last = last.filter(|last| worked_on.is_none_or(|worked_on| last.since >= worked_on));
        last.map_or(Gate::Closed, |last| last.gate(now))
    }

    /// An attempt of somebody who is believed failed. True where that opens it.
    pub(super) fn failed(
        &mut self,
        host: &HostId,
        (who, resource): (Who, Option<ResourceId>),
        now: Timestamp,
        worked_on: Option<Timestamp>,
    ) -> bool {
        let gate = self.gate(host, now, worked_on);
        let breaker = self.of(host, now, worked_on);
        let others = breaker.failed.iter();
        let mut others = others.filter(|(_, other, what)| *other != who && *what != resource);
        let opens = match gate {
            Gate::Open => return false,
            Gate::Half => true,
            Gate::Closed => others.next().is_some(),
        };
        if opens {
            breaker.open(now);
        } else {
            breaker.failed.push((now, who, resource));
        }
        opens
    }

    pub(super) fn stood(&mut self, host: &HostId, now: Timestamp, worked_on: Option<Timestamp>) {
        let closed = self.gate(host, now, worked_on) == Gate::Closed;
        // What counts no more is not tidied away by this.
        let breaker = self.0.entry(host.clone()).or_default();
        breaker.failed.clear();
        if let Some(last) = breaker.openings.last_mut().filter(|_| !closed) {
            last.stood = Some(now);
        }
    }

    /// `proven`: a tunnel that is open stood since that moment. True where that
    /// opens it.
    pub(super) fn probed(
        &mut self,
        host: &HostId,
        answers: bool,
        proven: impl Fn(Timestamp) -> bool,
        now: Timestamp,
        worked_on: Option<Timestamp>,
    ) -> bool {
        let known = self.0.entry(host.clone()).or_default().probe;
        let Some((before, since)) = known.filter(|(before, _)| *before != answers) else {
            let known = known.unwrap_or((answers, now));
            self.0.entry(host.clone()).or_default().probe = Some(known);
            return false;
        };
        let breaker = self.of(host, now, worked_on);
        breaker.probe = Some((answers, now));
        breaker.flips.push(now);
        let returned = !before && !proven(since);
        let opens = returned && breaker.flips.len() >= 3;
        if opens {
            breaker.open(now);
        }
        opens
    }

    /// It is another host, or nothing is known of it.
    pub(super) fn forget(&mut self, host: &HostId) {
        self.0.remove(host);
    }
}

impl Breaker {
    fn open(&mut self, now: Timestamp) {
        let mut span = Duration::from_secs(5);
        if let Some(last) = self.openings.last() {
            let over = last.stood.unwrap_or(last.until);
            if now < over + FIVE_MINUTES {
                span = last.until.since(last.since) * 2;
            }
        }
        self.failed.clear();
        self.openings.push(Opened {
            since: now,
            until: now + span.min(FIVE_MINUTES),
            stood: None,
        });
    }
}

impl Opened {
    fn gate(&self, now: Timestamp) -> Gate {
        if self.stood.is_some() || now >= self.until + FIVE_MINUTES {
            Gate::Closed
        } else if now < self.until {
            Gate::Open
        } else {
            Gate::Half
        }
    }
}
