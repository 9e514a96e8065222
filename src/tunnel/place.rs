//! The step between the complete `connect` and the one guacd gets: ask the
//! broker, and rewrite what it says.

use std::time::Duration;

use guac_protocol::Parameters;
use tokio::time::Instant;
use tracing::info;

use super::Gateway;
use super::line::Line;
use super::outcome::Outcome;
use super::resolve::{Intent, Unreadable};
use super::rewrite::{Missing, rewrite};
use super::stop::Stop;
use crate::broker::{Act, Again, Answer, Asked, Hold, PlaceError, Rewritten, Unplaced};
use crate::metrics::Cause;
use crate::placement::{self, Claims, Conduct, Request};

/// guacd hangs up 15 s after it last read something: what comes later is lost,
/// and the user would be logged on nowhere. Nothing is written past this.
const FENCE: Duration = Duration::from_secs(14);

impl Gateway {
    /// Settles what guacd will be told, in `parameters`, by `latest`.
    /// The hold is what the user has on the host, `None` for a connection that is none of ours.
    pub(super) async fn settle(
        &self,
        intent: &Intent,
        parameters: &mut Parameters,
        line: &Line,
        latest: Instant,
        outcome: &mut Outcome,
    ) -> Result<Option<Hold>, Stop> {
        let request = match intent {
            Intent::Join(id) => {
                let joined = self.registry.find(id).map(|owned| owned.tunnel);
                outcome.joined(id.as_str(), joined);
                return Ok(None);
            }
            Intent::PassThrough(protocol) => {
                // The names in its parameters are of another world than ours.
                let claims = Claims {
                    name: line.user_name().to_owned(),
                    ..Claims::default()
                };
                outcome.passed_through(protocol, self.broker.known_as(&claims));
                return Ok(None);
            }
            Intent::Place(request) => request,
        };
        let fence = line.told_guacd() + FENCE;
        let deadline = fence.min(latest);
        match (self.broker.conduct(), request) {
            (Conduct::Observe, request) => {
                self.observe(request, deadline, outcome).await;
                Ok(None)
            }
            (Conduct::Broker, Ok(request)) => {
                self.place(request, parameters, deadline, outcome).await
            }
            (Conduct::Broker, Err(unreadable)) => {
                let answer = self.turn_away(unreadable, Act::Placement, outcome);
                Err(Stop::Refused {
                    refusal: unreadable.refusal.clone(),
                    decision: answer.id,
                    orders: None,
                })
            }
        }
    }

    /// Keeps the decision on a question that cannot be understood.
    fn turn_away(&self, unreadable: &Unreadable, act: Act, outcome: &Outcome) -> Answer {
        let answer = self.broker.unreadable(&unreadable.refusal);
        let asked = Asked::by(&unreadable.claims).at(&unreadable.hostname);
        let record = self.broker.record(&answer, act, asked);
        self.broker.decisions().keep(record.by(outcome.tunnel()));
        answer
    }

    /// Keeps what came to nothing.
    fn gave_up(&self, unplaced: &Unplaced, act: Act, request: &Request, outcome: &Outcome) {
        let asked = Asked::from(request);
        let record = self.broker.record_unplaced(unplaced, act, asked);
        self.broker.decisions().keep(record.by(outcome.tunnel()));
    }

    /// Decides, logs, and changes nothing; not even a broken store matters.
    async fn observe(
        &self,
        request: &Result<Box<Request>, Box<Unreadable>>,
        deadline: Instant,
        outcome: &Outcome,
    ) {
        let request = match request {
            Ok(request) => request,
            Err(unreadable) => {
                let answer = self.turn_away(unreadable, Act::Observation, outcome);
                outcome.observed(&answer.id, &answer.decision);
                return;
            }
        };
        match self.broker.preview(request, deadline).await {
            Ok(answer) => {
                let asked = Asked::from(request.as_ref());
                let record = self.broker.record(&answer, Act::Observation, asked);
                self.broker.decisions().keep(record.by(outcome.tunnel()));
                outcome.observed(&answer.id, &answer.decision);
            }
            Err(unplaced) => {
                self.gave_up(&unplaced, Act::Observation, request, outcome);
                let (tunnel, decision_id) = (outcome.tunnel(), unplaced.id);
                info!(%tunnel, %decision_id, error = %unplaced.error, "Would not decide");
            }
        }
    }

    async fn place(
        &self,
        request: &Request,
        parameters: &mut Parameters,
        deadline: Instant,
        outcome: &mut Outcome,
    ) -> Result<Option<Hold>, Stop> {
        let mut again = Again::default();
        loop {
            let tunnel = outcome.tunnel();
            let placed = self
                .broker
                .place_again(request, tunnel, again, deadline)
                .await;
            let answer = placed.inspect_err(|unplaced| {
                self.gave_up(unplaced, Act::Placement, request, outcome);
            })?;
            let record = self
                .broker
                .record(&answer, Act::Placement, Asked::from(request));
            let record = record.by(outcome.tunnel());
            let decisions = self.broker.decisions();
            let Answer {
                id,
                decision,
                directory,
                hold,
                ..
            } = answer;
            let placement = match &decision.outcome {
                placement::Outcome::Placed(placement) => placement,
                placement::Outcome::Unmatched => {
                    decisions.keep(record);
                    outcome.passed_through("rdp", self.broker.known_as(&request.claims));
                    return Ok(None);
                }
                placement::Outcome::Refused(refusal) => {
                    decisions.keep(record);
                    return Err(Stop::Refused {
                        refusal: refusal.clone(),
                        orders: self.broker.orders_behind(&decision),
                        decision: id,
                    });
                }
            };
            let mut rewritten = parameters.clone();
            let resource = decision.resource.as_ref();
            let tag = decision.user.is_none().then(|| outcome.tunnel().tag());
            let names = rewrite(
                &mut rewritten,
                placement,
                &directory,
                resource,
                tag.as_deref(),
            );
            let names = match names {
                Ok(names) if Instant::now() < deadline => names,
                unusable => {
                    let (why, cause, stop) = match unusable {
                        Ok(_) => (
                            PlaceError::TimedOut.to_string(),
                            Cause::TimedOut,
                            Stop::PlacementTimeout { decision: id },
                        ),
                        Err(Missing(name)) => (
                            format!("this guacd has no parameter {name}"),
                            Cause::MissingParameter,
                            Stop::Missing { name, decision: id },
                        ),
                    };
                    decisions.keep(record.failed(why, cause));
                    return Err(stop);
                }
            };
            if !self.broker.still_holds(&decision, &directory) {
                // The host failed nobody: should it be right again, so be it.
                again = Again {
                    hold,
                    ..Again::default()
                };
                continue;
            }
            *parameters = rewritten;
            decisions.keep(record.with(Rewritten {
                cleared: names.cleared.clone(),
                set: names.set.clone(),
                unknown: names.unknown.clone(),
            }));
            outcome.placed(&id, &decision, placement, &names);
            return Ok(hold);
        }
    }
}
