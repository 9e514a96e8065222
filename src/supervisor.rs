//! What whoever started us is told, where that is systemd (`NOTIFY_SOCKET`):
//! that we are ready, that we live, that we stop. Others are told nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How long the next word may take while open tunnels are waited for, and how
/// often it is said.
const MORE_TIME: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(20));

/// Says that we are ready, and keeps its word until it is dropped. To be run on
/// the runtime of the tunnels: where that is stuck, the watchdog shall bite.
pub async fn keep_told(stop: CancellationToken) {
    if !say(vec![NotifyState::Ready, NotifyState::Status("Ready")]).await {
        return;
    }
    tokio::join!(alive(), stopping(stop));
}

/// Says that another process is the one to be looked after from now on, and that
/// we go on beside it.
pub fn handed_over(to: Option<i32>) {
    let Some(pid) = to.and_then(|pid| u32::try_from(pid).ok()) else {
        return;
    };
    tell(&[NotifyState::MainPid(pid)]);
}

async fn alive() {
    // Half of what is granted: one word may be late.
    let Some(pause) = sd_notify::watchdog_enabled().map(|granted| granted / 2) else {
        return;
    };
    if pause.is_zero() {
        return;
    }
    let mut beat = interval(pause);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        say(vec![NotifyState::Watchdog]).await;
    }
}

/// How long tunnels are waited for is set in one place, the configuration: the
/// manager is asked for more time again and again, and still ends whoever hangs.
async fn stopping(stop: CancellationToken) {
    stop.cancelled().await;
    let status = NotifyState::Status("Stopping: open tunnels go on until they end");
    say(vec![NotifyState::Stopping, status]).await;
    let (granted, pause) = MORE_TIME;
    let granted = u32::try_from(granted.as_micros()).unwrap_or(u32::MAX);
    let mut beat = interval(pause);
    loop {
        beat.tick().await;
        say(vec![NotifyState::ExtendTimeoutUsec(granted)]).await;
    }
}

/// The same where tunnels are carried: a manager that reads no more lets few words
/// wait, and whoever says the next one then.
async fn say(states: Vec<NotifyState<'static>>) -> bool {
    let told = tokio::task::spawn_blocking(move || tell(&states)).await;
    told.unwrap_or_default()
}

/// Whether it was told, or nobody wants to know.
fn tell(states: &[NotifyState<'_>]) -> bool {
    let told = sd_notify::notify(states);
    if let Err(error) = &told {
        warn!(%error, "Cannot tell the service manager how we are");
    }
    told.is_ok()
}
