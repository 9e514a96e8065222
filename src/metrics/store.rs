//! How the store fares: whether it answers, since when, and when it last did.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Operation, Page, Stored};

/// One kind of calls.
#[derive(Debug)]
struct Kind {
    is_up: bool,
    /// Since when that is so.
    since: Instant,
    /// When one last came through.
    last: Option<Instant>,
}

/// What was seen of the store's calls.
#[derive(Debug, Default)]
pub(super) struct Health {
    reads: Mutex<Kind>,
    /// With a full disk only the reads come through.
    writes: Mutex<Kind>,
    polls: Mutex<Kind>,
}

/// How the store fares at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreHealth {
    /// For how long reads or writes have failed; `None` where they do not.
    pub down: Option<Duration>,
    /// How long ago a read came through; `None`: never.
    pub read: Option<Duration>,
    /// The same of a write.
    pub written: Option<Duration>,
    /// The same of asking what others changed.
    pub polled: Option<Duration>,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            // Nobody found it ill so far.
            is_up: true,
            since: Instant::now(),
            last: None,
        }
    }
}

impl Kind {
    fn note(&mut self, is_up: bool) {
        let now = Instant::now();
        if is_up {
            self.last = Some(now);
        }
        if std::mem::replace(&mut self.is_up, is_up) != is_up {
            self.since = now;
        }
    }
}

fn with<T>(kind: &Mutex<Kind>, look: impl FnOnce(&mut Kind) -> T) -> T {
    look(&mut kind.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Health {
    pub(super) fn note(&self, operation: Operation, came: Stored) {
        let is_up = came != Stored::Failed;
        let kind = match operation.is_write() {
            true => &self.writes,
            false => &self.reads,
        };
        with(kind, |kind| kind.note(is_up));
        if operation.is_poll() {
            with(&self.polls, |kind| kind.note(is_up));
        }
    }

    pub(super) fn is_silent(&self) {
        with(&self.reads, |kind| kind.note(false));
    }

    pub(super) fn now(&self) -> StoreHealth {
        let down = |kind: &mut Kind| (!kind.is_up).then(|| kind.since.elapsed());
        let last = |kind: &mut Kind| kind.last.map(|at| at.elapsed());
        StoreHealth {
            down: with(&self.reads, down).max(with(&self.writes, down)),
            read: with(&self.reads, last),
            written: with(&self.writes, last),
            polled: with(&self.polls, last),
        }
    }
}

impl StoreHealth {
    /// Puts its figures on a page.
    pub(super) fn tell(&self, page: &mut Page) {
        let up = f64::from(u8::from(self.down.is_none()));
        page.gauge(
            "store_up",
            "Whether the last read of the store and the last write came through.",
        )
        .put(&[], up);
        let down = self.down.unwrap_or_default().as_secs_f64();
        page.gauge(
            "store_down_seconds",
            "How long reads or writes of the store have failed; 0 while they come through.",
        )
        .put(&[], down);
        let mut ages = page.gauge(
            "store_last_success_age_seconds",
            "How long ago the store was last read, written, or asked what others changed; of what it never was there is none.",
        );
        for (operation, age) in [
            ("read", self.read),
            ("write", self.written),
            ("changes", self.polled),
        ] {
            if let Some(age) = age {
                ages.put(&[("operation", operation)], age.as_secs_f64());
            }
        }
    }
}
