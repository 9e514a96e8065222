//! How far the database's clock is ahead of ours.
//!
//! Leases end by the database's clock, whichever replica looks: every record is
//! dated by it there, and by our own clock as soon as it is read. So two
//! replicas whose clocks differ agree on what has run out, and nothing else has
//! to know of two clocks.

use std::sync::atomic::{AtomicI64, Ordering};

use tracing::{info, warn};

use crate::placement::Timestamp;

/// A difference of clocks that somebody should know of: it hurts nobody here.
const NOTABLE: u64 = 5_000;

/// Clocks that agree this well are taken for one, so that moments stay as they
/// are while the delay of an answer is all that differs.
const SLACK: i64 = 100;

/// Milliseconds that the database's clock is ahead.
#[derive(Debug, Default)]
pub(super) struct Offset(AtomicI64);

impl Offset {
    pub(super) fn millis(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes in what the database's clock said at some moment between two of
    /// ours. What is known changes no more than that demands: moments that are
    /// read and written again must not wander with every answer's delay.
    pub(super) fn heard(&self, theirs: Timestamp, sent: Timestamp, received: Timestamp) {
        let (least, most) = (ahead(theirs, received), ahead(theirs, sent));
        let known = self.millis();
        let is_explained =
            known >= least.saturating_sub(SLACK) && known <= most.saturating_add(SLACK);
        if is_explained {
            return;
        }
        let now = known.clamp(least.min(most), most);
        self.0.store(now, Ordering::Relaxed);
        let is_notable = now.unsigned_abs() >= NOTABLE;
        if is_notable && now.abs_diff(known) >= NOTABLE {
            let milliseconds = now;
            warn!(
                milliseconds,
                "The database's clock is ahead of ours, or behind where negative; leases go by it"
            );
        } else if !is_notable && known.unsigned_abs() >= NOTABLE {
            info!("The database's clock and ours agree again");
        }
    }
}

fn ahead(theirs: Timestamp, ours: Timestamp) -> i64 {
    let [theirs, ours] = [theirs, ours].map(|at| i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
    theirs.saturating_sub(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn what_is_known_changes_no_more_than_an_answer_demands() {
        let offset = Offset::default();
        offset.heard(at(10_050), at(10_000), at(10_100));
        assert_eq!(offset.millis(), 0, "equal clocks explain it");
        offset.heard(at(70_000), at(10_000), at(10_100));
        assert_eq!(offset.millis(), 59_900);
        offset.heard(at(70_500), at(10_500), at(10_700));
        assert_eq!(offset.millis(), 59_900, "so does what is known");
        offset.heard(at(71_000), at(11_000), at(11_002));
        assert_eq!(offset.millis(), 59_900, "nearly");
        offset.heard(at(71_200), at(11_000), at(11_002));
        assert_eq!(offset.millis(), 60_198);
        offset.heard(at(5_000), at(12_000), at(12_002));
        assert_eq!(offset.millis(), -7_000, "set back");
    }
}
