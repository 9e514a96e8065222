//! Chance from one seed: the same seed rolls the same day on every machine.

use std::time::Duration;

/// A splitmix64 generator.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5e55_1069_a4d0_0000)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `bound - 1`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    /// `low` to `high`, both possible.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A span of `low` to `high` seconds, milliseconds and all.
    pub(super) fn seconds(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low * 1000, high * 1000))
    }

    pub(super) fn index(&mut self, length: usize) -> usize {
        let bound = u64::try_from(length).unwrap();
        usize::try_from(self.below(bound)).unwrap()
    }

    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// A number up to a small bound, for ids and counts.
    pub(super) fn small(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(low.into(), high.into())).unwrap()
    }

    /// A percentage, now and then one that a broken counter gives.
    pub(super) fn percentage(&mut self) -> Option<f64> {
        match self.below(20) {
            0 => None,
            1 => Some(f64::NAN),
            2 => Some(250.0),
            _ => Some(f64::from(self.small(0, 100))),
        }
    }
}
