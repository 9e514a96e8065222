//! Moments as people type them: `22:00`, `2026-11-30 22:00`, `+2h`, or as RFC
//! 3339 writes them; and as people read them, in the time of where they are.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

/// A moment on the command line, not yet worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum When {
    /// The next time the clock shows this.
    Clock(Time),
    /// This date and time, here.
    Local(DateTime),
    /// So much later.
    Later(SignedDuration),
    /// Exactly then.
    Exact(Timestamp),
}

impl When {
    /// Reads what was typed.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(span) = text.strip_prefix('+') {
            return later(span).map(Self::Later);
        }
        let exact = text.parse().map(Self::Exact);
        let local = || text.parse().map(Self::Local);
        let clock = || text.parse().map(Self::Clock);
        // A date alone would be midnight of it: easily meant otherwise.
        let hour = text.contains(':');
        let read = exact.or_else(|_| match text.contains(['-', '/']) {
            true => local(),
            false => clock(),
        });
        read.ok().filter(|_| hour).ok_or_else(|| {
            "write 22:00, \"2026-11-30 22:00\", +2h, or 2026-11-30T22:00:00+01:00".to_owned()
        })
    }

    /// The moment meant: the next one after `base` for a time of day, and so
    /// much later than `base` for a span.
    pub(super) fn after(&self, base: &ZonedDateTime) -> Result<Timestamp, jiff::Error> {
        match self {
            Self::Exact(moment) => Ok(*moment),
            Self::Later(span) => base.timestamp().checked_add(*span),
            Self::Local(moment) => Ok(moment
                .to_zoned_datetime(base.time_zone().clone())?
                .timestamp()),
            Self::Clock(time) => {
                let zone = base.time_zone();
                let today = base
                    .date()
                    .to_datetime(*time)
                    .to_zoned_datetime(zone.clone())?;
                if today.timestamp() > base.timestamp() {
                    return Ok(today.timestamp());
                }
                let tomorrow = base.date().tomorrow()?.to_datetime(*time);
                Ok(tomorrow.to_zoned_datetime(zone.clone())?.timestamp())
            }
        }
    }
}

/// How long to wait, for an option.
pub(super) fn span(text: &str) -> Result<std::time::Duration, String> {
    Ok(later(text)?.unsigned_abs())
}

/// A number and a unit, as durations are written in the configuration.
pub(super) fn later(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{text:?} is no span of time: write 30s, 10m, 2h or 1d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default();
    // A year is far enough, and the sum stays far from any limit.
    let number: Option<u32> = number.parse().ok().filter(|n| *n > 0);
    let seconds = number.and_then(|n| i64::from(n).checked_mul(seconds));
    let seconds = seconds.filter(|s| *s <= 366 * 86_400).ok_or_else(wrong)?;
    Ok(SignedDuration::from_secs(seconds))
}

/// A moment of the broker's as the clock here shows it.
pub(super) fn shown(moment: &str) -> String {
    match moment.parse::<Timestamp>() {
        Ok(moment) => {
            let here = moment.to_zoned_datetime(TimeZone::system());
            here.strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
        }
        Err(_) => moment.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment meant, seen from Berlin.
    fn after(base: &str, typed: &str) -> String {
        let base: ZonedDateTime = base.parse().unwrap();
        let moment = When::read(typed).unwrap().after(&base).unwrap();
        moment.to_string()
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let noon = "2026-11-30T12:00[Europe/Berlin]";
        for (typed, meant) in [
            ("22:00", "2026-11-30T21:00:00Z"),
            ("12:00", "2026-12-01T11:00:00Z"),
            ("02:00:30", "2026-12-01T01:00:30Z"),
            ("+2h", "2026-11-30T13:00:00Z"),
            ("+90s", "2026-11-30T11:01:30Z"),
            ("2026-12-24 18:00", "2026-12-24T17:00:00Z"),
            ("2026-12-24T18:00", "2026-12-24T17:00:00Z"),
            ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
            ("2026-12-24T18:00:00-05:00", "2026-12-24T23:00:00Z"),
        ] {
            assert_eq!(after(noon, typed), meant, "{typed}");
        }
    }

    #[test]
    fn nights_with_a_changed_clock_have_their_own_length() {
        // 02:30 does not exist: the clock jumps from 02:00 to 03:00.
        let spring = "2026-03-28T12:00[Europe/Berlin]";
        assert_eq!(after(spring, "02:30"), "2026-03-29T01:30:00Z");
        // 03:00 is 15 hours away, and a span is a span.
        assert_eq!(after(spring, "03:00"), "2026-03-29T01:00:00Z");
        assert_eq!(after(spring, "+1d"), "2026-03-29T11:00:00Z");
    }

    #[test]
    fn anything_else_is_refused() {
        for typed in [
            "",
            "+",
            "+2",
            "+h",
            "+2w",
            "+-2h",
            "+0h",
            "+400d",
            "tomorrow",
            "22",
            "25:00",
            "2026-12-24",
            "2026-13-01 10:00",
            "+99999999999999h",
            "+2ä",
        ] {
            assert!(When::read(typed).is_err(), "{typed:?}");
        }
    }
}
