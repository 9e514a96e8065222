//! What a refusal is in HTTP: whether the question is wrong, what it names is
//! not there, it may not be, or no host can be had now.

use axum::http::StatusCode;

use super::answer::Failure;
use crate::broker::DecisionId;
use crate::placement::Refusal;

/// Why nobody was placed, found again by the decision.
pub(super) fn refused(refusal: &Refusal, decision: DecisionId) -> Failure {
    Failure::new(status(refusal), refusal.to_string()).about(decision)
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::BadSelector(_) | Refusal::CarriersDisagree => StatusCode::BAD_REQUEST,
        Refusal::UnknownResource | Refusal::NoFarm | Refusal::UnknownFarm(_) => {
            StatusCode::NOT_FOUND
        }
        Refusal::FarmSelectorNotAllowed
        | Refusal::AmbiguousResource(..)
        | Refusal::ResourceDisabled(_)
        | Refusal::FarmDisabled(_)
        | Refusal::LoginMismatch
        | Refusal::TooManyTunnels
        | Refusal::Unmatched => StatusCode::CONFLICT,
        Refusal::EmptyFarm(_)
        | Refusal::HeldElsewhere(_)
        | Refusal::LogonsPending(_)
        | Refusal::Busy(_)
        | Refusal::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
