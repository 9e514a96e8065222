//! Standard error as systemd's journal takes it: it has a clock of its own, and
//! reads in front of a line how serious that is, so that `journalctl -p warning`
//! finds it.

use std::env;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::Level;

/// Where the system says what our standard error is connected to, as device and
/// inode; whoever redirects it leaves that as it is.
const STREAM: &str = "JOURNAL_STREAM";

/// Whether standard error leads to the journal.
pub(super) fn is_there() -> bool {
    let told = env::var(STREAM);
    told.is_ok_and(|told| is_this(&told, &io::stderr()))
}

fn is_this(told: &str, stream: &impl AsFd) -> bool {
    let file = stream.as_fd().try_clone_to_owned().map(File::from);
    let found = file.and_then(|file| file.metadata());
    found.is_ok_and(|found| told == format!("{}:{}", found.dev(), found.ino()))
}

/// What stands in front of a line of this level.
pub(super) fn priority(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_one_that_was_told_and_no_other() {
        let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let found = one.metadata().unwrap();
        let told = format!("{}:{}", found.dev(), found.ino());
        assert!(is_this(&told, &one));
        assert!(!is_this(&told, &other));
        assert!(!is_this("", &one) && !is_this(&format!("{told}1"), &one));
    }
}
