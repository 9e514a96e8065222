//! A wall clock of a broker's own that may jump, while all other clocks go on.

use std::fs;
use std::path::PathBuf;

use super::Site;
use super::preload::preloading;

/// Its offset from the machine's clock.
pub(crate) struct WallClock {
    offset: PathBuf,
}

impl WallClock {
    /// Gives the site's brokers this clock.
    pub(crate) fn of(site: Site) -> (Site, Self) {
        let offset = site.folder().join("offset");
        let site =
            preloading(site, "wall_clock.c").knowing("WALL_CLOCK_OFFSET", offset.to_str().unwrap());
        let clock = Self { offset };
        clock.is_off_by(0);
        (site, clock)
    }

    /// From now on it is so many seconds ahead, or behind.
    pub(crate) fn is_off_by(&self, seconds: i64) {
        // In one step: who reads it sees one or the other.
        let next = self.offset.with_extension("next");
        fs::write(&next, seconds.to_string()).unwrap();
        fs::rename(next, &self.offset).unwrap();
    }
}
