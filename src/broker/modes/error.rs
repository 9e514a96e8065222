//! Why a mode was not changed.

use super::WishError;
use crate::clock::rfc3339;
use crate::placement::{Emptied, FarmId, HostId, MOST_TIMED, Timestamp};
use crate::store::StoreError;

/// Why a mode was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// No such host is configured.
    #[error("host {id} is not configured{}", meant(nearest.as_ref()))]
    UnknownHost {
        /// What was asked for.
        id: HostId,
        /// The configured id that is spelled most alike, if any is.
        nearest: Option<String>,
    },
    /// No such farm is configured.
    #[error("farm {id} is not configured{}", meant(nearest.as_ref()))]
    UnknownFarm {
        /// What was asked for.
        id: FarmId,
        /// The configured id that is spelled most alike, if any is.
        nearest: Option<String>,
    },
    /// The farm has no host.
    #[error("farm {0} has no host")]
    EmptyFarm(FarmId),
    /// The order makes no sense.
    #[error(transparent)]
    Wish(#[from] WishError),
    /// A host would have more orders of a time than anybody can look through.
    #[error("host {0} has {MOST_TIMED} orders of a time already: cancel them with `online`")]
    TooManyTimed(HostId),
    /// Nobody could be placed in a farm any more.
    #[error(
        "{} would have no usable host, so that nobody new could be placed there; with force it is done anyway",
        farms(emptied, *now)
    )]
    LastHost {
        /// The farms, and from when on.
        emptied: Vec<Emptied>,
        /// When that was asked.
        now: Timestamp,
    },
    /// Others change the same hosts over and over.
    #[error("another broker changes the same hosts at this moment: try again")]
    Contended,
    /// The store cannot be asked. What was ordered may hold or not.
    #[error("{0}; whether the order holds is shown by status")]
    Store(#[from] StoreError),
    /// We are going down.
    #[error("the broker is stopping")]
    Stopping,
}

fn meant(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |id| format!(": was {id} meant?"))
}

fn farms(emptied: &[Emptied], now: Timestamp) -> String {
    let farm = |emptied: &Emptied| match emptied.at > now {
        true => format!("from {} on farm {}", rfc3339(emptied.at), emptied.farm),
        false => format!("farm {}", emptied.farm),
    };
    emptied.iter().map(farm).collect::<Vec<_>>().join(" and ")
}
