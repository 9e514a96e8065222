//! From a placement to a desktop, on whichever host of the farm gives one.
//!
//! ```text
//! Guacamole          Waiting              Gateway              guacd, host
//!     |<-- ready -----  |                    |
//!     |                 |              check host ------------------->|
//!     |                 |              connect -------> ready -->     |
//!     |-- key, nop -->  kept           held back <------------- error |
//!     |<-- nop ------   |              blame, place_again             |
//!     |                 |              connect -------> ready -->     |
//!     |                 |              held back <-------------- sync |
//!     |<======== what was held back; then the relay goes on ========>|
//! ```
//!
//! The page sees one clean start: one `ready`, and the output of the attempt
//! that stood. What lets the user down is tried elsewhere by the attempts and
//! the deadline in force; wrong passwords, prompts and silence never are.

mod failure;
mod one;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use guac_protocol::{Instruction, Parameters};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, warn};

use super::outcome::{Outcome, Phase};
use super::registry::{Owned, Registered};
use super::rewrite::{Missing, Rewritten, rewrite};
use super::stop::Stop;
use super::{Gateway, Ready, trace};
use crate::broker::{Again, Check, DecisionId, Hold};
use crate::config;
use crate::metrics::Attempted;
use crate::placement::{Decision, Directory, HostId, Placement, Reason, Refusal, Request};

pub(super) use failure::blames;
use failure::{Failure, Tried};
use one::Came;
pub(super) use waiting::{FENCE, Waiting};

/// How long guacd may say nothing before its host is asked whether it is there
/// at all, and from one such question to the next.
const SILENCE: Duration = Duration::from_secs(5);

/// Before a user is sent to the same host again, whose session is there.
const BREATHER: Duration = Duration::from_secs(1);

/// Most hosts that are asked at once since another one is gone.
const AROUND: usize = 16;

/// What is asked for, for as long as it may have to be asked again.
pub(super) struct Errand {
    pub(super) request: Box<Request>,
    /// As Guacamole sent them; every rewriting begins here.
    pub(super) parameters: Parameters,
    /// What Guacamole said between `args` and `connect`, in order.
    pub(super) settings: Vec<Instruction>,
    /// What `select` asked for.
    pub(super) protocol: String,
    /// guacd as it was configured when Guacamole came.
    pub(super) guacd: config::GuacdPool,
    /// How long guacd may leave untaken what waits for it.
    pub(super) stall: Duration,
    /// Most hosts that guacd is sent to.
    pub(super) most: usize,
    /// Until when it is worth trying; then what is under way goes on alone.
    pub(super) deadline: Instant,
    /// The longest one placement may take.
    pub(super) placement: Duration,
}

/// A place on a host, and what guacd is told to get there.
pub(super) struct Placed {
    pub(super) hold: Hold,
    pub(super) id: DecisionId,
    pub(super) decision: Decision,
    pub(super) directory: Arc<Directory>,
    pub(super) placement: Placement,
    /// Marks a tunnel without a user.
    pub(super) tag: Option<String>,
    /// For the guacd whose `args` Guacamole was shown.
    pub(super) parameters: Parameters,
}

impl Placed {
    fn host(&self) -> &HostId {
        &self.placement.host
    }

    /// How long its resource may be tried for, from `select` on, where it says
    /// so.
    pub(super) fn attempt_deadline(&self) -> Option<Duration> {
        let resource = self.decision.resource.as_ref()?;
        self.directory.resource(resource)?.attempt_deadline
    }

    /// What a guacd is told to get there, which asks for these names.
    pub(super) fn rewrite(
        &self,
        mut answers: Parameters,
    ) -> Result<(Parameters, Rewritten), &'static str> {
        let (directory, resource) = (&self.directory, self.decision.resource.as_ref());
        let tag = self.tag.as_deref();
        match rewrite(&mut answers, &self.placement, directory, resource, tag) {
            Ok(names) => Ok((answers, names)),
            Err(Missing(name)) => Err(name),
        }
    }
}

impl Gateway {
    /// Tells Guacamole that it is served, and tries until a desktop stands, or
    /// until nothing is left to be tried.
    pub(super) async fn attempts(
        &self,
        waiting: &mut Waiting,
        errand: &Errand,
        mut placed: Placed,
        outcome: &mut Outcome,
    ) -> Result<Ready, Stop> {
        outcome.phase = Phase::Attempting;
        let issued = self.registry.issue_ahead();
        waiting.tell_ready(issued.id()).await?;
        let mut tried = Tried::default();
        loop {
            outcome.attempts += 1;
            let began = Instant::now();
            let tunnel = outcome.tunnel();
            let span = trace::attempt(outcome.attempts, placed.host());
            let came = self.attempt(waiting, &placed, errand, &mut tried, tunnel);
            let came = came.instrument(span.clone()).await;
            trace::attempted(&span, what_came(&came));
            // It ends here.
            drop(span);
            self.metrics.attempted(what_came(&came));
            match came? {
                Came::Stood(owned) => {
                    if !tried.is_first() {
                        self.metrics.saved();
                    }
                    return Ok(ready_for(issued, owned, placed));
                }
                Came::Released(owned) => return Ok(ready_for(issued, owned, placed)),
                Came::Failed(failure) => {
                    waiting.hang_up();
                    let is_awaited = tried.has(placed.host());
                    tried.add(placed.host(), &failure);
                    let asked = match failure.is_errorless() {
                        true => waiting.meanwhile(self.broker.check(placed.host())).await,
                        false => Ok(Check::Unknown),
                    };
                    tried.ended_without_an_error(matches!(asked, Ok(Check::Answers)));
                    self.given_up(&placed, &failure, &mut tried, errand, (began, outcome));
                    asked?;
                    if is_over(&tried, errand) {
                        return Err(no_desktop(&tried, placed.id, is_awaited));
                    }
                }
                Came::Void => waiting.hang_up(),
            }
            placed = self
                .next_place(waiting, placed, &tried, errand, outcome)
                .await?;
        }
    }

    /// The line of an attempt that is given up, and what it means for the host.
    fn given_up(
        &self,
        placed: &Placed,
        failure: &Failure,
        tried: &mut Tried,
        errand: &Errand,
        (began, outcome): (Instant, &Outcome),
    ) {
        let message = match is_over(tried, errand) {
            true => "Host failed before the desktop stood",
            false => "Host failed before the desktop stood, trying the next",
        };
        warn!(
            tunnel = %outcome.tunnel(),
            decision_id = %placed.id,
            host = %placed.host(),
            attempt = outcome.attempts,
            reason = %failure,
            status = failure.status(),
            spent_seconds = began.elapsed().as_secs_f64(),
            "{message}"
        );
        match failure {
            Failure::Ended(_) => placed.hold.failed(),
            Failure::Lost => tried.suspect(placed.hold.unexplained()),
            // The question has been put; what one host has may have taken others.
            Failure::NotThere(_) | Failure::Died(_) => return self.look_around(placed, tried),
        }
        self.look_at(placed.host());
    }

    /// Has the other hosts asked that could be next, all at once: where many are
    /// gone together, the user waits for one answer and not for one after the
    /// other.
    fn look_around(&self, placed: &Placed, tried: &Tried) {
        let candidates = placed.decision.candidates.iter();
        let open = candidates.filter(|candidate| candidate.exclusion.is_none());
        let next = open.map(|candidate| &candidate.host);
        let next = next.filter(|host| !tried.has(host));
        next.take(AROUND).for_each(|host| self.look_at(host));
    }

    /// Where to try next: another host, or the same where the user has a session
    /// there.
    async fn next_place(
        &self,
        waiting: &mut Waiting,
        placed: Placed,
        tried: &Tried,
        errand: &Errand,
        outcome: &mut Outcome,
    ) -> Result<Placed, Stop> {
        let failed = placed.id;
        let again = Again {
            hold: Some(placed.hold),
            tried: tried.hosts.clone(),
        };
        let next = self
            .place_again(waiting, again, (failed, tried), errand, outcome)
            .await?;
        if !tried.has(next.host()) {
            return Ok(next);
        }
        // Its session is there, and the host may be on its way back; or another
        // page of the user is bound for it, too: as long as each keeps its place
        // neither can go elsewhere.
        let decision = next.id;
        let kept = Some(next).filter(|next| next.placement.reason != Reason::Tunnel);
        let rest = errand.deadline.min(Instant::now() + BREATHER);
        waiting.meanwhile(sleep_until(rest)).await?;
        if Instant::now() >= errand.deadline {
            return Err(no_desktop(tried, decision, true));
        }
        match kept {
            Some(next) => Ok(next),
            None => {
                let again = Again {
                    hold: None,
                    tried: tried.hosts.clone(),
                };
                self.place_again(waiting, again, (decision, tried), errand, outcome)
                    .await
            }
        }
    }

    /// A place, or why there is none; `failed` was the last decision.
    async fn place_again(
        &self,
        waiting: &mut Waiting,
        again: Again,
        (failed, tried): (DecisionId, &Tried),
        errand: &Errand,
        outcome: &Outcome,
    ) -> Result<Placed, Stop> {
        let deadline = errand.deadline.min(Instant::now() + errand.placement);
        let next = self.place(
            &errand.request,
            &errand.parameters,
            again,
            deadline,
            outcome,
        );
        match waiting.meanwhile(next).await? {
            Ok(Some(next)) => Ok(next),
            refused => {
                let stop = refused.err().unwrap_or(Stop::Refused {
                    // A reload took its resource away: it cannot go where it
                    // would have gone without us any more.
                    refusal: Refusal::Unmatched,
                    decision: failed,
                    orders: None,
                });
                if tried.is_first() {
                    return Err(stop);
                }
                // What the page is told is how its desktop failed.
                let decision = stop.decision().unwrap_or(failed);
                Err(no_desktop(tried, decision, false))
            }
        }
    }
}

/// Whether nobody else is tried after what has failed.
fn is_over(tried: &Tried, errand: &Errand) -> bool {
    tried.visits() >= errand.most || tried.may_be_the_user() || Instant::now() >= errand.deadline
}

/// Nothing is left. `is_awaited`: the user's session is on the host that failed
/// last, so that the page shall come back by itself, whatever guacd said.
fn no_desktop(tried: &Tried, decision: DecisionId, is_awaited: bool) -> Stop {
    Stop::NoDesktop {
        hosts: tried.names(),
        status: tried.status().filter(|_| !is_awaited),
        decision,
    }
}

fn ready_for(mut issued: Registered, owned: Owned, placed: Placed) -> Ready {
    issued.settle(owned);
    Ready {
        hold: Some(placed.hold),
        issued: Some(issued),
    }
}

fn what_came(came: &Result<Came, Stop>) -> Attempted {
    match came {
        Ok(Came::Stood(_)) => Attempted::Stood,
        Ok(Came::Released(_)) => Attempted::Released,
        Ok(Came::Failed(Failure::NotThere(_))) => Attempted::NotThere,
        Ok(Came::Failed(Failure::Ended(_) | Failure::Lost)) => Attempted::Failed,
        Ok(Came::Failed(Failure::Died(_))) => Attempted::Died,
        Ok(Came::Void) => Attempted::Void,
        Err(_) => Attempted::Stopped,
    }
}
