//! `POST /api/v1/reload`: the configuration is read now, and what came of it is
//! the answer.

use std::sync::Arc;

use axum::extract::State;
use utoipa::ToSchema;

use super::Api;
use super::answer::{Answer, Failure, Told};
use crate::config::{Cause, Looked, Reloaded};

/// Read the configuration now
#[utoipa::path(post, path = "/reload", operation_id = "reload", responses(
    (status = 200, description = "What came of it; a refused one is an answer, too.", body = Outcome),
))]
pub(super) async fn reload(State(api): State<Arc<Api>>) -> Answer<Looked> {
    let reload = api
        .reload
        .as_ref()
        .ok_or_else(|| Failure::not_implemented("this broker's configuration came from no file"))?;
    let looked = reload.now(Cause::Request).await;
    match looked.reloaded {
        Reloaded::Ending => Err(Failure::unavailable("the broker is ending")),
        // One that was refused is a good answer, too: the broker is well.
        _ => Ok(Told(looked)),
    }
}

/// What came of reading the configuration.
#[derive(ToSchema)]
#[schema(as = Reloaded)]
#[expect(dead_code, reason = "says what `Looked` of the room config looks like")]
struct Outcome {
    /// `applied`, `unchanged` or `refused`.
    result: String,
    /// Which configuration is in force now.
    generation: u64,
    /// What differs in one that was applied.
    #[schema(value_type = Option<Object>)]
    changes: (),
    /// What is wrong with one that was refused: file, line and column.
    findings: Option<Vec<String>>,
    /// Files of certificates that were taken over now.
    exchanged: Vec<String>,
    /// Files of certificates that cannot be taken over as they are now, by name
    /// and with the reason; what was read before stays in force.
    not_exchanged: Vec<String>,
}
