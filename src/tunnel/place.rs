//! The step between the complete `connect` and the one guacd gets: ask the
//! broker, and rewrite what it says.

use guac_protocol::Parameters;
use std::time::Duration;
use tokio::time::Instant;
use tracing::info;

use super::Gateway;
use super::line::Line;
use super::outcome::Outcome;
use super::resolve::Intent;
use super::rewrite::rewrite;
use super::stop::Stop;
use crate::broker::{Answer, Hold};
use crate::placement::{self, TunnelId};

/// guacd hangs up 15 s after it last read something: what comes later is lost,
/// and the user would be logged on nowhere. Nothing is written past this.
const FENCE: Duration = Duration::from_secs(14);

impl Gateway {
    /// Settles what guacd will be told, in `parameters`, by `latest`. The hold is what the
    /// user has on the host, `None` for a connection that is none of ours.
    pub(super) async fn settle(
        &self,
        intent: &Intent,
        parameters: &mut Parameters,
        line: &Line,
        latest: Instant,
        outcome: &mut Outcome,
    ) -> Result<Option<Hold>, Stop> {
        match intent {
            Intent::Join(id) => {
                info!(tunnel = %outcome.tunnel(), connection = id.as_str(), "Joined");
                Ok(None)
            }
            Intent::PassThrough(protocol) => {
                info!(tunnel = %outcome.tunnel(), protocol, "Passed through");
                Ok(None)
            }
            Intent::Place(Err(refusal)) => Err(Stop::Refused {
                refusal: refusal.clone(),
                decision: None,
            }),
            Intent::Place(Ok(request)) => {
                let fence = line.told_guacd() + FENCE;
                let budget = Instant::now() + self.placement_budget;
                let deadline = fence.min(budget).min(latest);
                self.place(request, parameters, deadline, outcome).await
            }
        }
    }

    async fn place(
        &self,
        request: &placement::Request,
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
            let answer = self.broker.place(request, &claim, deadline).await?;
            let Answer { id, decision, hold } = answer;
            let placement = match &decision.outcome {
                placement::Outcome::Placed(placement) => placement,
                placement::Outcome::Unmatched => {
                    info!(tunnel = %outcome.tunnel(), protocol = "rdp", "Passed through");
                    return Ok(None);
                }
                placement::Outcome::Refused(refusal) => {
                    return Err(Stop::Refused {
                        refusal: refusal.clone(),
                        decision: Some(id),
                    });
                }
            };
            let cleared = rewrite(parameters, placement).map_err(|missing| Stop::Missing {
                name: missing.0,
                decision: id,
            })?;
            if Instant::now() >= deadline {
                return Err(Stop::PlacementTimeout);
            }
            if !self.broker.still_holds(&decision, placement) {
                continue;
            }
            outcome.placed(&id, &decision, placement, &cleared);
            return Ok(hold);
        }
    }
}
