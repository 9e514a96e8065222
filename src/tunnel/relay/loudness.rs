//! How much a relay has to move each time it is woken, by which it is known where
//! it is better off.

/// Bytes that a wake moves, on average of about the last eight.
#[derive(Debug)]
pub(super) struct Loudness(u32);

/// On average fewer bytes than this are quiet: several of a desktop's usual frames.
const QUIET: u32 = 16 * 1024;
/// More than this are loud; in between everybody stays where it is.
const LOUD: u32 = 32 * 1024;
/// Before anything is known: some quiet wakes away from being quiet, so that who
/// leaves again at once, or never says a word, is not moved; a full wake makes it loud.
const UNKNOWN: u32 = 28 * 1024;
/// How many wakes the average goes back.
const WAKES: u32 = 8;

impl Loudness {
    pub(super) const fn unknown() -> Self {
        Self(UNKNOWN)
    }

    /// A wake moved so many bytes; one that moved none tells nothing.
    pub(super) fn moved(&mut self, bytes: u64) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.0 = self.0 - self.0 / WAKES + bytes / WAKES;
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.0 < QUIET
    }

    pub(super) fn is_loud(&self) -> bool {
        self.0 > LOUD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many wakes like this one it takes, at most a thousand.
    fn wakes_until(
        loudness: &mut Loudness,
        bytes: u64,
        is_so: impl Fn(&Loudness) -> bool,
    ) -> usize {
        let mut wakes = 0;
        while !is_so(loudness) && wakes < 1000 {
            loudness.moved(bytes);
            wakes += 1;
        }
        wakes
    }

    #[test]
    fn a_few_small_wakes_make_it_quiet_and_a_few_large_ones_loud_again() {
        let mut loudness = Loudness::unknown();
        assert!((5..=20).contains(&wakes_until(&mut loudness, 8192, Loudness::is_quiet)));
        assert!((2..=20).contains(&wakes_until(&mut loudness, 65_536, Loudness::is_loud)));
        assert!((2..=20).contains(&wakes_until(&mut loudness, 20, Loudness::is_quiet)));
    }

    #[test]
    fn one_picture_among_small_frames_changes_nothing() {
        let mut loudness = Loudness::unknown();
        wakes_until(&mut loudness, 2000, |_| false);
        loudness.moved(100_000);
        assert!(loudness.is_quiet());
    }

    #[test]
    fn what_is_neither_stays_and_nothing_at_all_tells_nothing() {
        let mut loudness = Loudness::unknown();
        assert_eq!(wakes_until(&mut loudness, 24_000, Loudness::is_quiet), 1000);
        assert!(!loudness.is_loud());
        assert_eq!(wakes_until(&mut loudness, 0, Loudness::is_quiet), 1000);
        loudness.moved(u64::MAX);
        assert!(loudness.is_loud());
        loudness.moved(u64::MAX);
        assert!(loudness.is_loud());
    }
}
