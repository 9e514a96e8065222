//! `GET /api/v1/decisions`: what was decided before, and why.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::answer::{Answer, Failure, Told};
use super::brief::Brief;
use super::extract::{Filter, Named};
use super::listing::limit;
use super::record::RecordBody;
use crate::broker::{DecisionId, Record};
use crate::clock::rfc3339;
use crate::placement::{Outcome, UserKey};

/// Decisions listed unless more or fewer are asked for, and at most.
const LISTED: usize = 50;
pub(super) const MOST: usize = 500;

/// What came out of a decision, which a reader of its record would have to work
/// out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Verdict {
    /// `placed`, `refused`, `failed` or `unmatched`.
    outcome: &'static str,
    /// Why.
    reason: Option<String>,
    /// The chosen host.
    host: Option<String>,
}

/// A record, and what came out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecordView)]
pub(super) struct View {
    /// When it was made (RFC 3339).
    time: String,
    #[serde(flatten)]
    verdict: Verdict,
    #[serde(flatten)]
    #[schema(value_type = RecordBody)]
    record: Arc<Record>,
}

/// Decisions, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Decisions {
    decisions: Vec<Brief>,
}

/// Which decisions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Of this user; a name without a domain finds every domain's.
    user: Option<String>,
    /// How many: 1 to 500, usually 50.
    limit: Option<String>,
}

impl Verdict {
    pub(super) fn of(record: &Record) -> Self {
        let decided = record.decision.as_ref().map(|decision| &decision.outcome);
        let (outcome, reason) = match (&record.failure, decided) {
            (Some(failure), _) => ("failed", Some(failure.clone())),
            (None, Some(Outcome::Placed(placement))) => {
                ("placed", Some(placement.reason.to_string()))
            }
            (None, Some(Outcome::Refused(refusal))) => ("refused", Some(refusal.to_string())),
            (None, Some(Outcome::Unmatched) | None) => ("unmatched", None),
        };
        let host = match decided {
            Some(Outcome::Placed(placement)) => Some(placement.host.to_string()),
            _ => None,
        };
        Self {
            outcome,
            reason,
            host,
        }
    }
}

impl View {
    pub(super) fn of(record: Arc<Record>) -> Self {
        Self {
            time: rfc3339(record.at),
            verdict: Verdict::of(&record),
            record,
        }
    }
}

/// Past decisions, newest first
///
/// In brief: what each host of the farm had to say is told of one alone.
#[utoipa::path(get, path = "/decisions", operation_id = "decisions", params(Asked), responses(
    (status = 200, description = "Kept for 30 days.", body = Decisions),
))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Filter(asked): Filter<Asked>,
) -> Answer<Decisions> {
    let user = asked
        .user
        .as_deref()
        .map(|name| UserKey::new(name, "").ok_or_else(|| Failure::bad("user is blank")));
    let user = user.transpose()?;
    let limit = limit(asked.limit.as_deref(), LISTED, MOST)?;
    let found = api.broker.decisions().newest(user.as_ref(), limit).await?;
    let decisions = found.iter().map(|record| Brief::of(record)).collect();
    Ok(Told(Decisions { decisions }))
}

/// One decision
#[utoipa::path(get, path = "/decisions/{id}", operation_id = "decision",
    params(("id" = String, Path, description = "As in the log and in the message on the page.")),
    responses((status = 200, description = "The decision, host by host.", body = View)),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, Named(id): Named) -> Answer<View> {
    let known = DecisionId::parse(&id);
    let id = known.ok_or_else(|| Failure::bad("a decision's id is a UUID"))?;
    match api.broker.decisions().find(id).await? {
        Some(record) => Ok(Told(View::of(record))),
        None => Err(Failure::not_found(format!(
            "no decision {id} is known: it may be older than 30 days, or of another broker"
        ))),
    }
}
