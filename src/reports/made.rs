//! When a report was made, on our clock.
//!
//! The agent's clock may be wrong by any amount, so that only the difference
//! between the two clocks helps: the least that was seen is that of a report
//! that came without delay, and what is more than that is delay.

use std::time::Duration;

use crate::placement::Timestamp;

/// Longer under way no report is: a clock was set.
const LONGEST: u64 = 60_000;

/// Clocks drift apart by less than this: one part in so many.
const DRIFT: u64 = 1000;

/// What is known of the difference between an agent's clock and ours.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clocks(Option<Least>);

#[derive(Debug, Clone, Copy)]
struct Least {
    /// Ours less theirs, in milliseconds.
    ahead: i128,
    /// When that was seen.
    at: Timestamp,
}

impl Clocks {
    /// When a report was made that says to be of `theirs`: as early as it can
    /// be, since what it lacks may have come after it.
    pub(super) fn made(&mut self, received: Timestamp, theirs: Option<Timestamp>) -> Timestamp {
        let Some(theirs) = theirs else {
            return received;
        };
        let ahead = i128::from(received.as_millis()) - i128::from(theirs.as_millis());
        let least = self.0.map_or(ahead, |least| {
            let passed = received.since(least.at).as_millis() / u128::from(DRIFT);
            least.ahead + i128::try_from(passed).unwrap_or_default()
        });
        let delay = u64::try_from(ahead - least).unwrap_or_default();
        if delay == 0 || delay > LONGEST {
            self.0 = Some(Least {
                ahead,
                at: received,
            });
        }
        received - Duration::from_millis(delay.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn what_took_its_time_is_of_when_it_was_made() {
        let mut clocks = Clocks::default();
        // Their clock is a day behind.
        let theirs = |millis| Some(at(millis - 86_400_000));
        let day = 86_400_000;
        assert_eq!(
            clocks.made(at(day + 1000), theirs(day + 900)),
            at(day + 1000)
        );
        // This one came faster, so that the first took 50 ms longer.
        assert_eq!(
            clocks.made(at(day + 11_000), theirs(day + 10_950)),
            at(day + 11_000)
        );
        // Nine seconds late.
        assert_eq!(
            clocks.made(at(day + 30_000), theirs(day + 20_950)),
            at(day + 21_019),
            "to within the drift"
        );
        assert_eq!(clocks.made(at(day + 31_000), None), at(day + 31_000));
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let mut clocks = Clocks::default();
        let day = 86_400_000;
        assert_eq!(clocks.made(at(2 * day), Some(at(2 * day))), at(2 * day));
        // Back by a day, and forth again.
        let now = 2 * day + 10_000;
        let made = clocks.made(at(now), Some(at(now - day)));
        assert_eq!(
            made,
            at(now - LONGEST),
            "nothing is concluded from the first"
        );
        let now = now + 10_000;
        assert_eq!(clocks.made(at(now), Some(at(now - day))), at(now));
        let now = now + 10_000;
        assert_eq!(clocks.made(at(now), Some(at(now))), at(now));
    }
}
