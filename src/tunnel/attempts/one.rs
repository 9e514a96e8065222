//! One attempt: is the host there, does guacd take it, does a desktop appear.

use std::time::Duration;

use guac_protocol::{Progress, Select, Side};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, warn};

use super::super::pool::{Dialled, FIRST_WORD};
use super::super::registry::Owned;
use super::super::stop::Stop;
use super::super::{ARGS_WITHIN, Gateway};
use super::failure::{Failure, Tried, blames};
use super::waiting::{First, Waiting};
use super::{Errand, Placed, SILENCE};
use crate::broker::Check;
use crate::placement::TunnelId;

/// How long guacd may take however late it is: it says `ready` at once, unless
/// it is ill.
const READY_AT_LEAST: Duration = Duration::from_secs(2);

/// What came of one attempt.
pub(super) enum Came {
    /// The RDP connection stands.
    Stood(Owned),
    /// Not known, but nobody is tried after this one: what was held back goes
    /// to the page, and guacd speaks to it from here on.
    Released(Owned),
    /// The host failed.
    Failed(Failure),
    /// The placement does not hold any more; the host was not tried.
    Void,
}

impl Gateway {
    /// Tries the placement to its end, or to the deadline.
    pub(super) async fn attempt(
        &self,
        waiting: &mut Waiting,
        placed: &Placed,
        errand: &Errand,
        tried: &mut Tried,
        tunnel: &TunnelId,
    ) -> Result<Came, Stop> {
        let host = placed.host();
        // A host that is not there costs no guacd connection.
        if let Check::Fails(why) = waiting.meanwhile(self.broker.check(host)).await? {
            return Ok(Came::Failed(Failure::NotThere(why.to_string())));
        }
        let connected = match self.connect(waiting, placed, errand, tried, tunnel).await {
            // guacd's own trouble is not the host's. A dial may reach another
            // guacd behind the same name, or the one that has just come back.
            Err(stop) if stop.may_dial_again() && Instant::now() < errand.deadline => {
                debug!(%tunnel, reason = %stop, "guacd failed, dialling it once more");
                waiting.hang_up();
                self.connect(waiting, placed, errand, tried, tunnel).await?
            }
            connected => connected?,
        };
        let Some(owned) = connected else {
            return Ok(Came::Void);
        };
        let lifeless = async {
            loop {
                sleep(SILENCE).await;
                // Silence alone moves nobody: an app may paint nothing for long,
                // and a host that is busy with logons may be slow.
                if let Check::Fails(why) = self.broker.check_patiently(host).await {
                    return why.to_string();
                }
            }
        };
        let known = waiting.first_of(timeout_at(errand.deadline, lifeless));
        Ok(match known.await? {
            First::Heard(Progress::Stood) => Came::Stood(owned),
            First::Heard(Progress::Failed { status: None }) if waiting.has_lost_guacd() => {
                Came::Failed(Failure::Lost)
            }
            First::Heard(Progress::Failed { status }) if blames(status) => {
                Came::Failed(Failure::Ended(status))
            }
            // The page hears from guacd itself, or the relay goes on blind.
            First::Heard(_) => Came::Released(owned),
            First::Done(Ok(why)) => Came::Failed(Failure::Died(why)),
            First::Done(Err(_)) => Came::Released(owned),
        })
    }

    /// Sends guacd to the host, as far as its `ready`; `None` where the
    /// placement does not hold any more.
    async fn connect(
        &self,
        waiting: &mut Waiting,
        placed: &Placed,
        errand: &Errand,
        tried: &mut Tried,
        tunnel: &TunnelId,
    ) -> Result<Option<Owned>, Stop> {
        let mut lap = self.metrics.handshake();
        let now = Instant::now();
        let left = errand.deadline.saturating_duration_since(now);
        let by = now + left.clamp(READY_AT_LEAST, ARGS_WITHIN);
        // Asked before as well: a guacd that waits for its first `connect` is kept
        // for the next placement.
        if !self.still_holds(placed) {
            return Ok(None);
        }
        let connect = match waiting.take_first() {
            true => placed.parameters.encode(Side::Guacd)?,
            false => {
                let connect = self.ask_anew(waiting, placed, errand, by).await?;
                tried.guacd_is_well();
                connect
            }
        };
        if !self.still_holds(placed) {
            return Ok(None);
        }
        let Some(guacd) = waiting.guacd().and_then(Dialled::member).cloned() else {
            return Err(Stop::Closed(Side::Guacd));
        };
        waiting.write_guacd(&connect).await?;
        waiting.is_connecting();
        let id = match waiting.first_of(sleep_until(by)).await? {
            First::Heard(Progress::Ready(id)) => id,
            _ => return Err(Stop::GuacdSilent),
        };
        lap.done(crate::metrics::Phase::Ready);
        Ok(Some(Owned {
            guacd_id: id,
            guacd,
            tunnel: tunnel.clone(),
        }))
    }

    /// Dials guacd anew and says all that Guacamole said, up to `connect`, which
    /// is returned: this guacd may ask for other names.
    async fn ask_anew(
        &self,
        waiting: &mut Waiting,
        placed: &Placed,
        errand: &Errand,
        by: Instant,
    ) -> Result<Vec<u8>, Stop> {
        let turn = waiting.meanwhile(self.limits.dial(by)).await??;
        let mut search = waiting.meanwhile(self.pool.search(&errand.guacd)).await?;
        let select = Select::Protocol(errand.protocol.clone()).to_instruction();
        let names = loop {
            let dial = timeout_at(by, search.dial(errand.stall));
            let dialled = waiting.meanwhile(dial).await?;
            let dialled = dialled.unwrap_or(Err(Stop::GuacdSilent));
            waiting.dialled(self.metrics.dialled(dialled)?);
            waiting.tell_guacd(&select).await?;
            let others = search.has_others();
            let first_word = match others {
                true => by.min(Instant::now() + FIRST_WORD),
                false => by,
            };
            match (waiting.first_of(sleep_until(first_word)).await?, others) {
                (First::Heard(Progress::Args(names)), _) => break names,
                (First::Done(()), true) => {
                    if let Some(guacd) = waiting.guacd() {
                        guacd.is_silent();
                    }
                }
                _ => return Err(Stop::GuacdSilent),
            }
        };
        if let Some(guacd) = waiting.guacd() {
            guacd.is_well();
        }
        drop(turn);
        for said in &errand.settings {
            waiting.tell_guacd(said).await?;
        }
        let answers = errand.parameters.answering(&names);
        match placed.rewrite(answers) {
            Ok((parameters, names)) => {
                if !names.unknown.is_empty() {
                    let (decision_id, unknown) = (placed.id, names.unknown.join(","));
                    warn!(%decision_id, unknown, "This guacd lacks parameters that are set");
                }
                Ok(parameters.encode(Side::Guacd)?)
            }
            Err(name) => Err(Stop::Missing {
                name,
                decision: placed.id,
            }),
        }
    }
}
