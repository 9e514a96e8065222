//! How much is done.

use std::time::Duration;

use super::load::payload;

pub(crate) struct Extent {
    pub(crate) rounds: usize,
    /// Rounds of tunnels in which nothing happens; what they take hardly varies.
    pub(crate) idle_rounds: usize,
    /// Of all streams together.
    pub(crate) bulk_bytes: usize,
    pub(crate) picture: &'static [u8],
    pub(crate) desktops: usize,
    pub(crate) desktop_span: Duration,
    pub(crate) frames: &'static [Vec<u8>],
    pub(crate) pings: usize,
    pub(crate) set_ups: usize,
    pub(crate) idle: usize,
    /// What comes to each idle tunnel at once.
    pub(crate) burst: &'static [u8],
    /// For everybody to come to rest.
    pub(crate) rest: Duration,
}

impl Extent {
    pub(crate) fn full() -> Self {
        Self {
            rounds: 7,
            idle_rounds: 3,
            bulk_bytes: 1 << 30,
            desktops: 100,
            desktop_span: Duration::from_secs(4),
            pings: 5000,
            set_ups: 1000,
            idle: 5000,
            rest: Duration::from_secs(1),
            ..Self::quick()
        }
    }

    /// Enough to see that everything runs; no figure is worth anything.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            idle_rounds: 1,
            bulk_bytes: 8 << 20,
            picture: payload::bulk().leak(),
            desktops: 10,
            desktop_span: Duration::from_millis(300),
            frames: payload::frames().leak(),
            pings: 50,
            set_ups: 8,
            idle: 100,
            burst: burst().leak(),
            rest: Duration::from_millis(50),
        }
    }
}

/// 16 KiB at least, in whole instructions.
fn burst() -> Vec<u8> {
    let frames = payload::frames();
    let last = frames.last().unwrap();
    last.repeat((16_usize << 10).div_ceil(last.len()))
}
