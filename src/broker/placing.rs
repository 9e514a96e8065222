//! One placement: decide and take the seat in one step, claim the lease in the
//! next, and start again where somebody else was faster.
//!
//! A tunnel whose host failed it is placed once more in the same two steps: its
//! seat moves and its claim moves, and at no moment has its user neither.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument, info_span};

use super::degraded::{Look, Recalled, leads_back};
use super::footing::{Behind, footing};
use super::keeper::{Claim, Guest, Held};
use super::{Answer, Broker, DecisionId, Hold, PlaceError, Unplaced, lease_key};
use crate::placement::{
    Aim, Candidate, Directory, Exclusion, HostId, Outcome, Refusal, Request, Snapshot, TunnelId,
    decide,
};
use crate::store::{Footing, Replaced, StoreError};

/// How long a placement waits for room before it looks again by itself.
pub(super) const PENDING_PAUSE: Duration = Duration::from_millis(250);

/// What a tunnel brings along that must be placed once more.
#[derive(Debug, Default)]
pub struct Again {
    /// The place it has so far. It counts for nothing in the decision, and is
    /// given up by the very write that claims the next one. Where there is no
    /// next one it is dropped with the answer.
    pub hold: Option<Hold>,
    /// The hosts that failed it: no new session of its user is opened there.
    /// Who comes back to a session or a lease is placed on its host all the
    /// same, and tries that again.
    pub tried: BTreeSet<HostId>,
}

/// What a round is made by, and what earlier ones left.
#[derive(Debug, Default)]
struct Course {
    look: Look,
    /// A claim that may have been written, or not.
    in_doubt: Option<Held>,
}

impl Course {
    fn doubt(&mut self, held: Held) {
        self.is_settled_by(&held);
        self.in_doubt = Some(held);
    }

    /// The same tunnel's next claim takes its place, whatever became of it: an
    /// end told now would take that back.
    fn is_settled_by(&mut self, held: &Held) {
        if let Some(doubted) = self.in_doubt.take_if(|it| held.follows(it)) {
            doubted.void();
        }
    }
}

/// What came of one round.
enum Round {
    /// That is it.
    Answer(Box<Answer>),
    /// Somebody wrote in between: decide again.
    Again,
    /// Other replicas placed somebody on that host, or an order was given for
    /// it: take that over, then decide again.
    Behind,
}

/// Of the picture that a decision was made on.
#[derive(Default)]
struct Seen {
    directory: Arc<Directory>,
    configuration: u64,
    footing: Option<Footing>,
}

impl Round {
    fn not_claimed(claimed: Replaced) -> Self {
        match claimed {
            Replaced::Behind => Self::Behind,
            Replaced::Done(_) | Replaced::Conflict => Self::Again,
        }
    }
}

impl Broker {
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
    ) -> Result<Answer, Unplaced> {
        let first = Again::default();
        self.place_again(request, tunnel, first, deadline).await
    }

    /// The same for a tunnel that was placed and whose host failed it: decides
    /// as if it had never been placed, besides what it has tried. Another
    /// tunnel of its user still decides alone, and an older lease that its claim
    /// replaced is there again.
    ///
    /// # Errors
    /// As for [`Self::place`]; what it had is given up then, too.
    pub async fn place_again(
        &self,
        request: &Request,
        tunnel: &TunnelId,
        again: Again,
        deadline: Instant,
    ) -> Result<Answer, Unplaced> {
        let (id, began) = (DecisionId::mint(), Instant::now());
        let Again { mut hold, tried } = again;
        let mut request = Cow::Borrowed(request);
        if !tried.is_empty() {
            request.to_mut().tried.extend(tried);
        }
        let mut last = None;
        let placed = timeout_at(deadline, async {
            // What leads to no farm needs no host, and must not wait for one.
            if Aim::take(&self.fleet.snapshot(), &request).is_ok() {
                self.fleet.probed().await;
            }
            let (mut behind, mut course) = (Behind::default(), Course::default());
            loop {
                let attempt = self.attempt(id, &request, tunnel, &mut hold, &mut course);
                let mut round = attempt.await;
                if matches!(round, Ok(Round::Behind)) {
                    let caught_up = self.catch_up(&mut behind).await;
                    round = caught_up.map(|()| Round::Again).map_err(PlaceError::from);
                }
                if let Err(error) = round {
                    course.look = Look::Memory;
                    let attempt = self.attempt(id, &request, tunnel, &mut hold, &mut course);
                    round = attempt.await.map_err(|_| error);
                }
                course.look = Look::Afresh;
                let Round::Answer(answer) = round? else {
                    continue;
                };
                let answer = *answer;
                if !passes_by_itself(&answer) {
                    return Ok(answer);
                }
                let news = self.fleet.newer_than(answer.decision.generation);
                last = Some(Box::new(answer));
                let _ = timeout(PENDING_PAUSE, news).await;
            }
        });
        let placed = placed.await.unwrap_or(Err(PlaceError::TimedOut));
        self.decisions.metrics().placed_within(began.elapsed());
        placed.map_err(|error| Unplaced { id, last, error })
    }

    /// One round. From memory it claims nothing: the keeper does, once it can.
    /// `earlier` is what the tunnel has, taken only once something else is claimed: whoever
    /// drops this in the middle drops that, too.
    async fn attempt(
        &self,
        id: DecisionId,
        request: &Request,
        tunnel: &TunnelId,
        earlier: &mut Option<Hold>,
        course: &mut Course,
    ) -> Result<Round, PlaceError> {
        let look = course.look;
        let key = lease_key(&self.fleet, request);
        let Recalled { known, is_cached } = self.recall(key.as_ref(), look).await?;
        if look == Look::Afresh {
            self.note_read(key.as_ref(), &known);
        }
        let (mut record, now) = (known.record, self.clock.now());
        if let Some(held) = earlier.as_ref().and_then(|hold| hold.lease.as_ref()) {
            let lease = self.fleet.snapshot().directory.rules().lease;
            record.end(&held.claim.tunnel, lease, now);
        }
        let mut seen = None;
        let by_record = |snapshot: &Snapshot| {
            let mut decision = decide(snapshot, request, &record, now);
            if look == Look::Memory {
                leads_back(&mut decision, snapshot, &record, now);
            }
            seen = Some(Seen {
                directory: Arc::clone(&snapshot.directory),
                configuration: snapshot.configuration,
                footing: footing(snapshot, &decision),
            });
            decision
        };
        let (decision, seat, seated) = match earlier {
            Some(hold) => {
                let seat = &mut hold.seat;
                let (decision, moved) = self.fleet.move_seat(seat, tunnel, now, by_record);
                (decision, None, moved)
            }
            None => {
                let (decision, seat) = self.fleet.seat(tunnel, now, by_record);
                let seated = seat.is_some();
                (decision, seat, seated)
            }
        };
        if decision.key != key {
            // The configuration changed in between: another record rules.
            return Ok(Round::Again);
        }
        let Seen {
            directory,
            configuration,
            footing,
        } = seen.unwrap_or_default();
        let mut answer = Answer {
            id,
            directory,
            configuration,
            decision,
            hold: None,
        };
        let decision = &answer.decision;
        let (true, Some(farm), Outcome::Placed(placement)) =
            (seated, &decision.farm, &decision.outcome)
        else {
            return match (look, is_cached) {
                (Look::Memory, _) => Err(PlaceError::Away),
                // Nobody is refused by what may have changed.
                (_, true) => Ok(Round::Again),
                (_, false) => Ok(Round::Answer(Box::new(answer))),
            };
        };
        let mut lease = None;
        // The decision's own: what the fleet counts has the same ones.
        if let Some((key, user)) = decision.key.clone().zip(decision.user.clone()) {
            // Made before the claim: cancelled while the claim is being
            // written, it still gives back what may have been written.
            let held = self.keeper.held(Claim {
                key,
                farm: farm.clone(),
                host: placement.host.clone(),
                tunnel: tunnel.clone(),
                user,
                trust: decision.trust,
                origin: self.origin(decision.resource.as_ref(), now).map(Box::new),
            });
            let may_claim = record.claim(farm, &placement.host, tunnel, decision.trust, now);
            let mut claimed = Replaced::Conflict;
            if may_claim && look == Look::Memory {
                claimed = Replaced::Done(known.version);
            } else if may_claim {
                held.claim.tell_origin(&mut record);
                let key = &held.claim.key;
                let footing = footing.filter(|_| self.leases.store.is_shared());
                let written = self.leases.write(key, known.version, record, footing);
                let span = info_span!(target: "trace", "claim");
                claimed = match written.instrument(span).await {
                    Err(StoreError::InDoubt { .. }) => {
                        course.doubt(held);
                        return Ok(Round::Again);
                    }
                    written => written?,
                };
            }
            match claimed {
                Replaced::Done(_) => lease = Some(held),
                // The moment moved on, or somebody wrote in between: again.
                Replaced::Conflict | Replaced::Behind => {
                    held.void();
                    return Ok(Round::not_claimed(claimed));
                }
            }
        } else if !self.may_still_take(&answer).await? {
            return Ok(Round::Again);
        }
        let seat = match earlier.take() {
            None => seat,
            Some(Hold {
                seat, lease: ended, ..
            }) => {
                // The write ended it: an end told now would take the new claim
                // back. One that stood elsewhere ends by itself.
                if let Some(ended) = ended
                    && lease.as_ref().is_some_and(|held| held.follows(&ended))
                {
                    ended.void();
                }
                Some(seat)
            }
        };
        if let Some(held) = &lease {
            course.is_settled_by(held);
            held.claimed();
        }
        let guest = lease.is_none().then(|| {
            Box::new(Guest {
                tunnel: tunnel.clone(),
                tell: self.keeper.clone(),
            })
        });
        answer.hold = seat.map(|seat| Hold {
            seat,
            lease,
            _guest: guest,
            tell: self.keeper.clone(),
        });
        Ok(Round::Answer(Box::new(answer)))
    }
}

/// Whether to ask again in a moment is worth the wait. Logons under way end, and
/// a slow start grows, by themselves; and where nobody else can take the user, a
/// host that a reload brought or moved will have been probed soon.
fn passes_by_itself(answer: &Answer) -> bool {
    let not_probed = |candidate: &Candidate| candidate.exclusion == Some(Exclusion::NotProbed);
    match answer.refusal() {
        Some(Refusal::LogonsPending(_)) => true,
        Some(Refusal::Busy(_) | Refusal::Unreachable(_)) => {
            answer.decision.candidates.iter().any(not_probed)
        }
        _ => false,
    }
}
