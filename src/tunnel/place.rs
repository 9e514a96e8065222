//! The step between the complete `connect` and the one guacd gets: ask the
//! broker, and rewrite what it says.

use std::time::Duration;

use guac_protocol::Parameters;
use tokio::time::Instant;
use tracing::info;

use super::Gateway;
use super::line::Line;
use super::outcome::Outcome;
use super::resolve::Intent;
use super::rewrite::{rewrite, tag};
use super::stop::Stop;
use crate::broker::{Answer, Hold};
use crate::placement::{self, Conduct, Refusal, Request, TunnelId};

/// guacd hangs up 15 s after it last read something: what comes later is lost,
/// and the user would be logged on nowhere. Nothing is written past this.
const FENCE: Duration = Duration::from_secs(14);

impl Gateway {
    /// Settles what guacd will be told, in `parameters`. The hold is what the
    /// user has on the host, `None` for a connection that is none of ours.
    pub(super) async fn settle(
        &self,
        intent: &Intent,
        parameters: &mut Parameters,
        line: &Line,
        outcome: &mut Outcome,
    ) -> Result<Option<Hold>, Stop> {
        let request = match intent {
            Intent::Join(id) => {
                info!(tunnel = %outcome.tunnel(), connection = id.as_str(), "Joined");
                return Ok(None);
            }
            Intent::PassThrough(protocol) => {
                outcome.passed_through(protocol);
                return Ok(None);
            }
            Intent::Place(request) => request,
        };
        let fence = line.told_guacd() + FENCE;
        let deadline = fence.min(Instant::now() + self.placement_budget);
        match (self.broker.conduct(), request) {
            (Conduct::Observe, request) => {
                self.observe(request, deadline, outcome).await;
                Ok(None)
            }
            (Conduct::Broker, Ok(request)) => {
                self.place(request, parameters, deadline, outcome).await
            }
            (Conduct::Broker, Err(refusal)) => Err(Stop::Refused {
                refusal: refusal.clone(),
                decision: None,
            }),
        }
    }

    /// Decides, logs, and changes nothing; not even a broken store matters.
    async fn observe(
        &self,
        request: &Result<Box<Request>, Refusal>,
        deadline: Instant,
        outcome: &Outcome,
    ) {
        match request {
            Ok(request) => match self.broker.preview(request, deadline).await {
                Ok(answer) => outcome.observed(&answer.id, &answer.decision),
                Err(error) => info!(tunnel = %outcome.tunnel(), %error, "Would not decide"),
            },
            Err(reason) => info!(tunnel = %outcome.tunnel(), %reason, "Would refuse"),
        }
    }

    async fn place(
        &self,
        request: &Request,
        parameters: &mut Parameters,
        deadline: Instant,
        outcome: &mut Outcome,
    ) -> Result<Option<Hold>, Stop> {
        let mut round = 0_u32;
        loop {
            // Each claim has a name of its own: the end of one that was given
            // up is written later, and must not take the next one back.
            let claim = match round {
                0 => outcome.tunnel().clone(),
                round => TunnelId::from(format!("{}.{round}", outcome.tunnel())),
            };
            round += 1;
            let Answer {
                id,
                decision,
                directory,
                hold,
            } = self.broker.place(request, &claim, deadline).await?;
            let placement = match &decision.outcome {
                placement::Outcome::Placed(placement) => placement,
                placement::Outcome::Unmatched => {
                    outcome.passed_through("rdp");
                    return Ok(None);
                }
                placement::Outcome::Refused(refusal) => {
                    return Err(Stop::Refused {
                        refusal: refusal.clone(),
                        decision: Some(id),
                    });
                }
            };
            let mut rewritten = parameters.clone();
            let resource = decision.resource.as_ref();
            let tag = decision.user.is_none().then(|| tag(outcome.tunnel().as_str()));
            let names = rewrite(&mut rewritten, placement, &directory, resource, tag.as_deref());
            let names = names.map_err(|missing| Stop::Missing {
                name: missing.0,
                decision: id,
            })?;
            if Instant::now() >= deadline {
                return Err(Stop::PlacementTimeout);
            }
            if !self.broker.still_holds(&decision, placement) {
                continue;
            }
            *parameters = rewritten;
            outcome.placed(&id, &decision, placement, &names);
            return Ok(hold);
        }
    }
}
