//! `PATCH /api/v1/hosts/{id}` and `PATCH /api/v1/farms/{id}`: changes the mode
//! of one host, or of every host of a farm, all or none.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::caller::Caller;
use super::extract::{Named, Sent};
use crate::broker::{HostChanged, ModeError, Target, Wish};
use crate::clock::{read_rfc3339, rfc3339};
use crate::placement::{Mode, Order, Timestamp};

/// What a program reads in the answer where `force` would do it.
const FORCE_REQUIRED: &str = "force_required";

/// What the mode is to be; moments as RFC 3339 writes them.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ModeChange)]
#[serde(deny_unknown_fields)]
pub(super) struct Patch {
    /// `online`, `drain` or `maintenance`.
    #[schema(value_type = String)]
    mode: Mode,
    /// Why, for administrators; at most 500 characters.
    reason: Option<String>,
    /// What users may be told; at most 500 characters.
    message: Option<String>,
    /// When it begins; now if left out (RFC 3339).
    from: Option<String>,
    /// When it ends by itself; never if left out (RFC 3339).
    until: Option<String>,
    /// Restart the host once it is in drain and nobody is on it.
    #[serde(default)]
    restart_when_drained: bool,
    /// Put it online after that restart.
    #[serde(default)]
    online_after_restart: bool,
    /// Do it even if it leaves a farm without a usable host.
    #[serde(default)]
    force: bool,
}

/// An order as it is told.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Order)]
pub(super) struct OrderTold {
    /// `online`, `drain` or `maintenance`.
    #[schema(value_type = String)]
    mode: Mode,
    /// Who gave it.
    by: String,
    /// Why.
    reason: Option<String>,
    /// What users may be told.
    message: Option<String>,
    /// When it was given (RFC 3339).
    at: String,
    /// When it begins; `None`: when it was given (RFC 3339).
    from: Option<String>,
    /// When it ends by itself (RFC 3339).
    until: Option<String>,
    restart_when_drained: bool,
    online_after_restart: bool,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModeChanged)]
pub(super) struct Done {
    order: OrderTold,
    hosts: Vec<HostTold>,
    /// Farms that it leaves without a usable host.
    farms_without_host: Vec<FarmTold>,
}

/// What came of it for one host.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HostModeChanged)]
pub(super) struct HostTold {
    id: String,
    /// Its mode before.
    #[schema(value_type = String)]
    mode_before: Mode,
    /// Its mode now.
    #[schema(value_type = String)]
    mode: Mode,
    /// Orders that held for a time and hold no more.
    ended: Vec<OrderTold>,
    /// Orders that hold and now end where this one begins.
    shortened: Vec<OrderTold>,
    /// Orders that were announced and will not come.
    cancelled: Vec<OrderTold>,
    /// Orders that are announced still.
    kept: Vec<OrderTold>,
    /// Without one its sessions are not known, and nobody restarts it.
    has_agent: bool,
}

/// A farm that is left without a usable host.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FarmEmptied)]
pub(super) struct FarmTold {
    id: String,
    /// From when on (RFC 3339).
    from: String,
}

/// Change a host's mode
///
/// Once it answers, the order is stored and in force: no placement is decided
/// against it any more. Without `from` and `until` it stands until the next
/// one.
#[utoipa::path(patch, path = "/hosts/{id}", operation_id = "change_host_mode",
    params(("id" = String, Path, description = "The host's id.")),
    request_body = Patch,
    responses((status = 200, description = "Done.", body = Done)),
)]
pub(super) async fn of_host(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Sent(patch): Sent<Patch>,
) -> Answer<Done> {
    api.set_mode(Target::Host(id.into()), patch, &caller).await
}

/// Change the mode of a farm's hosts
///
/// Of all that belong to it now, or of none.
#[utoipa::path(patch, path = "/farms/{id}", operation_id = "change_farm_mode",
    params(("id" = String, Path, description = "The farm's id.")),
    request_body = Patch,
    responses((status = 200, description = "Done.", body = Done)),
)]
pub(super) async fn of_farm(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Sent(patch): Sent<Patch>,
) -> Answer<Done> {
    api.set_mode(Target::Farm(id.into()), patch, &caller).await
}

impl Api {
    async fn set_mode(&self, target: Target, patch: Patch, caller: &Caller) -> Answer<Done> {
        let by = caller.actor.clone();
        let changed = self.modes.change(target, patch.wish()?, by).await?;
        let emptied = changed.emptied.iter().map(|emptied| FarmTold {
            id: emptied.farm.to_string(),
            from: rfc3339(emptied.at),
        });
        Ok(Told(Done {
            order: OrderTold::of(&Arc::new(changed.order.clone())),
            hosts: changed.hosts.iter().map(HostTold::of).collect(),
            farms_without_host: emptied.collect(),
        }))
    }
}

impl Patch {
    fn wish(self) -> Result<Wish, Failure> {
        Ok(Wish {
            mode: self.mode,
            reason: self.reason,
            message: self.message,
            from: moment("from", self.from.as_deref())?,
            until: moment("until", self.until.as_deref())?,
            restart_when_drained: self.restart_when_drained,
            online_after_restart: self.online_after_restart,
            force: self.force,
        })
    }
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let read = read_rfc3339(text).ok_or_else(|| {
        Failure::bad(format!(
            "{name} is no moment as RFC 3339 writes it, 2026-11-30T22:00:00+01:00 for one"
        ))
    });
    read.map(Some)
}

impl OrderTold {
    pub(super) fn of(order: &Arc<Order>) -> Self {
        Self {
            mode: order.mode,
            by: order.by.to_string(),
            reason: order.reason.clone(),
            message: order.message.clone(),
            at: rfc3339(order.at),
            from: order.from.map(rfc3339),
            until: order.until.map(rfc3339),
            restart_when_drained: order.restart_when_drained,
            online_after_restart: order.online_after_restart,
        }
    }
}

impl HostTold {
    fn of(changed: &HostChanged) -> Self {
        let told = |orders: &[Arc<Order>]| orders.iter().map(OrderTold::of).collect();
        let effect = &changed.effect;
        Self {
            id: changed.host.to_string(),
            mode_before: changed.before,
            mode: changed.mode,
            ended: told(&effect.ended),
            shortened: told(&effect.shortened),
            cancelled: told(&effect.cancelled),
            kept: told(&effect.kept),
            has_agent: changed.has_agent,
        }
    }
}

impl From<ModeError> for Failure {
    fn from(error: ModeError) -> Self {
        let text = error.to_string();
        match error {
            ModeError::UnknownHost { .. } | ModeError::UnknownFarm { .. } => Self::not_found(text),
            ModeError::Wish(_) => Self::bad(text),
            ModeError::LastHost { .. } => Self::conflict(text).coded(FORCE_REQUIRED),
            ModeError::EmptyFarm(_) | ModeError::TooManyTimed(_) | ModeError::Contended => {
                Self::conflict(text)
            }
            ModeError::Store(_) | ModeError::Stopping => Self::unavailable(text),
        }
    }
}
