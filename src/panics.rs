//! What a panic leaves behind: a line in the log and a count.
//!
//! A task that panics is a fault of ours and ends alone; what it held is given
//! back as it unwinds. The line says where, and what only where that is a text
//! of the program itself: what was put together while it ran may hold what
//! nobody may read.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tracing::error;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// From now on, panics are counted and told to the log instead of being printed.
pub fn watch() {
    set_hook(Box::new(tell));
}

/// How many there were since they are watched.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

fn tell(panic: &PanicHookInfo<'_>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let place = panic.location().map(ToString::to_string);
    let thread = thread::current();
    error!(
        place,
        what = panic.payload().downcast_ref::<&'static str>(),
        thread = thread.name(),
        "A task panicked, which is a fault of sessionguard: please report it"
    );
}
