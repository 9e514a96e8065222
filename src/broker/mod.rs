//! From a request to a host the user may keep: look at the fleet, read the
//! user's leases, decide, claim; start again where somebody else was faster.
//!
//! Serves whoever needs a placement; knows no tunnel and no protocol. Decides
//! nothing itself ([`crate::placement`] does) and stores nothing itself.

mod keeper;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::clock::Clock;
use crate::fleet::{Fleet, Seat};
use crate::placement::{
    Aim, Conduct, Decision, Directory, LeaseKey, LeaseRecord, Outcome, Placement, Refusal, Request, Trust,
    TunnelId, decide,
};
use crate::store::{Replaced, Store, StoreError, Version, Versioned};

pub use keeper::Keeper;
use keeper::{Held, Tell};

/// Places users and keeps their leases.
#[derive(Debug, Clone)]
pub struct Broker {
    fleet: Arc<Fleet>,
    leases: Arc<Leases>,
    keeper: Tell,
    clock: Clock,
}

/// The store as the broker and its keeper use it: every record that was written
/// is told to the fleet.
pub(crate) struct Leases {
    store: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    clock: Clock,
}

/// One decision's name, in the log, in the refusal's text and wherever the
/// decision is asked for later. A UUIDv7, so that they sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecisionId(Uuid);

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    /// The decision's name.
    pub id: DecisionId,
    /// The decision, able to explain itself.
    pub decision: Decision,
    /// The configuration it was made on.
    pub directory: Arc<Directory>,
    /// The place taken, where there is one.
    pub hold: Option<Hold>,
}

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It took too long.
    #[error("placement took longer than its budget")]
    TimedOut,
    /// The store cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A place on a host: the seat that is counted and the lease that is claimed.
/// Dropping it gives the seat back and ends the tunnel's hold on the lease:
/// what stood lingers, what never stood is put back.
#[derive(Debug)]
pub struct Hold {
    seat: Seat,
    lease: Option<Held>,
    clock: Clock,
}

impl Broker {
    /// A broker and the keeper that must run beside it. Leases of an earlier
    /// life of this process are taken over: its tunnels are gone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(
        fleet: Arc<Fleet>,
        store: Arc<dyn Store>,
        clock: Clock,
    ) -> Result<(Self, Keeper), StoreError> {
        let leases = Arc::new(Leases {
            store,
            fleet: Arc::clone(&fleet),
            clock,
        });
        leases.adopt().await?;
        let (keeper, tell) = Keeper::new(Arc::clone(&leases));
        let broker = Self {
            fleet,
            leases,
            keeper: tell,
            clock,
        };
        Ok((broker, keeper))
    }

    /// Decides where a request goes and claims the place, by `deadline`.
    ///
    /// # Errors
    /// No decision could be made: time is up, or the store cannot be asked.
    /// Nothing is placed then.
    pub async fn place(
        &self,
        request: &Request,
        tunnel: &TunnelId,
        deadline: Instant,
    ) -> Result<Answer, PlaceError> {
        let id = DecisionId(Uuid::now_v7());
        let placed = timeout_at(deadline, async {
            // What leads to no farm needs no host, and must not wait for one.
            if Aim::take(&self.fleet.snapshot(), request).is_ok() {
                self.fleet.probed().await;
            }
            loop {
                let Some(answer) = self.attempt(id, request, tunnel).await? else {
                    continue;
                };
                if !matches!(answer.refusal(), Some(Refusal::LogonsPending(_))) {
                    return Ok(answer);
                }
                // Logons under way end, and a slow start grows, by themselves.
                let news = self.fleet.newer_than(answer.decision.generation);
                let _ = timeout(PENDING_PAUSE, news).await;
            }
        });
        placed.await.map_err(|_| PlaceError::TimedOut)?
    }

    /// What would be decided now; claims nothing.
    ///
    /// # Errors
    /// As for [`Self::place`].
    pub async fn preview(
        &self,
        request: &Request,
        deadline: Instant,
    ) -> Result<Answer, PlaceError> {
        let id = DecisionId(Uuid::now_v7());
        let previewed = timeout_at(deadline, async {
            self.fleet.probed().await;
            let key = lease_key(&self.fleet, request);
            let known = self.known(key.as_ref()).await?;
            let snapshot = self.fleet.snapshot();
            Ok(Answer {
                id,
                decision: decide(&snapshot, request, &known.record, self.clock.now()),
                directory: Arc::clone(&snapshot.directory),
                hold: None,
            })
        });
        previewed.await.map_err(|_| PlaceError::TimedOut)?
    }

    async fn known(&self, key: Option<&LeaseKey>) -> Result<Versioned, StoreError> {
        match key {
            Some(key) => self.leases.store.read(key).await,
            None => Ok(Versioned::default()),
        }
    }

    /// One round; `None`: somebody wrote in between, decide again.
    async fn attempt(
        &self,
        id: DecisionId,
        request: &Request,
        tunnel: &TunnelId,
    ) -> Result<Option<Answer>, StoreError> {
        let key = lease_key(&self.fleet, request);
        let known = self.known(key.as_ref()).await?;
        let now = self.clock.now();
        let mut directory = None;
        let (decision, seat) = self.fleet.seat(tunnel, now, |snapshot| {
            directory = Some(Arc::clone(&snapshot.directory));
            decide(snapshot, request, &known.record, now)
        });
        if decision.key != key {
            // The configuration changed in between: another record rules.
            return Ok(None);
        }
        let mut answer = Answer {
            id,
            directory: directory.unwrap_or_default(),
            decision,
            hold: None,
        };
        let decision = &answer.decision;
        let (Some(seat), Some(farm), Outcome::Placed(placement)) =
            (seat, &decision.farm, &decision.outcome)
        else {
            return Ok(Some(answer));
        };
        let mut lease = None;
        if let Some((key, user)) = key.zip(decision.user.clone()) {
            // Made before the claim: cancelled while the claim is being
            // written, it still gives back what may have been written.
            let doubtful = decision.trust == Trust::Doubtful;
            let held = self.keeper.held(key, tunnel.clone(), user, doubtful);
            let mut record = known.record;
            let claimed = record.claim(farm, &placement.host, tunnel, decision.trust, now)
                && self.leases.write(&held.key, known.version, record).await? == Replaced::Done;
            if !claimed {
                // The moment moved on, or somebody wrote in between: again.
                held.void();
                return Ok(None);
            }
            held.claimed();
            lease = Some(held);
        }
        let clock = self.clock;
        answer.hold = Some(Hold { seat, lease, clock });
        Ok(Some(answer))
    }

    /// Whether decisions are to be acted on.
    pub fn conduct(&self) -> Conduct {
        self.fleet.snapshot().directory.rules().conduct
    }

    /// Whether a placement may still be acted on: checked last, right before
    /// guacd is told, since the configuration may have changed meanwhile.
    pub fn still_holds(&self, decision: &Decision, placement: &Placement) -> bool {
        let snapshot = self.fleet.snapshot();
        let host = snapshot.directory.host(&placement.host);
        let same = host.is_some_and(|h| h.address == placement.address && h.port == placement.port);
        let farm = decision.farm.as_ref();
        same && farm.is_some_and(|farm| snapshot.directory.is_member(farm, &placement.host))
    }
}

fn lease_key(fleet: &Fleet, request: &Request) -> Option<LeaseKey> {
    let snapshot = fleet.snapshot();
    let aim = Aim::take(&snapshot, request);
    aim.ok().and_then(|aim| aim.key)
}

/// How long a placement waits for room before it looks again by itself.
const PENDING_PAUSE: Duration = Duration::from_millis(250);

impl Leases {
    async fn write(
        &self,
        key: &LeaseKey,
        expected: Version,
        record: LeaseRecord,
    ) -> Result<Replaced, StoreError> {
        let replaced = self.store.replace(key, expected, record.clone()).await?;
        if replaced == Replaced::Done {
            self.fleet.note_leases(key, &record, self.clock.now());
        }
        Ok(replaced)
    }

    /// Changes a record, as often as it takes to be the one who did.
    async fn update(
        &self,
        key: &LeaseKey,
        change: impl Fn(&mut LeaseRecord),
    ) -> Result<(), StoreError> {
        loop {
            let known = self.store.read(key).await?;
            let mut record = known.record.clone();
            change(&mut record);
            if record == known.record {
                return Ok(());
            }
            if self.write(key, known.version, record).await? == Replaced::Done {
                return Ok(());
            }
        }
    }

    /// Takes over what an earlier life of this process left behind.
    async fn adopt(&self) -> Result<(), StoreError> {
        for (key, known) in self.store.all().await? {
            let now = self.clock.now();
            let mut record = known.record.clone();
            record.orphan(now);
            if record == known.record {
                self.fleet.note_leases(&key, &record, now);
            } else {
                self.write(&key, known.version, record).await?;
            }
        }
        Ok(())
    }
}

impl Hold {
    /// The RDP connection stood: the lease is good.
    pub fn stood(&self) {
        self.seat.stood(self.clock.now());
        if let Some(held) = &self.lease {
            held.stood();
        }
    }
}

impl Answer {
    /// The refusal, where that came out.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.decision.outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::Placed(_) | Outcome::Unmatched => None,
        }
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
