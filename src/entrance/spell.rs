//! A spell of failed accepts: out of descriptors or memory, a tight loop would
//! take the processor from the connections that could free some.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{error, info};

/// First and longest pause after a failed accept.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// A spell is over once nothing has failed for this long: where descriptors are
/// freed one by one, accepts that work and accepts that fail alternate.
const CALM: Duration = Duration::from_millis(500);

/// The spell a listener is in, or none.
pub(super) struct Spell {
    door: &'static str,
    pause: Duration,
    /// Accepts that failed in this spell, and when the last one did.
    failed: Option<(u64, Instant)>,
}

impl Spell {
    pub(super) fn new(door: &'static str) -> Self {
        Self {
            door,
            pause: PAUSES.0,
            failed: None,
        }
    }

    /// Says so at the beginning of a spell, and pauses.
    pub(super) async fn failed(&mut self, error: &Error) {
        if is_of_the_connection(error) {
            return;
        }
        let count = self.failed.map_or(0, |(count, _)| count);
        if count == 0 {
            let door = self.door;
            error!(door, %error, "Accepting fails, trying again with pauses");
        }
        sleep(self.pause).await;
        self.failed = Some((count + 1, Instant::now()));
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    pub(super) fn succeeded(&mut self) {
        self.pause = PAUSES.0;
        if let Some((failed, last)) = self.failed
            && last.elapsed() >= CALM
        {
            info!(door = self.door, failed, "Accepting works again");
            self.failed = None;
        }
    }
}

/// Whoever wanted to come in is gone already: it says nothing of the next one.
fn is_of_the_connection(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
