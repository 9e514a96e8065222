//! How often the way to a store was lost, told the moment it is noticed.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

/// Counts the times the way to a store was lost; clones are one. What was
/// answered before may have gone with it: a standby that takes over need not
/// have heard of the last changes.
#[derive(Debug, Clone)]
pub struct Losses(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, Copy, Default)]
struct State {
    count: u64,
    last: Option<Instant>,
}

impl Default for Losses {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }
}

impl Losses {
    /// It was lost once more.
    pub fn note(&self) {
        self.0.send_modify(|state| {
            state.count += 1;
            state.last = Some(Instant::now());
        });
    }

    /// How often it was lost so far.
    pub fn count(&self) -> u64 {
        self.0.borrow().count
    }

    /// Whether it was lost since then.
    pub fn any_since(&self, then: Instant) -> bool {
        self.0.borrow().last.is_some_and(|last| last >= then)
    }

    /// Waits until it was lost more often than that.
    pub async fn beyond(&self, count: u64) {
        let mut told = self.0.subscribe();
        // We hold the sender: this ends by a loss alone.
        let _ = told.wait_for(|state| state.count > count).await;
    }
}

/// Connections to a store and the calls that wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// Carrying a call, or being opened for one.
    pub in_use: usize,
    /// Open, and carrying nothing.
    pub idle: usize,
    /// Most of them at a time.
    pub most: usize,
    /// Calls that wait for one.
    pub waiting: usize,
}
