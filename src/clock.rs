//! The one clock the moving parts read; placement gets its readings as values.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::placement::Timestamp;

/// Wall time taken once at the start and carried on by the monotonic clock, so
/// that a wall clock set back or forth moves no lease while we run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    epoch: Timestamp,
}

impl Clock {
    /// Starts from the system's clock.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = Timestamp::default() + since_epoch.unwrap_or(Duration::ZERO);
        Self {
            start: Instant::now(),
            epoch,
        }
    }

    /// The moment now.
    pub fn now(&self) -> Timestamp {
        self.epoch + self.start.elapsed()
    }
}
