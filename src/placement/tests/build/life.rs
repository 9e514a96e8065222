//! Words for the life of one lease record.

use super::{NOW, secs, user};
use crate::placement::*;

/// How long a lease lingers, in seconds.
pub(in super::super) const LEASE: u64 = 900;

/// A record of the office farm and the clock it is read by.
#[derive(Clone, Default)]
pub(in super::super) struct Life {
    pub(in super::super) record: LeaseRecord,
    seconds: u64,
}

impl Life {
    pub(in super::super) fn now(&self) -> Timestamp {
        NOW + secs(self.seconds)
    }

    pub(in super::super) fn wait(mut self, seconds: u64) -> Self {
        self.seconds += seconds;
        self
    }

    pub(in super::super) fn act(
        mut self,
        change: impl FnOnce(&mut LeaseRecord, Timestamp),
    ) -> Self {
        let now = self.now();
        change(&mut self.record, now);
        self
    }

    pub(in super::super) fn claim(self, tunnel: &str, host: &str) -> Self {
        self.claim_in("office", tunnel, host)
    }

    pub(in super::super) fn claim_in(self, farm: &str, tunnel: &str, host: &str) -> Self {
        self.claim_as(Trust::Plain, farm, tunnel, host)
    }

    pub(in super::super) fn claim_as(
        self,
        trust: Trust,
        farm: &str,
        tunnel: &str,
        host: &str,
    ) -> Self {
        let (farm, host, tunnel) = (farm.into(), host.into(), tunnel.into());
        self.act(|r, now| assert!(r.claim(&farm, &host, &tunnel, trust, now)))
    }

    pub(in super::super) fn renew(self, tunnel: &str) -> Self {
        self.act(|r, now| assert!(r.renew_claim(&tunnel.into(), now)))
    }

    pub(in super::super) fn stood(self, tunnel: &str) -> Self {
        self.act(|r, now| assert!(r.stood(&tunnel.into(), &ann(), secs(LEASE), now)))
    }

    pub(in super::super) fn linger(self, tunnel: &str) -> Self {
        self.act(|r, now| r.linger(&tunnel.into(), secs(LEASE), now))
    }

    pub(in super::super) fn end(self, tunnel: &str) -> Self {
        self.act(|r, now| r.end(&tunnel.into(), secs(LEASE), now))
    }

    pub(in super::super) fn orphan(self) -> Self {
        self.act(LeaseRecord::orphan)
    }

    /// A lease on `host` that lingers from now on.
    pub(in super::super) fn left(self, host: &str) -> Self {
        self.claim("before", host).stood("before").end("before")
    }

    /// Host, state and seconds left in a farm.
    pub(in super::super) fn view_in(&self, farm: &str) -> Option<(String, LeaseState, u64)> {
        let (farm, now) = (FarmId::from(farm), self.now());
        let view = self.record.view(&farm, now)?;
        let left = view.until.since(now).as_secs();
        Some((view.host.to_string(), view.state, left))
    }

    #[track_caller]
    pub(in super::super) fn is(self, host: &str, state: LeaseState, left: u64) -> Self {
        assert_eq!(self.view_in("office"), Some((host.to_owned(), state, left)));
        self
    }

    #[track_caller]
    pub(in super::super) fn gone(self) -> Self {
        assert_eq!(self.view_in("office"), None);
        let expired = self.clone().act(LeaseRecord::expire);
        assert_eq!(expired.record.views(expired.now()).count(), 0);
        // Where the user was last is no lease, and goes in its own time.
        let after = expired.wait(HISTORY.as_secs()).act(LeaseRecord::expire);
        assert!(after.record.is_empty(), "{:?}", after.record);
        self
    }
}

/// Whose record it is.
fn ann() -> UserKey {
    user("ann")
}

pub(in super::super) fn life() -> Life {
    Life::default()
}
