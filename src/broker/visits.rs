//! Placements of users whose connections do not come through us. There is no
//! tunnel that stands or ends, so both are taken for granted: the lease lingers
//! from the answer on, and for a while the user counts as a logon under way.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::keeper::Held;
use super::{Answer, Broker, Hold, PlaceError, Unplaced};
use crate::fleet::Seat;
use crate::placement::{Aim, FarmId, LeaseKey, Request, Timestamp, TunnelId, UNSEEN};

/// Users on their way by other ways.
#[derive(Default)]
pub(super) struct Visits {
    seats: Mutex<HashMap<(LeaseKey, FarmId), (u64, Seat)>>,
    made: AtomicU64,
}

impl Broker {
    /// Decides where a request goes whose connection does not come through us,
    /// and claims the place, by `deadline`. Where it placed somebody, also
    /// until when the lease lasts; that is in the store then.
    ///
    /// # Errors
    /// As for [`Self::place`]; nobody is placed then.
    pub async fn place_elsewhere(
        &self,
        request: &Request,
        deadline: Instant,
    ) -> Result<(Answer, Option<Timestamp>), Unplaced> {
        if let Some(earlier) = self.bound_for(request) {
            // Who asks again is one user on the way, not one more.
            self.visits.forget(&earlier, None);
        }
        let visit = TunnelId::from(format!("visit-{}", Uuid::now_v7()));
        let mut answer = self.place(request, &visit, deadline).await?;
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
        self.visits.expect((held.claim.key.clone(), farm), seat);
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
    /// Counts a user for as long as a logon may take.
    fn expect(self: &Arc<Self>, whose: (LeaseKey, FarmId), seat: Seat) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let before = self.lock().insert(whose.clone(), (number, seat));
        drop(before);
        let visits = Arc::clone(self);
        tokio::spawn(async move {
            sleep(UNSEEN).await;
            visits.forget(&whose, Some(number));
        });
    }

    /// Counts a user no more; only that visit, where a number is given.
    fn forget(&self, whose: &(LeaseKey, FarmId), number: Option<u64>) {
        let mut seats = self.lock();
        let is_meant = seats
            .get(whose)
            .is_some_and(|(known, _)| number.is_none_or(|number| number == *known));
        let gone = if is_meant { seats.remove(whose) } else { None };
        drop(seats);
        // The fleet hears of it without us holding anything.
        drop(gone);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(LeaseKey, FarmId), (u64, Seat)>> {
        // Nothing is half done behind a panic.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visits").finish_non_exhaustive()
    }
}
