//! What a placement owes to other replicas: it says up to where it has seen
//! what they placed and what was ordered. Where an order, or more than its host
//! has room for, came since, it takes that over and decides again.

use std::time::Duration;

use tokio::time::sleep;
use uuid::Uuid;

use super::placing::PENDING_PAUSE;
use super::{Answer, Broker};
use crate::placement::{
    Decision, LeaseKey, Mode, Occupancy, Origin, Outcome, Placement, Reason, ResourceId, Snapshot,
    Timestamp,
};
use crate::store::{Footing, StoreError, Versioned};

/// Longest wait before a placement that was behind decides again, besides what
/// taking over takes.
const LONGEST: Duration = Duration::from_millis(40);

/// How often in a row a placement was behind.
#[derive(Debug, Default)]
pub(super) struct Behind(u32);

impl Behind {
    /// How long to wait. The first time not at all; then, where replicas fill the
    /// same host, each for another while, so that one of them gets through.
    fn pause(&mut self) -> Duration {
        let span = Duration::from_millis(1) * 2_u32.saturating_pow(self.0.min(10));
        let span = span.min(LONGEST);
        self.0 = self.0.saturating_add(1);
        match self.0 {
            1 => Duration::ZERO,
            _ => span.mul_f64(chance()),
        }
    }
}

/// Anything from 0 to 1.
fn chance() -> f64 {
    let [.., last] = Uuid::new_v4().into_bytes();
    f64::from(last) / f64::from(u8::MAX)
}

/// Up to where the decision's picture has seen what concerns its host, and how
/// much of what it has not seen would leave the decision a right one.
pub(super) fn footing(snapshot: &Snapshot, decision: &Decision) -> Option<Footing> {
    let Outcome::Placed(placement) = &decision.outcome else {
        return None;
    };
    let view = snapshot.hosts.get(&placement.host);
    Some(Footing {
        host: placement.host.clone(),
        standing: view.map(|view| view.standing).unwrap_or_default(),
        room: room(snapshot, decision, placement),
    })
}

/// How many more than this one the host could take, as the picture has it. Each
/// claim adds one user and one logon at most.
fn room(snapshot: &Snapshot, decision: &Decision, placement: &Placement) -> u32 {
    if placement.reason == Reason::Tunnel {
        // The user is there already and counts once.
        return u32::MAX;
    }
    let host = &placement.host;
    let known = decision.candidates.iter().find(|it| it.host == *host);
    let Some((known, caps)) = known.zip(snapshot.directory.caps(host)) else {
        return 0;
    };
    let Occupancy {
        users,
        pending,
        pending_cap,
    } = known.occupancy;
    // Who comes back is bound by logons alone.
    let most = caps
        .max_sessions
        .filter(|_| placement.reason == Reason::Score);
    let seats = most.map_or(u32::MAX, |most| most.saturating_sub(users));
    let logons = pending_cap.saturating_sub(pending);
    seats.min(logons).saturating_sub(1)
}

impl Broker {
    /// Returns once what others wrote is in the picture.
    pub(super) async fn catch_up(&self, behind: &mut Behind) -> Result<(), StoreError> {
        match self.catching_up() {
            Some(catch_up) => {
                let pause = behind.pause();
                if !pause.is_zero() {
                    sleep(pause).await;
                }
                catch_up.now().await
            }
            None => {
                sleep(PENDING_PAUSE).await;
                Ok(())
            }
        }
    }

    /// A record that was just read may be newer than the picture, which must not
    /// count what is over by then.
    pub(super) fn note_read(&self, key: Option<&LeaseKey>, known: &Versioned) {
        if let Some(key) = key.filter(|_| self.catching_up().is_some() && !known.record.is_empty())
        {
            self.fleet.note_leases(key, known, self.clock.now());
        }
    }

    /// Whether a decision that claims nothing may be acted on: an order that was
    /// acknowledged before it was made, at whichever replica, must bind it, and
    /// there is no write that would find out.
    pub(super) async fn may_still_take(&self, answer: &Answer) -> Result<bool, StoreError> {
        let (Some(catch_up), Outcome::Placed(placement)) =
            (self.catching_up(), &answer.decision.outcome)
        else {
            return Ok(true);
        };
        catch_up.now().await?;
        let snapshot = self.fleet.snapshot();
        let view = snapshot.hosts.get(&placement.host);
        // Nobody whom a lease could lead back is anything but new.
        Ok(view.is_some_and(|view| view.mode(self.clock.now()) == Mode::Online))
    }

    /// What others are told of a tunnel that is placed now.
    pub(super) fn origin(&self, resource: Option<&ResourceId>, now: Timestamp) -> Option<Origin> {
        Some(Origin {
            replica: self.leases.fleet.replica()?,
            resource: resource.cloned(),
            since: now,
            stood: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_nobody_waits_and_later_never_for_long() {
        let mut behind = Behind::default();
        assert_eq!(behind.pause(), Duration::ZERO);
        assert!((0..50).all(|_| behind.pause() <= LONGEST));
    }
}
