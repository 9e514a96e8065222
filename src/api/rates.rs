//! How often somebody may ask: so many at once, and from then on evenly.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// After so many questions, those who have not asked for long are forgotten.
const TIDY: u32 = 1024;

/// Some requests at once, and another one after each pause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    pub(super) at_once: NonZeroU32,
    pub(super) pause: Duration,
}

/// The same allowance for each of many. Whoever has a whole allowance again is
/// forgotten, so that it holds those of the last moments, each of whom took a
/// connection for it.
pub(super) struct Rate<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
    asked: AtomicU32,
}

impl<K: Hash + Eq + Clone> Rate<K> {
    pub(super) fn of(allowance: Allowance) -> Self {
        let quota = Quota::with_period(allowance.pause);
        // A pause of nothing would be no limit; one a second is.
        let quota = quota.unwrap_or(Quota::per_second(NonZeroU32::MIN));
        Self {
            limiter: RateLimiter::keyed(quota.allow_burst(allowance.at_once)),
            asked: AtomicU32::new(0),
        }
    }

    /// Counts one request; where it is one too many, how long to wait.
    pub(super) fn take(&self, who: &K) -> Result<(), Duration> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % TIDY == TIDY - 1 {
            self.limiter.retain_recent();
        }
        let taken = self.limiter.check_key(who);
        taken.map_err(|until| until.wait_time_from(self.limiter.clock().now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_an_allowance_of_its_own_and_learns_when_there_is_more() {
        let rate = Rate::of(Allowance {
            at_once: NonZeroU32::new(3).unwrap(),
            pause: Duration::from_secs(3600),
        });
        for who in ["a", "b"] {
            for _ in 0..3 {
                assert_eq!(rate.take(&who), Ok(()));
            }
            let wait = rate.take(&who).unwrap_err();
            assert!(wait > Duration::from_secs(3500) && wait <= Duration::from_secs(3600));
        }
    }

    #[test]
    fn who_has_not_asked_for_long_is_forgotten() {
        let rate = Rate::of(Allowance {
            at_once: NonZeroU32::MIN,
            pause: Duration::from_nanos(1),
        });
        for who in 0..10 * TIDY {
            assert_eq!(rate.take(&who), Ok(()));
        }
        assert!(
            rate.limiter.len() <= TIDY as usize + 1,
            "{}",
            rate.limiter.len()
        );
    }
}
