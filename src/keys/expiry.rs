//! When a key is to end: after a while, or at a moment.

use std::time::Duration;

use crate::placement::Timestamp;

const DAY: u64 = 86_400;
const LONGEST: Duration = Duration::from_secs(10 * 366 * DAY);

/// Why that is no end for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExpiryError {
    /// Neither.
    #[error(
        "write when it expires as 30d, 12h, 90m, or in UTC as 2027-01-31 or 2027-01-31T12:00:00Z"
    )]
    Form,
    /// It would be over before it began.
    #[error("that it expires lies in the past")]
    Past,
    /// Nobody will be there.
    #[error("a key expires within ten years; leave it out for one that does not")]
    Far,
}

/// The moment a text means. Of a day it is the beginning.
pub(super) fn read(text: &str, now: Timestamp) -> Result<Timestamp, ExpiryError> {
    let text = text.trim();
    let end = match span(text) {
        Some(span) if span > LONGEST => return Err(ExpiryError::Far),
        Some(span) => now + span,
        None => moment(text).ok_or(ExpiryError::Form)?,
    };
    if end <= now {
        Err(ExpiryError::Past)
    } else if end > now + LONGEST {
        Err(ExpiryError::Far)
    } else {
        Ok(end)
    }
}

fn span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => DAY,
        _ => return None,
    };
    digits(number).map(|number| Duration::from_secs(number.saturating_mul(seconds)))
}

fn moment(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let (year, month, day) = three(date, '-', [4, 2, 2])?;
    let (hour, minute, second) = three(time.strip_suffix('Z')?, ':', [2, 2, 2])?;
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=length(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    fits.then(|| Timestamp::from_millis(seconds * 1000))
}

fn three(text: &str, between: char, lengths: [usize; 3]) -> Option<(u64, u64, u64)> {
    let mut parts = text.split(between).zip(lengths);
    let mut next = || {
        let (part, length) = parts.next()?;
        digits(part).filter(|_| part.len() == length)
    };
    let found = (next()?, next()?, next()?);
    (text.split(between).count() == 3).then_some(found)
}

fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date; the years are few, so they are counted.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let years = (1970..year)
        .map(|year| 365 + u64::from(is_leap(year)))
        .sum::<u64>();
    let months = (1..month).map(|month| length(year, month)).sum::<u64>();
    years + months + day.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    fn now() -> Timestamp {
        moment("2026-02-27T23:00:00Z").unwrap()
    }

    #[test]
    fn spans_and_moments_are_read() {
        for (text, end) in [
            ("30d", "2026-03-29T23:00:00.000Z"),
            ("12h", "2026-02-28T11:00:00.000Z"),
            ("90m", "2026-02-28T00:30:00.000Z"),
            (" 1s ", "2026-02-27T23:00:01.000Z"),
            ("2026-03-01", "2026-03-01T00:00:00.000Z"),
            ("2028-02-29T12:34:56Z", "2028-02-29T12:34:56.000Z"),
        ] {
            assert_eq!(read(text, now()).map(rfc3339).as_deref(), Ok(end), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_or_will_not_do_is_refused() {
        use ExpiryError::*;
        for (text, error) in [
            ("", Form),
            ("30", Form),
            ("d", Form),
            ("-1d", Form),
            ("1.5d", Form),
            ("1w", Form),
            ("2027-02-29", Form),
            ("2027-13-01", Form),
            ("2027-1-1", Form),
            ("2027-01-01-01", Form),
            ("2027-01-01T12:00:00", Form),
            ("2027-01-01T24:00:00Z", Form),
            ("1ü", Form),
            ("0d", Past),
            ("2026-02-27", Past),
            ("2026-02-27T23:00:00Z", Past),
            ("9999999d", Far),
            ("99999999999999999999d", Form),
            ("18446744073709551615d", Far),
            ("2199-01-01", Far),
        ] {
            assert_eq!(read(text, now()), Err(error), "{text}");
        }
    }
}
