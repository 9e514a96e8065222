//! After the store was lost: what it must hold of our open tunnels is written
//! once more before anybody is placed anew.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::{Claim, Keeper, Part};
use crate::audit::{Audit, Entry, Event, Line};
use crate::placement::{HostId, Timestamp};

/// Between two tries while the store is away: it is used again soon after it is
/// back.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// What is to be written before anybody is placed.
#[derive(Debug)]
pub(super) struct Regaining {
    /// As of which loss that is.
    losses: u64,
    /// Whose holds are not written yet.
    owed: BTreeSet<Part>,
    /// How many there were.
    all: usize,
}

impl Keeper {
    /// The same, telling the trail whose lease was found elsewhere.
    #[must_use]
    pub fn auditing(mut self, audit: Option<Audit>) -> Self {
        self.audit = audit;
        self
    }

    /// What has been looked at of losses.
    pub(super) fn losses_seen(&self) -> u64 {
        let regaining = self.regaining.as_ref();
        regaining.map_or(self.losses_regained, |it| it.losses)
    }

    /// Where the gate is shut, every open tunnel's hold is due at once. Once a
    /// loss, however long the store is away.
    pub(super) fn notice_loss(&mut self) {
        let gate = &self.leases.gate;
        let losses = gate.losses();
        let is_noticed = self
            .regaining
            .as_ref()
            .is_some_and(|it| it.losses == losses);
        if is_noticed || !gate.is_shut() {
            return;
        }
        let now = Instant::now();
        let owed: BTreeSet<_> = self.tunnels.open().cloned().collect();
        for part in &owed {
            self.tunnels.change(part, |kept| kept.due = now);
        }
        gate.owes(owed.len());
        self.regaining = Some(Regaining {
            losses,
            all: owed.len(),
            owed,
        });
    }

    /// One more is to be written before anybody is placed: it was claimed while
    /// the store was on its way out, or is in no store yet.
    pub(super) fn owe(&mut self, part: &Part) {
        if let Some(regaining) = &mut self.regaining {
            regaining.owed.insert(part.clone());
            regaining.all += 1;
            self.leases.gate.owes(regaining.owed.len());
        }
    }

    /// One is in the store, or ended.
    pub(super) fn paid(&mut self, part: &Part) {
        if let Some(regaining) = &mut self.regaining
            && regaining.owed.remove(part)
        {
            self.leases.gate.progresses(regaining.owed.len());
        }
    }

    /// Lets placements go on where everything is written.
    pub(super) async fn regain(&mut self) {
        let Some(regaining) = &self.regaining else {
            return;
        };
        if !regaining.owed.is_empty() || self.away {
            return;
        }
        // With nothing to write nobody has asked yet whether it is there.
        if regaining.all == 0
            && let Err(error) = self.leases.store.after(None, 1).await
        {
            self.leases.gate.fails(&error);
            return;
        }
        let (losses, leases) = (regaining.losses, regaining.all);
        let span = self.leases.gate.open(losses);
        self.losses_regained = losses;
        self.regaining = None;
        info!(
            leases,
            milliseconds = u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            "The store is back and holds the leases of open tunnels: users are placed again"
        );
    }

    /// A tunnel's lease is another tunnel's by now, on another host. Nobody is
    /// moved.
    pub(super) fn found_elsewhere(&self, claim: &Arc<Claim>, held: &HostId) {
        self.leases.gate.found_elsewhere();
        let (tunnel, user, host) = (&claim.tunnel, &claim.user, &claim.host);
        warn!(
            %tunnel, %user, %host, elsewhere = %held,
            "A tunnel goes on whose lease another tunnel holds on another host"
        );
        if let Some(audit) = &self.audit {
            audit.tell(Arc::new(HeldElsewhere {
                at: self.leases.clock.now(),
                claim: Arc::clone(claim),
                held: held.clone(),
            }));
        }
    }
}

/// Its line in the audit trail.
struct HeldElsewhere {
    at: Timestamp,
    claim: Arc<Claim>,
    held: HostId,
}

impl Entry for HeldElsewhere {
    fn line(&self) -> String {
        let (user, claim) = (&self.claim.user, &self.claim);
        let event = Event {
            kind: "alert",
            category: &["session"],
            change: "info",
            action: "lease-held-elsewhere",
            outcome: "failure",
        };
        let mut line = Line::of(self.at, event);
        let reason = "another tunnel holds the lease on another host";
        line.put("event.reason", reason);
        line.put("user.name", user.user());
        line.put("user.domain", user.domain());
        line.on(Some(&claim.host));
        line.put("sessionguard.tunnel", &claim.tunnel);
        line.put("sessionguard.farm", &claim.farm);
        line.put("sessionguard.held_on", &self.held);
        line.to_string()
    }
}
