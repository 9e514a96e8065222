//! The one clock the moving parts read; placement gets its readings as values.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::placement::Timestamp;

/// Wall time taken once at the start and carried on by the monotonic clock, so
/// that a wall clock set back or forth moves no lease while we run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    epoch: Timestamp,
}

impl Clock {
    /// Starts from the system's clock.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = Timestamp::default() + since_epoch.unwrap_or(Duration::ZERO);
        Self {
            start: Instant::now(),
            epoch,
        }
    }

    /// The same clock, set forward by so many milliseconds.
    #[cfg(test)]
    pub(crate) fn ahead_by(self, millis: i64) -> Self {
        Self {
            epoch: self.epoch.shifted(millis),
            ..self
        }
    }

    /// How long we have been running.
    pub fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    /// The moment now.
    pub fn now(&self) -> Timestamp {
        self.epoch + self.start.elapsed()
    }
}

/// A moment as RFC 3339 writes it, in UTC, to the millisecond.
pub fn rfc3339(at: Timestamp) -> String {
    let millis = at.as_millis();
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = date(days);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, millis) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// Reads a moment as RFC 3339 writes it, with `Z` or an offset; what is finer
/// than a millisecond is cut off. `None`: it is no such text, or before 1970.
pub fn read_rfc3339(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.trim().parse().ok()?;
    let millis = u64::try_from(moment.as_millisecond()).ok()?;
    Some(Timestamp::from_millis(millis))
}

/// Year, month and day of the Gregorian calendar, from days since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years are counted from March, so that a leap day is a year's last; the
    // calendar repeats every 400 years, which have 146,097 days.
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months in a row always have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let january_or_february = month >= 10;
    let month = if january_or_february {
        month - 9
    } else {
        month + 3
    };
    (
        cycle * 400 + year + u64::from(january_or_february),
        month,
        day,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_calendar_has_them() {
        // What `date --utc --date @N` says of these.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let at = Timestamp::from_millis(seconds * 1000 + 7);
            assert_eq!(rfc3339(at), text);
            assert_eq!(read_rfc3339(text), Some(at));
        }
    }

    #[test]
    fn moments_are_read_with_an_offset_and_never_without() {
        let at = Some(Timestamp::from_millis(951_782_399_000));
        for text in ["2000-02-28T23:59:59Z", "2000-02-29T01:59:59+02:00"] {
            assert_eq!(read_rfc3339(text), at, "{text}");
        }
        for text in [
            "",
            "now",
            "22:00",
            "2000-02-28T23:59:59",
            "2000-02-30T00:00:00Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(read_rfc3339(text), None, "{text}");
        }
    }
}
