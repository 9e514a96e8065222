//! What lists have in common: how long they may be, and what to say of a name
//! that is in none.

use serde::Deserialize;

use super::answer::Failure;

/// Most that is listed at a time.
pub(super) const MOST: usize = 1000;

/// How many to list, from the query; as much as `usual` where it says nothing.
///
/// # Errors
/// A number that is none, or out of bounds.
pub(super) fn limit(asked: Option<&str>, usual: usize, most: usize) -> Result<usize, Failure> {
    let Some(text) = asked else {
        return Ok(usual);
    };
    let number = text.parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| Failure::bad(format!("limit is a number from 1 to {most}")))
}

/// A text from the query, which may not be blank where it is given.
///
/// # Errors
/// It is blank.
pub(super) fn given<'a>(name: &str, asked: Option<&'a str>) -> Result<Option<&'a str>, Failure> {
    match asked.map(str::trim) {
        Some("") => Err(Failure::bad(format!("{name} is blank"))),
        text => Ok(text),
    }
}

/// What is said of a name that is not known: with the known one that is most
/// like it.
pub(super) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let likeness = |known: &&str| strsim::jaro_winkler(&known.to_lowercase(), &name.to_lowercase());
    let closest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = closest.filter(|known| likeness(known) >= 0.8);
    let hint = hint.map(|known| format!("; did you mean {known}?"));
    Failure::not_found(format!(
        "there is no {what} {name:?}{}",
        hint.unwrap_or_default()
    ))
}

/// A query that says nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_within_bounds() {
        assert_eq!(limit(None, 50, 500).unwrap(), 50);
        assert_eq!(limit(Some("500"), 50, 500).unwrap(), 500);
        for bad in ["0", "501", "-1", "", "many", "99999999999999999999"] {
            assert!(limit(Some(bad), 50, 500).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_misspelt_name_finds_the_one_that_was_meant() {
        let said = |name| format!("{:?}", unknown("host", name, ["rds1", "db7"].into_iter()));
        assert!(said("rsd1").contains("did you mean rds1?"));
        assert!(said("RDS1").contains("did you mean rds1?"));
        assert!(!said("mailserver").contains("did you mean"));
    }
}
