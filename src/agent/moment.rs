//! Moments: now, and as others write them (RFC 3339, any offset, any fraction).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::placement::Timestamp;

/// The moment now by the system's clock, which the times of processes follow,
/// too: their ages stay right when it is set.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::default() + since.unwrap_or(Duration::ZERO)
}

/// Reads a moment; none where it is none, or before 1970.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut date = date.split('-');
    let (year, month, day) = (
        number(date.next()?, 4)?,
        number(date.next()?, 2)?,
        number(date.next()?, 2)?,
    );
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let mut clock = clock.split(':');
    let (hour, minute, second) = (
        number(clock.next()?, 2)?,
        number(clock.next()?, 2)?,
        number(clock.next()?, 2)?,
    );
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day);
    // A leap second is the second after it.
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millis, zone) = fraction(rest)?;
    let seconds = days(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second;
    let millis = seconds * 1000 + millis - offset(zone)? * 60_000;
    Some(Timestamp::from_millis(u64::try_from(millis).ok()?))
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Milliseconds of the fraction, and what follows it.
fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(rest) = rest.strip_prefix('.') else {
        return Some((0, rest));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (digits, zone) = rest.split_at_checked(end)?;
    let millis: String = digits.chars().chain("00".chars()).take(3).collect();
    (!digits.is_empty()).then(|| Some((millis.parse().ok()?, zone)))?
}

/// Minutes east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, zone) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
        (Some(zone), _) => (1, zone),
        (_, Some(zone)) => (-1, zone),
        _ => return None,
    };
    let (hours, minutes) = zone.split_once(':')?;
    Some(sign * (number(hours, 2)? * 60 + number(minutes, 2)?))
}

/// Days since 1970 in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    // Years are counted from March, so that a leap day is a year's last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap + (153 * month + 2) / 5 + day - 1 - 719_468;
    (days >= 0).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    #[test]
    fn what_we_write_we_read() {
        for millis in [
            0,
            951_782_400_123,
            1_709_164_800_000,
            1_796_025_038_999,
            4_102_444_800_000,
        ] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(parse(&rfc3339(at)), Some(at), "{}", rfc3339(at));
        }
    }

    #[test]
    fn offsets_and_fractions_are_followed() {
        let at = parse("2026-11-30T07:50:38Z").unwrap();
        for same in [
            "2026-11-30T08:50:38+01:00",
            "2026-11-30t02:20:38.0-05:30",
            "2026-11-30 07:50:38.0000000Z",
        ] {
            assert_eq!(parse(same), Some(at), "{same}");
        }
        assert_eq!(
            parse("2026-11-30T07:50:38.1234567Z"),
            Some(at + std::time::Duration::from_millis(123))
        );
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "now",
            "2026-11-30",
            "2026-11-30T07:50:38",
            "2026-13-30T07:50:38Z",
            "2026-11-30T24:50:38Z",
            "2026-11-30T07:50:38.Z",
            "2026-11-30T07:50:38+1",
            "1969-12-31T23:59:59Z",
            "२०२६-11-30T07:50:38Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
