//! A host's breaker as the API tells it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::clock::rfc3339;
use crate::placement::{BreakerState, HostView, Timestamp};

/// What keeps newcomers from a host that answers and fails its users all the
/// same, or that comes and goes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BreakerTold {
    /// `open`, or `half-open`: one tunnel may try.
    state: &'static str,
    /// Why it opened: `attempts` of two users at two resources failed, so did
    /// the `trial` after that, or the probe is `flapping`.
    cause: &'static str,
    /// All that in words, with whose connections failed.
    said: String,
    /// When it opened (RFC 3339).
    since: String,
    /// Until when nobody new is let in (RFC 3339).
    until: String,
    /// How long that is from now on; 0 where it is half open.
    seconds_left: u64,
}

impl BreakerTold {
    /// `None` where it is closed.
    pub(super) fn of(view: &HostView, now: Timestamp) -> Option<Self> {
        let state = view.breaker(now);
        let opening = state.opening()?;
        Some(Self {
            state: match state {
                BreakerState::Open(_) => "open",
                BreakerState::HalfOpen(_) | BreakerState::Closed => "half-open",
            },
            cause: opening.cause.word(),
            said: opening.told(now),
            since: rfc3339(opening.since),
            until: rfc3339(opening.until),
            seconds_left: opening.until.since(now).as_secs(),
        })
    }
}
