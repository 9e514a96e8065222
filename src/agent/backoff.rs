//! How long to wait after a failure: twice as long each time, to a limit, and
//! never quite the same, so that a farm's agents do not come back in step.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
/// Below the time after which the broker takes a silent host for gone.
const LONGEST: Duration = Duration::from_secs(20);
/// Where trying again cannot help before somebody acts.
pub(super) const HOPELESS: Duration = Duration::from_secs(60);

/// The wait after so many failures in a row; `dice` is any number.
pub(super) fn after(failures: u32, dice: u128) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(8));
    jitter(doubled.min(LONGEST), dice)
}

/// Between three quarters of a time and all of it.
pub(super) fn jitter(time: Duration, dice: u128) -> Duration {
    let part = u32::try_from(dice % 256).unwrap_or_default();
    time - time / 4 * part / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_limit_and_differ() {
        let longest = |failures| after(failures, 0);
        assert_eq!(longest(1), FIRST);
        assert_eq!(longest(2), FIRST * 2);
        assert_eq!(longest(40), LONGEST);
        for dice in 0..600 {
            let wait = after(3, dice);
            assert!(wait <= FIRST * 4 && wait > FIRST * 3, "{wait:?}");
        }
        assert_ne!(after(3, 1), after(3, 200));
    }
}
