//! Reads ids, names, tags and RemoteApp aliases.
//!
//! What passes here can stand in a log line, a selector and a lease key
//! without being escaped or mistaken for something else.

use std::path::PathBuf;

use crate::placement::fold;

use super::node::{Node, Value};
use super::value_error::ValueError;
use super::values::{text, wrong_type};

/// Longest id in characters.
const LONGEST_ID: usize = 128;
/// Longest name or other free text in characters.
const LONGEST_TEXT: usize = 1024;

/// An id as the file gives it.
pub(super) fn id<T: From<String>>(node: &Node) -> Result<T, ValueError> {
    let text = text(node)?;
    check_id(text)?;
    Ok(text.to_owned().into())
}

/// What every id must satisfy, derived ones too: `;`, `|` and `=` part the
/// fields of selectors and lease keys.
pub(super) fn check_id(text: &str) -> Result<(), ValueError> {
    check_text(text, LONGEST_ID)?;
    match text.chars().find(|c| matches!(c, ';' | '|' | '=')) {
        Some(c) => Err(ValueError::IdCharacter { c }),
        None => Ok(()),
    }
}

/// A name people read, or text matched as a whole.
pub(super) fn name(node: &Node) -> Result<String, ValueError> {
    let text = text(node)?;
    check_text(text, LONGEST_TEXT)?;
    Ok(text.to_owned())
}

/// One of some words, given as its place among them, or a path, which holds a
/// `/`: a slip in a word makes no file.
pub(super) fn place(
    words: &'static [&'static str],
) -> impl Fn(&Node) -> Result<Result<usize, PathBuf>, ValueError> {
    move |node| {
        let text = name(node)?;
        match words.iter().position(|word| *word == text) {
            Some(at) => Ok(Ok(at)),
            None if text.contains('/') => Ok(Err(PathBuf::from(text))),
            None => Err(ValueError::NotAPlace { words, text }),
        }
    }
}

/// The path of a file that holds a secret: one that begins with `/`, `./` or
/// `../`, which no secret written here by mistake is likely to do.
pub(super) fn secret_file(node: &Node) -> Result<PathBuf, ValueError> {
    let text = text(node)?;
    let path = ["/", "./", "../"]
        .iter()
        .find_map(|start| text.strip_prefix(start));
    if path.is_none_or(str::is_empty) {
        return Err(ValueError::NotASecretFile);
    }
    check_text(text, LONGEST_TEXT)?;
    Ok(PathBuf::from(text))
}

/// Text that may be empty or begin and end with blanks, such as a command line.
pub(super) fn free_text(node: &Node) -> Result<String, ValueError> {
    let text = text(node)?;
    check_length_and_controls(text, LONGEST_TEXT)?;
    Ok(text.to_owned())
}

/// A domain as a user name carries it, in the form in which two are compared.
pub(super) fn domain(text: &str) -> Result<String, ValueError> {
    check_text(text, LONGEST_TEXT)?;
    // What stands on the other side of these is a user, or nobody.
    match text.chars().find(|c| matches!(c, '@' | '\\')) {
        Some(c) => Err(ValueError::DomainCharacter { c }),
        None => Ok(fold(text)),
    }
}

/// The name of a connection parameter.
pub(super) fn parameter_name(text: &str) -> Result<String, ValueError> {
    const LONGEST: usize = 64;
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || text.len() > LONGEST || !text.bytes().all(known) {
        return Err(ValueError::NotAParameter {
            text: text.to_owned(),
        });
    }
    Ok(text.to_owned())
}

/// The id of a Guacamole connection: text for Guacamole, digits in its
/// database, and so often written as a number.
pub(super) fn connection_id(node: &Node) -> Result<String, ValueError> {
    match &node.value {
        Value::Integer(number) if *number >= 0 => Ok(number.to_string()),
        Value::Integer(_) => Err(wrong_type(node, "text or a number from 0")),
        Value::Text(_) => name(node),
        _ => Err(wrong_type(node, "text or a whole number")),
    }
}

/// A RemoteApp alias, given back with exactly one `||`.
pub(super) fn alias(node: &Node) -> Result<String, ValueError> {
    let text = text(node)?;
    check_text(text, LONGEST_TEXT)?;
    let bare = text.strip_prefix("||").unwrap_or(text);
    if bare.is_empty() || bare.starts_with('|') || bare.starts_with(char::is_whitespace) {
        return Err(ValueError::Alias {
            alias: text.to_owned(),
        });
    }
    Ok(format!("||{bare}"))
}

fn check_text(text: &str, limit: usize) -> Result<(), ValueError> {
    if text.trim().is_empty() {
        return Err(ValueError::Blank);
    }
    check_length_and_controls(text, limit)?;
    if text.trim().len() != text.len() {
        return Err(ValueError::OuterSpace);
    }
    Ok(())
}

fn check_length_and_controls(text: &str, limit: usize) -> Result<(), ValueError> {
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(ValueError::ControlCharacter { c });
    }
    if text.chars().count() > limit {
        return Err(ValueError::TooLong { limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::node::{At, Located, SourceId};

    fn node(text: &str) -> Node {
        let at = At {
            source: SourceId(0),
            start: 0,
            end: 0,
        };
        Located {
            value: Value::Text(text.to_owned()),
            at,
        }
    }

    #[test]
    fn ids_hold_nothing_that_parts_fields() {
        for good in ["office", "Büro 1", "a.b:c/d", &"x".repeat(128)] {
            assert_eq!(check_id(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", ValueError::Blank),
            (" ", ValueError::Blank),
            (" a", ValueError::OuterSpace),
            ("a\u{a0}", ValueError::OuterSpace),
            ("a;b", ValueError::IdCharacter { c: ';' }),
            ("a|b", ValueError::IdCharacter { c: '|' }),
            ("a=b", ValueError::IdCharacter { c: '=' }),
            ("a\nb", ValueError::ControlCharacter { c: '\n' }),
            ("a\u{85}", ValueError::ControlCharacter { c: '\u{85}' }),
            (&"x".repeat(129), ValueError::TooLong { limit: 128 }),
        ] {
            assert_eq!(check_id(bad), Err(why), "{bad}");
        }
    }

    #[test]
    fn an_alias_gets_exactly_two_bars() {
        for written in ["Sage", "||Sage"] {
            assert_eq!(alias(&node(written)).as_deref(), Ok("||Sage"));
        }
        assert_eq!(alias(&node("a|b")).as_deref(), Ok("||a|b"));
        for bad in [
            "|Sage",
            "|||Sage",
            "||||Sage",
            "||",
            "|",
            "",
            "|| Sage",
            "||Sa\u{7}ge",
            " Sage",
        ] {
            assert!(alias(&node(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn connection_ids_may_be_numbers() {
        let at = node("").at;
        let number = |n| Located {
            value: Value::Integer(n),
            at,
        };
        assert_eq!(connection_id(&number(42)).as_deref(), Ok("42"));
        assert_eq!(connection_id(&node("42")).as_deref(), Ok("42"));
        assert!(connection_id(&number(-1)).is_err());
        assert!(connection_id(&node("")).is_err());
    }
}
