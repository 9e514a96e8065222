//! Whether a runtime still moves: a task on it leaves the time, again and again,
//! and somebody outside looks how long ago that was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;

/// How often the time is left.
const BEAT: Duration = Duration::from_secs(1);
/// Without a beat for this long it counts as stuck: far more than a machine
/// under load makes of a second.
const STUCK: Duration = Duration::from_secs(10);

/// The pulse of one runtime; clones are one.
#[derive(Debug, Clone)]
pub struct Pulse {
    /// When it last beat, in milliseconds since the start.
    last: Arc<AtomicU64>,
    clock: Clock,
}

impl Pulse {
    /// One that has just beaten.
    pub fn new(clock: Clock) -> Self {
        let pulse = Self {
            last: Arc::default(),
            clock,
        };
        pulse.note();
        pulse
    }

    /// Beats, until it is dropped. To be run on the runtime that it speaks for; what
    /// else it speaks for has to answer for each beat.
    pub async fn run<F>(self, answers: impl Fn() -> F)
    where
        F: Future<Output = ()>,
    {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            answers().await;
            self.note();
        }
    }

    /// How long there has been no beat, where that is too long.
    pub(super) fn stuck(&self) -> Option<Duration> {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        let silent = self.clock.uptime().saturating_sub(last);
        (silent > STUCK).then_some(silent)
    }

    fn note(&self) {
        let now = u64::try_from(self.clock.uptime().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_moves_is_alive_and_one_that_stops_is_stuck() {
        let pulse = Pulse::new(Clock::start());
        let beating = tokio::spawn(pulse.clone().run(|| async {}));
        for _ in 0..60 {
            advance(BEAT).await;
            tokio::task::yield_now().await;
            assert_eq!(pulse.stuck(), None);
        }
        // The task no longer gets its turn.
        beating.abort();
        let _ = beating.await;
        advance(STUCK).await;
        assert_eq!(pulse.stuck(), None);
        advance(BEAT).await;
        assert!(pulse.stuck().is_some_and(|span| span >= STUCK));
        let _revived = tokio::spawn(pulse.clone().run(|| async {}));
        tokio::task::yield_now().await;
        assert_eq!(pulse.stuck(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_is_stuck_with_it() {
        let pulse = Pulse::new(Clock::start());
        tokio::spawn(pulse.clone().run(std::future::pending));
        for _ in 0..=STUCK.as_secs() {
            advance(BEAT).await;
            tokio::task::yield_now().await;
        }
        assert!(pulse.stuck().is_some());
    }
}
