//! A decision as it is listed: what came out and why. The hosts that were
//! compared, a thousand of a large farm, are told of one decision alone.

use serde::Serialize;
use utoipa::ToSchema;

use super::decisions::Verdict;
use crate::broker::{Act, Asked, Record};
use crate::clock::rfc3339;
use crate::placement::Timestamp;

/// What came out of a decision; `GET /decisions/{id}` tells it whole.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DecisionBrief)]
pub(super) struct Brief {
    /// The decision's id, as in the log and in the message on the page.
    id: String,
    /// When it was made (RFC 3339).
    time: String,
    /// The same in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    at: Timestamp,
    /// `placement`, `observation` or `dry-run`.
    #[schema(value_type = String)]
    act: Act,
    #[serde(flatten)]
    verdict: Verdict,
    /// Domain and user as placed by; `None` where Guacamole asks for them.
    user: Option<String>,
    resource: Option<String>,
    farm: Option<String>,
    /// The tunnel that asked.
    tunnel: Option<String>,
    /// What was asked for, by name; blank parts are left out.
    #[schema(value_type = Object)]
    asked: Asked,
    /// Generation of the configuration it was made on.
    configuration: u64,
    /// How many hosts were compared.
    candidates: usize,
}

impl Brief {
    pub(super) fn of(record: &Record) -> Self {
        let decision = record.decision.as_ref();
        Self {
            id: record.id.to_string(),
            time: rfc3339(record.at),
            at: record.at,
            act: record.act,
            verdict: Verdict::of(record),
            user: decision.and_then(|made| Some(made.user.as_ref()?.to_string())),
            resource: decision.and_then(|made| Some(made.resource.as_ref()?.to_string())),
            farm: decision.and_then(|made| Some(made.farm.as_ref()?.to_string())),
            tunnel: record.tunnel.as_ref().map(ToString::to_string),
            asked: record.asked.clone(),
            configuration: record.configuration,
            candidates: decision.map_or(0, |made| made.candidates.len()),
        }
    }
}
