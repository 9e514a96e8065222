//! Placements of users whose connections do not come through us. There is no
//! tunnel that stands or ends, so both are taken for granted: the lease lingers
//! from the answer on, and for a while the user counts as a logon under way.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::keeper::Held;
use super::{Answer, Broker, Hold, PlaceError, Unplaced};
use crate::fleet::Seat;
use crate::placement::{Aim, FarmId, LeaseKey, Request, Timestamp, TunnelId, UNSEEN};

/// Users on their way by other ways. Each is forgotten by itself after
/// [`UNSEEN`]; how many come in that time the rate of the broker key says.
#[derive(Default)]
pub(super) struct Visits {
    seats: Mutex<HashMap<(LeaseKey, FarmId), Visit>>,
}

/// One user on the way.
struct Visit {
    id: TunnelId,
    // Held, not read: the user counts for as long as it is.
    _seat: Seat,
}

impl Broker {
    /// Decides where a request goes whose connection does not come through us,
    /// and claims the place, by `deadline`. Where it placed somebody, also
    /// until when the lease lasts; that is in the store then. Who asks again
    /// while on the way is one user, and is sent to the same host.
    ///
    /// # Errors
    /// As for [`Self::place`]; nobody is placed then.
    pub async fn place_elsewhere(
        &self,
        request: &Request,
        deadline: Instant,
    ) -> Result<(Answer, Option<Timestamp>), Unplaced> {
        let visit = TunnelId::of_visit(Uuid::now_v7());
        let whose = self.bound_for(request);
        let request = Request {
            // Left where it is until the next one is there in its place: where
            // nothing comes of that, the user is on the way all the same.
            repeats: whose.and_then(|whose| self.visits.of(&whose)),
            ..request.clone()
        };
        let mut answer = self.place(&request, &visit, deadline).await?;
        let Some(Hold { seat, lease, .. }) = answer.hold.take() else {
            return Ok((answer, None));
        };
        let (Some(held), Some(farm)) = (lease, answer.decision.farm.clone()) else {
            // Nobody whom a lease could stand for.
            return Ok((answer, None));
        };
        let until = match self.linger(&held, deadline).await {
            Ok(until) => until,
            Err(error) => {
                let id = answer.id;
                let last = Some(Box::new(answer));
                return Err(Unplaced { id, last, error });
            }
        };
        let whose = (held.claim.key.clone(), farm);
        self.visits.expect(
            whose,
            Visit {
                id: visit,
                _seat: seat,
            },
        );
        Ok((answer, Some(until)))
    }

    fn bound_for(&self, request: &Request) -> Option<(LeaseKey, FarmId)> {
        let snapshot = self.fleet.snapshot();
        let aim = Aim::take(&snapshot, request).ok()?;
        Some((aim.key?, aim.farm.id.clone()))
    }

    async fn linger(&self, held: &Held, deadline: Instant) -> Result<Timestamp, PlaceError> {
        let now = self.clock.now();
        let lease = self.fleet.snapshot().directory.rules().lease;
        let claim = &held.claim;
        let written = self.leases.update(&claim.key, |record| {
            record.linger(&claim.tunnel, lease, now);
        });
        let written = timeout_at(deadline, written).await;
        written.map_err(|_| PlaceError::TimedOut)??;
        Ok(now + lease)
    }
}

impl Visits {
    /// The visit of somebody who is on the way.
    fn of(&self, whose: &(LeaseKey, FarmId)) -> Option<TunnelId> {
        self.lock().get(whose).map(|visit| visit.id.clone())
    }

    /// Counts a user for as long as a logon may take, once.
    fn expect(self: &Arc<Self>, whose: (LeaseKey, FarmId), visit: Visit) {
        let id = visit.id.clone();
        let before = self.lock().insert(whose.clone(), visit);
        // The fleet hears of it without us holding anything.
        drop(before);
        let visits = Arc::clone(self);
        tokio::spawn(async move {
            sleep(UNSEEN).await;
            visits.forget(&whose, &id);
        });
    }

    /// Counts a user no more, where that visit is the last one.
    fn forget(&self, whose: &(LeaseKey, FarmId), id: &TunnelId) {
        let mut seats = self.lock();
        let is_meant = seats.get(whose).is_some_and(|visit| visit.id == *id);
        let gone = if is_meant { seats.remove(whose) } else { None };
        drop(seats);
        drop(gone);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(LeaseKey, FarmId), Visit>> {
        // Nothing is half done behind a panic.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visits").finish_non_exhaustive()
    }
}
