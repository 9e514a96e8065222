//! Numbers that look random and are the same for the same seed.

/// A row of such numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(seed: u64) -> Self {
        // A row that begins at zero stays there.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 up to 1.
    pub(crate) fn share(&mut self) -> f64 {
        f64::from(u32::try_from(self.roll() >> 32).unwrap()) / f64::from(u32::MAX)
    }
}
