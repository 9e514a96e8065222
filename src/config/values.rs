//! Reads single values: numbers, switches, words, times.
//!
//! Each function takes a node and gives the checked value or why it is
//! refused. Addresses are read in [`super::network`], ids and names in
//! [`super::names`].

use std::fmt::Display;
use std::time::Duration;

use super::node::{Node, Value};
use super::value_error::ValueError;
use super::words::{Words, spelt};

pub(super) fn wrong_type(node: &Node, expected: &'static str) -> ValueError {
    ValueError::WrongType {
        expected,
        got: node.value.kind(),
    }
}

pub(super) fn text(node: &Node) -> Result<&str, ValueError> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(wrong_type(node, "text")),
    }
}

pub(super) fn switch(node: &Node) -> Result<bool, ValueError> {
    match &node.value {
        Value::Bool(on) => Ok(*on),
        _ => Err(wrong_type(node, "true or false")),
    }
}

/// A whole number within the range.
pub(super) fn number<T: TryFrom<i64>>(
    (least, most): (i64, i64),
) -> impl Fn(&Node) -> Result<T, ValueError> {
    move |node| {
        let refused = |got: &dyn Display| ValueError::OutOfRange {
            least: least.to_string(),
            most: most.to_string(),
            got: got.to_string(),
        };
        match &node.value {
            Value::Integer(got) => Some(*got)
                .filter(|got| (least..=most).contains(got))
                .and_then(|got| T::try_from(got).ok())
                .ok_or_else(|| refused(got)),
            Value::HugeInteger => Err(refused(&"more")),
            _ => Err(wrong_type(node, "a whole number")),
        }
    }
}

/// A whole number of seconds within the range, for the keys that carry the
/// unit in their name.
pub(super) fn seconds(
    (least, most): (u64, u64),
) -> impl FnOnce(&Node) -> Result<Duration, ValueError> {
    let fits = move |seconds: &u64| (least..=most).contains(seconds);
    move |node| match &node.value {
        Value::Text(text) => Err(ValueError::SecondsAsText {
            seconds: text
                .parse()
                .ok()
                .or_else(|| parse_time(text).map(|time| time.as_secs()))
                .filter(fits),
        }),
        _ => {
            let bound = |seconds| i64::try_from(seconds).unwrap_or(i64::MAX);
            number((bound(least), bound(most)))(node).map(Duration::from_secs)
        }
    }
}

/// A time with its unit, within the range.
pub(super) fn time(
    (least, most): (Duration, Duration),
) -> impl FnOnce(&Node) -> Result<Duration, ValueError> {
    move |node| {
        let text = match &node.value {
            Value::Text(text) => text,
            Value::Integer(number) => {
                return Err(ValueError::TimeWithoutUnit {
                    number: number.to_string(),
                });
            }
            _ => return Err(wrong_type(node, "a time such as \"10s\"")),
        };
        let time = parse_time(text).ok_or_else(|| match text.parse::<u64>() {
            Ok(number) => ValueError::TimeWithoutUnit {
                number: number.to_string(),
            },
            Err(_) => ValueError::NotATime { text: text.clone() },
        })?;
        if (least..=most).contains(&time) {
            Ok(time)
        } else {
            Err(ValueError::OutOfRange {
                least: show_time(least),
                most: show_time(most),
                got: text.clone(),
            })
        }
    }
}

/// One of a fixed set of words.
pub(super) fn word<T: Copy>(words: Words<T>) -> impl Fn(&Node) -> Result<T, ValueError> {
    move |node| {
        let got = text(node)?;
        let found = words.iter().find(|(word, _)| *word == got);
        found
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| ValueError::NotOneOf {
                allowed: spelt(words),
                got: got.to_owned(),
            })
    }
}

/// Units in milliseconds. `ms` comes first because it ends like `s`; the others
/// stand from the largest to the smallest.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
];

/// A whole number and one unit. Fractions and sums (`1h30m`) are refused: two
/// ways to write one value are two ways to misread it.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let millis = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    Some(Duration::from_millis(millis))
}

/// The time in the largest unit that divides it.
pub(super) fn show_time(time: Duration) -> String {
    let millis = time.as_millis();
    let fits = |factor: u64| millis > 0 && millis.is_multiple_of(u128::from(factor));
    let (_, coarse) = UNITS.split_at(1);
    coarse.iter().find(|(_, factor)| fits(*factor)).map_or_else(
        || {
            if millis == 0 {
                "0s".to_owned()
            } else {
                format!("{millis}ms")
            }
        },
        |(unit, factor)| format!("{}{unit}", millis / u128::from(*factor)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::node::{At, Located, SourceId};

    fn node(value: Value) -> Node {
        let at = At {
            source: SourceId(0),
            start: 0,
            end: 0,
        };
        Located { value, at }
    }

    fn written(text: &str) -> Node {
        node(Value::Text(text.to_owned()))
    }

    const ANY: (Duration, Duration) = (Duration::ZERO, Duration::MAX);

    #[test]
    fn times_are_a_number_and_a_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("8h", 28_800_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
            ("007s", 7_000),
        ] {
            assert_eq!(
                time(ANY)(&written(text)),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "", "s", "1.5s", "1h30m", "10 s", "-1s", "+1s", "10S", "10w", "1e3s", "١s",
        ] {
            let refused = ValueError::NotATime {
                text: text.to_owned(),
            };
            assert_eq!(time(ANY)(&written(text)), Err(refused), "{text}");
        }
        // Overflow is a fault, never a wrap.
        assert!(time(ANY)(&written("18446744073709551615d")).is_err());
        assert!(time(ANY)(&written("99999999999999999999s")).is_err());
    }

    #[test]
    fn a_time_without_a_unit_is_told_to_have_one() {
        for value in [Value::Integer(10), Value::Text("10".to_owned())] {
            let number = "10".to_owned();
            assert_eq!(
                time(ANY)(&node(value)),
                Err(ValueError::TimeWithoutUnit { number })
            );
        }
    }

    #[test]
    fn seconds_written_as_text_are_told_the_number() {
        for (text, seconds_meant) in [
            ("15m", Some(900)),
            ("900", Some(900)),
            ("soon", None),
            ("1s", None),
        ] {
            let refused = ValueError::SecondsAsText {
                seconds: seconds_meant,
            };
            assert_eq!(seconds((30, 1000))(&written(text)), Err(refused), "{text}");
        }
        assert_eq!(
            seconds((30, 1000))(&node(Value::Integer(30))),
            Ok(Duration::from_secs(30))
        );
    }

    #[test]
    fn numbers_keep_to_their_range() {
        assert_eq!(number::<u8>((0, 100))(&node(Value::Integer(100))), Ok(100));
        for got in [101, -1, 300, i64::MIN] {
            let refused = number::<u8>((0, 100))(&node(Value::Integer(got)));
            assert!(
                matches!(refused, Err(ValueError::OutOfRange { .. })),
                "{got}"
            );
        }
        assert!(number::<u8>((0, 100))(&node(Value::HugeInteger)).is_err());
        assert!(number::<u8>((0, 100))(&node(Value::Fraction)).is_err());
    }

    #[test]
    fn times_are_shown_in_the_largest_unit_that_fits() {
        for text in ["250ms", "10s", "5m", "8h", "30d", "0s", "90s"] {
            let time = parse_time(text).unwrap();
            assert_eq!(show_time(time), text);
        }
    }
}
