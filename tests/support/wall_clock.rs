//! A wall clock of a broker's own that may jump, while all other clocks go on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Site;

/// Its offset from the machine's clock.
pub(crate) struct WallClock {
    offset: PathBuf,
}

impl WallClock {
    /// Gives the site's brokers this clock. It is made with the linker's C compiler, which is
    /// there wherever Rust links programs.
    pub(crate) fn of(site: Site) -> (Site, Self) {
        let (offset, library) = (
            site.folder().join("offset"),
            site.folder().join("wall_clock.so"),
        );
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/wall_clock.c");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .expect("cc");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let site = site
            .knowing("LD_PRELOAD", library.to_str().unwrap())
            .knowing("WALL_CLOCK_OFFSET", offset.to_str().unwrap());
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
