//! What a decision stands on: the store, what is known of it, or, while it is
//! away and `degraded = "existing-lease"` says so, what was known last.
//!
//! By what was known last only somebody is placed who comes back, and only
//! where the own lease is: on a host of the farm, not in maintenance, as far as
//! that is known. Nobody else is. What it risks: while this replica hears
//! nothing, another one that reaches the store may have moved the lease (it ran
//! out there, was released, or followed its user), and then one user can have a
//! tunnel on two hosts until either ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::cache::is_worth_keeping;
use super::{Broker, Leases, PlaceError};
use crate::config::Degraded;
use crate::placement::{
    Decision, LeaseKey, LeaseRecord, LeaseState, LeaseView, Outcome, Reason, Request, Snapshot,
    Timestamp, Trust, decide,
};
use crate::store::Versioned;

/// How long somebody who could go back by what was known last waits for the
/// store: who is not known to be away may merely be slow.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the record of a decision is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Look {
    /// What is known since the store was lost last, else the store. Enough to
    /// claim by, since a stale claim is not written; not to refuse by.
    #[default]
    Glance,
    /// The store.
    Afresh,
    /// What was known last.
    Memory,
}

/// A record to decide by.
#[derive(Debug, Default)]
pub(super) struct Recalled {
    pub(super) known: Versioned,
    /// It may be stale: nobody is refused by it.
    pub(super) is_cached: bool,
}

impl Broker {
    /// The record that a decision is made by.
    ///
    /// # Errors
    /// The store cannot be asked, or holds less than it should; from memory:
    /// nothing is known that somebody could go back by.
    pub(super) async fn recall(
        &self,
        key: Option<&LeaseKey>,
        look: Look,
    ) -> Result<Recalled, PlaceError> {
        let leases = &self.leases;
        if look == Look::Memory {
            let lasting = key.and_then(|key| leases.lasting(key));
            let record = lasting.ok_or_else(|| leases.gate.refusal())?;
            let known = Versioned {
                record: LeaseRecord::clone(&record),
                ..Versioned::default()
            };
            return Ok(Recalled {
                known,
                is_cached: false,
            });
        }
        let may_go_back = key.is_some_and(|key| leases.lasting(key).is_some());
        let patience = may_go_back.then_some(PATIENCE);
        match patience {
            Some(patience) => leases.gate.pass_within(patience).await?,
            None => leases.gate.pass().await?,
        }
        let Some(key) = key else {
            return Ok(Recalled::default());
        };
        if look == Look::Glance
            && let Some(known) = leases.known(key)
        {
            return Ok(Recalled {
                known,
                is_cached: true,
            });
        }
        let read = leases.read(key);
        let known = match patience {
            Some(patience) => match timeout(patience, read).await {
                Ok(known) => known?,
                Err(_) => return Err(leases.gate.refusal()),
            },
            None => read.await?,
        };
        Ok(Recalled {
            known,
            is_cached: false,
        })
    }
}

impl Broker {
    /// The decision on a request by what was known last, where there is one.
    pub(super) fn would_lead_back(
        &self,
        snapshot: &Snapshot,
        request: &Request,
        key: Option<&LeaseKey>,
    ) -> Option<Decision> {
        let (record, now) = (self.leases.lasting(key?)?, self.clock.now());
        let mut decision = decide(snapshot, request, &record, now);
        leads_back(&mut decision, snapshot, &record, now);
        matches!(decision.outcome, Outcome::Placed(_)).then_some(decision)
    }
}

impl Leases {
    /// A record that somebody could go back by while the store is away; `None`
    /// where nobody may.
    fn lasting(&self, key: &LeaseKey) -> Option<Arc<LeaseRecord>> {
        if self.degraded == Degraded::Refuse || !self.store.is_far() {
            return None;
        }
        let record = self.cache.last(key)?;
        let own = || self.stands_anywhere(key);
        (is_worth_keeping(&record, self.clock.now()) || own()).then_some(record)
    }

    fn stands_anywhere(&self, key: &LeaseKey) -> bool {
        let snapshot = self.fleet.snapshot();
        let mut tunnels = snapshot.hosts.values().flat_map(|view| &view.tunnels);
        tunnels.any(|it| it.key.as_ref() == Some(key) && it.stood.is_some())
    }
}

/// Makes of a decision by what was known last one that leads back to where the
/// user belongs, or nowhere.
pub(super) fn leads_back(
    decision: &mut Decision,
    snapshot: &Snapshot,
    record: &LeaseRecord,
    now: Timestamp,
) {
    if is_way_back(decision, snapshot, record, now)
        && let Outcome::Placed(placement) = &mut decision.outcome
    {
        placement.reason = Reason::Degraded;
    } else {
        decision.outcome = Outcome::Unmatched;
    }
}

fn is_way_back(
    decision: &Decision,
    snapshot: &Snapshot,
    record: &LeaseRecord,
    now: Timestamp,
) -> bool {
    let (Some(farm), Some(key), Outcome::Placed(placement)) =
        (&decision.farm, &decision.key, &decision.outcome)
    else {
        return false;
    };
    let record = record.without_doubt();
    let leads =
        |view: &LeaseView<'_>| view.state != LeaseState::Claimed && *view.host == placement.host;
    let leased = match record.view(farm, now) {
        Some(own) => leads(&own),
        None => record.views(now).any(|other| leads(&other)),
    };
    // Our own tunnel stands there, whatever was written of it.
    let view = snapshot.hosts.get(&placement.host);
    let mut tunnels = view.into_iter().flat_map(|view| &view.tunnels);
    leased
        || tunnels.any(|it| {
            placement.reason == Reason::Tunnel
                && it.key.as_ref() == Some(key)
                && it.stood.is_some()
                && it.trust != Trust::Doubtful
        })
}
