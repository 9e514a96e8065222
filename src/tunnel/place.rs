//! The step between the complete `connect` and the one guacd gets: ask the
//! broker, and rewrite what it says.

use guac_protocol::Parameters;
use tokio::time::Instant;
use tracing::{Instrument, info};

use super::attempts::{FENCE, Placed};
use super::line::Line;
use super::outcome::Outcome;
use super::resolve::{Intent, Unreadable};
use super::stop::Stop;
use super::{Gateway, ids, trace};
use crate::broker::{Act, Again, Answer, Asked, PlaceError, Rewritten, Unplaced};
use crate::metrics::Cause;
use crate::placement::{self, Claims, Conduct, Request};

impl Gateway {
    /// Settles where the connection goes, by `latest`; `None`: where it went
    /// before, with the parameters as they are. A join may be of a `replica`'s
    /// tunnel.
    pub(super) async fn settle(
        &self,
        intent: &Intent,
        (parameters, replica): (&Parameters, Option<String>),
        line: &Line,
        latest: Instant,
        outcome: &Outcome,
    ) -> Result<Option<Placed>, Stop> {
        let request = match intent {
            Intent::Join(id) => {
                let ours = self.registry.find(&ids::read(id).id);
                let tunnel = ours.map(|owned| owned.tunnel.clone());
                outcome.joined(id.as_str(), tunnel, replica.as_deref());
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
                let first = Again::default();
                self.place(request, parameters, first, deadline, outcome)
                    .await
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

    /// Decides and rewrites; `None` for a connection that is none of ours.
    /// `parameters` are as Guacamole sent them.
    pub(super) async fn place(
        &self,
        request: &Request,
        parameters: &Parameters,
        mut again: Again,
        deadline: Instant,
        outcome: &Outcome,
    ) -> Result<Option<Placed>, Stop> {
        loop {
            let (tried, tunnel) = (again.tried.clone(), outcome.tunnel());
            let broker = &self.broker;
            let span = trace::placement();
            let placed = broker.place_again(request, tunnel, again, deadline);
            let placed = placed.instrument(span.clone()).await;
            match &placed {
                Ok(answer) => trace::decided(&span, &answer.id, &answer.decision),
                Err(unplaced) => trace::undecided(&span, &unplaced.id),
            }
            drop(span);
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
            let (placement, hold) = match (&decision.outcome, hold) {
                (placement::Outcome::Placed(placement), Some(hold)) => (placement.clone(), hold),
                // Whoever is placed has a hold.
                (placement::Outcome::Unmatched | placement::Outcome::Placed(_), _) => {
                    decisions.keep(record);
                    outcome.passed_through("rdp", self.broker.known_as(&request.claims));
                    return Ok(None);
                }
                (placement::Outcome::Refused(refusal), _) => {
                    decisions.keep(record);
                    return Err(Stop::Refused {
                        refusal: refusal.clone(),
                        orders: self.broker.orders_behind(&decision),
                        decision: id,
                    });
                }
            };
            let tag = decision.user.is_none().then(|| outcome.tunnel().tag());
            let mut placed = Placed {
                hold,
                id,
                decision,
                directory,
                placement,
                tag,
                parameters: parameters.clone(),
            };
            let names = match placed.rewrite(parameters.clone()) {
                Ok((rewritten, names)) if Instant::now() < deadline => {
                    placed.parameters = rewritten;
                    names
                }
                unusable => {
                    let (why, cause, stop) = match unusable {
                        Ok(_) => (
                            PlaceError::TimedOut.to_string(),
                            Cause::TimedOut,
                            Stop::PlacementTimeout {
                                decision: id,
                                awaited: None,
                            },
                        ),
                        Err(name) => (
                            format!("this guacd has no parameter {name}"),
                            Cause::MissingParameter,
                            Stop::Missing { name, decision: id },
                        ),
                    };
                    decisions.keep(record.failed(why, cause));
                    return Err(stop);
                }
            };
            if !self.still_holds(&placed) {
                // The host failed nobody: should it be right again, so be it.
                again = Again {
                    hold: Some(placed.hold),
                    tried,
                };
                continue;
            }
            decisions.keep(record.with(Rewritten {
                cleared: names.cleared.clone(),
                set: names.set.clone(),
                unknown: names.unknown.clone(),
            }));
            outcome.placed(&id, &placed.decision, &placed.placement, &names);
            return Ok(Some(placed));
        }
    }

    /// Whether a placement may still be acted on: checked last, right before
    /// guacd is told.
    pub(super) fn still_holds(&self, placed: &Placed) -> bool {
        self.broker.still_holds(&placed.decision, &placed.directory)
    }
}
