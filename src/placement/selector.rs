//! The selector an administrator types into a connection's hostname:
//! `sessionguard:resource=sage`, `sessionguard:id=42;name=Office Desktop`.

use std::fmt;

use serde::{Deserialize, Serialize};

const PREFIX: &str = "sessionguard:";

/// What a selector asks for; at least one part is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    /// `resource=`: a resource's id.
    pub resource: Option<String>,
    /// `id=`: a Guacamole connection's id.
    pub id: Option<String>,
    /// `name=`: a Guacamole connection's name; takes the rest of the text, so
    /// that a name may hold `;` and `=`.
    pub name: Option<String>,
    /// `farm=`: a farm's id, obeyed only where the rules allow it.
    pub farm: Option<String>,
}

/// Why a text that starts like a selector is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectorError {
    /// Nothing after the prefix, or an empty part between two `;`.
    Empty,
    /// A part without `=`, or with a key other than the four.
    UnknownKey,
    /// A key without a value.
    NoValue,
    /// A key given twice.
    Repeated,
    /// A token that Guacamole did not fill in: this release or login type does
    /// not know it.
    UnfilledToken,
}

impl Selector {
    /// Reads a hostname. `None`: an ordinary hostname, no selector at all. The
    /// prefix is known in any letter case, as host names are.
    pub fn parse(hostname: &str) -> Option<Result<Self, SelectorError>> {
        let text = hostname.trim();
        let prefix = text.get(..PREFIX.len())?;
        let rest = text.get(PREFIX.len()..)?;
        prefix
            .eq_ignore_ascii_case(PREFIX)
            .then(|| Self::parse_parts(rest))
    }

    fn parse_parts(mut rest: &str) -> Result<Self, SelectorError> {
        let mut selector = Self::default();
        loop {
            if rest.trim().is_empty() {
                return Err(SelectorError::Empty);
            }
            let (key, after) = rest.split_once('=').ok_or(SelectorError::UnknownKey)?;
            let key = key.trim();
            if key.eq_ignore_ascii_case("name") {
                put(&mut selector.name, after)?;
                return Ok(selector);
            }
            let (value, tail) = match after.split_once(';') {
                Some((value, tail)) => (value, Some(tail)),
                None => (after, None),
            };
            let slot = match key.to_ascii_lowercase().as_str() {
                "resource" => &mut selector.resource,
                "id" => &mut selector.id,
                "farm" => &mut selector.farm,
                _ => return Err(SelectorError::UnknownKey),
            };
            put(slot, value)?;
            match tail {
                Some(tail) => rest = tail,
                None => return Ok(selector),
            }
        }
    }
}

fn put(slot: &mut Option<String>, value: &str) -> Result<(), SelectorError> {
    let value = value.trim();
    if value.is_empty() {
        return Err(SelectorError::NoValue);
    }
    if value.contains("${") {
        return Err(SelectorError::UnfilledToken);
    }
    if slot.is_some() {
        return Err(SelectorError::Repeated);
    }
    *slot = Some(value.to_owned());
    Ok(())
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "selector has an empty part",
            Self::UnknownKey => "selector knows resource=, id=, name= and farm= only",
            Self::NoValue => "selector has a key without a value",
            Self::Repeated => "selector gives a key twice",
            Self::UnfilledToken => "Guacamole left a token unfilled (JDBC tokens need 1.6.0)",
        })
    }
}

impl std::error::Error for SelectorError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Selector {
        Selector::parse(text).unwrap().unwrap()
    }

    #[test]
    fn ordinary_hostnames_are_no_selectors() {
        for text in [
            "",
            "rds1.example.com",
            "sessionguard",
            "10.0.0.1",
            "s\u{e9}ssionguard:x",
        ] {
            assert_eq!(Selector::parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_key_alone_and_combined() {
        assert_eq!(
            parsed("sessionguard:resource=sage").resource.as_deref(),
            Some("sage")
        );
        assert_eq!(parsed("SessionGuard:id=42").id.as_deref(), Some("42"));
        let both = parsed("sessionguard:id=42;name=Office; Desktop = 2");
        assert_eq!(both.id.as_deref(), Some("42"));
        assert_eq!(both.name.as_deref(), Some("Office; Desktop = 2"));
        let farm = parsed("sessionguard:farm=erp;resource=sage");
        assert_eq!(
            (farm.farm.as_deref(), farm.resource.as_deref()),
            (Some("erp"), Some("sage"))
        );
    }

    #[test]
    fn what_is_odd_is_refused_not_guessed() {
        for (text, error) in [
            ("sessionguard:", SelectorError::Empty),
            ("sessionguard:resource=sage;", SelectorError::Empty),
            ("sessionguard:sage", SelectorError::UnknownKey),
            ("sessionguard:resourc=sage", SelectorError::UnknownKey),
            ("sessionguard:resource=", SelectorError::NoValue),
            ("sessionguard:id=1;id=2", SelectorError::Repeated),
            (
                "sessionguard:id=${JDBC_CONNECTION_ID}",
                SelectorError::UnfilledToken,
            ),
            ("sessionguard:name=${X} a", SelectorError::UnfilledToken),
        ] {
            assert_eq!(Selector::parse(text), Some(Err(error)), "{text}");
        }
    }
}
