//! `GET /api/v1/decisions`: what was decided before, and why.

use hyper::Uri;
use serde::Serialize;

use super::answer::{Answer, Failure, answer};
use super::{Api, query};
use crate::broker::{DecisionId, Record};
use crate::clock::rfc3339;
use crate::placement::{Outcome, UserKey};

/// Decisions listed unless more or fewer are asked for, and at most.
const LISTED: usize = 50;
const MOST: usize = 500;

/// A record with what a reader would have to work out.
#[derive(Debug, Serialize)]
pub(super) struct View<'a> {
    time: String,
    outcome: &'static str,
    reason: Option<String>,
    host: Option<&'a str>,
    #[serde(flatten)]
    record: &'a Record,
}

impl<'a> View<'a> {
    pub(super) fn of(record: &'a Record) -> Self {
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
            Some(Outcome::Placed(placement)) => Some(placement.host.as_str()),
            _ => None,
        };
        Self {
            time: rfc3339(record.at),
            outcome,
            reason,
            host,
            record,
        }
    }
}

impl Api {
    pub(super) async fn decisions(&self, uri: &Uri) -> Result<Answer, Failure> {
        let (mut user, mut limit) = (None, LISTED);
        for (key, value) in query::pairs(uri.query().unwrap_or_default())? {
            match key.as_str() {
                "user" => {
                    user = UserKey::new(&value, "");
                    if user.is_none() {
                        return Err(Failure::bad("user is blank"));
                    }
                }
                "limit" => {
                    let number = value.parse().ok().filter(|n| (1..=MOST).contains(n));
                    let number = number
                        .ok_or_else(|| Failure::bad(format!("limit is a number from 1 to {MOST}")));
                    limit = number?;
                }
                _ => return Err(Failure::bad("only user and limit may be asked for")),
            }
        }
        let found = self.broker.decisions().newest(user.as_ref(), limit).await?;
        let views: Vec<_> = found.iter().map(|record| View::of(record)).collect();
        Ok(answer(&serde_json::json!({ "decisions": views })))
    }

    pub(super) async fn decision(&self, id: &str) -> Result<Answer, Failure> {
        let known = DecisionId::parse(id);
        let id = known.ok_or_else(|| Failure::bad("a decision's id is a UUID"))?;
        match self.broker.decisions().find(id).await? {
            Some(record) => Ok(answer(&View::of(&record))),
            None => Err(Failure::not_found(format!(
                "no decision {id} is known: it may be older than 30 days, or of another broker"
            ))),
        }
    }
}
