//! JSON text into the tree.
//!
//! Called by the room itself for every `*.json`. Two parsers share the
//! work: serde_json judges the text (it is strict to the letter, so comments,
//! trailing commas, line breaks in text and odd white space are refused with
//! its exact message), then jsonc-parser, which knows where each value stands
//! but is lenient by nature, reads only text that is known to be valid.

use std::collections::BTreeSet;

use jsonc_parser::ast;
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

use super::node::{At, Entry, Located, Node, SourceId, Table, Value};
use super::problem::Problem;

/// Deepest nesting accepted. The deepest meaningful file needs six; the bound
/// keeps a hostile one from exhausting the stack of the recursive parser.
pub(super) const DEPTH_LIMIT: usize = 64;

/// The one value the file holds, or what is wrong with it.
pub(super) fn parse(text: &str, source: SourceId) -> Result<Node, Vec<Located<Problem>>> {
    // Skipping a value does not recurse, so any depth is safe here.
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(vec![strict_error(&error, text, source)]);
    }
    if let Some(start) = too_deep(text) {
        let limit = DEPTH_LIMIT;
        let at = point(source, start);
        return Err(vec![Located {
            value: Problem::TooDeep { limit },
            at,
        }]);
    }
    let parsed = match parse_to_ast(text, &CollectOptions::default(), &strict()) {
        Ok(parsed) => parsed,
        Err(error) => {
            // The judge passes escapes that name half a character.
            let message = match error.kind() {
                ParseErrorKind::String(_) => "this escape is not a character".to_owned(),
                kind => kind.to_string().to_lowercase(),
            };
            let value = Problem::Syntax {
                message,
                help: None,
            };
            let at = place(error.range(), source);
            return Err(vec![Located { value, at }]);
        }
    };
    let Some(value) = parsed.value else {
        return Err(vec![Located {
            value: Problem::Empty,
            at: point(source, 0),
        }]);
    };
    let mut repeated = Vec::new();
    let node = convert(value, source, &mut repeated);
    if repeated.is_empty() {
        Ok(node)
    } else {
        Err(repeated)
    }
}

fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The judge counts lines and bytes from one; its text repeats them at the end.
fn strict_error(error: &serde_json::Error, text: &str, source: SourceId) -> Located<Problem> {
    let full = error.to_string();
    let message = full
        .rsplit_once(" at line ")
        .map_or(full.as_str(), |(message, _)| message);
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let mut start = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    Located {
        value: Problem::Syntax {
            message: message.to_owned(),
            help: slip(text, start),
        },
        at: point(source, start),
    }
}

/// What other dialects allow at this place and JSON does not.
fn slip(text: &str, start: usize) -> Option<&'static str> {
    let before = text.get(..start)?.trim_end();
    match text.get(start..)?.chars().next()? {
        '/' | '#' => Some("JSON has no comments"),
        '\'' => Some("JSON wants double quotes"),
        '}' | ']' if before.ends_with(',') => Some("remove the comma before it"),
        _ => None,
    }
}

/// Where valid JSON first nests deeper than the limit.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_LIMIT {
                    return Some(offset);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn convert(value: ast::Value<'_>, source: SourceId, repeated: &mut Vec<Located<Problem>>) -> Node {
    let at = place(value.range(), source);
    let value = match value {
        ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
        ast::Value::NumberLit(number) => convert_number(number.value),
        ast::Value::BooleanLit(truth) => Value::Bool(truth.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => Value::List(
            list.elements
                .into_iter()
                .map(|element| convert(element, source, repeated))
                .collect(),
        ),
        ast::Value::Object(object) => Value::Table(convert_object(object, source, repeated)),
    };
    Located { value, at }
}

fn convert_number(text: &str) -> Value {
    if text.contains(['.', 'e', 'E']) {
        Value::Fraction
    } else {
        text.parse().map_or(Value::HugeInteger, Value::Integer)
    }
}

/// JSON itself allows a key twice and readers differ on which one counts, so
/// it is a fault here, as it is in TOML.
fn convert_object(
    object: ast::Object<'_>,
    source: SourceId,
    repeated: &mut Vec<Located<Problem>>,
) -> Table {
    let mut seen = BTreeSet::new();
    let mut entries = Vec::with_capacity(object.properties.len());
    for property in object.properties {
        let at = place(property.name.range(), source);
        let key = property.name.into_string();
        let value = convert(property.value, source, repeated);
        if seen.insert(key.clone()) {
            let key = Located { value: key, at };
            entries.push(Entry { key, value });
        } else {
            let value = Problem::RepeatedKey { key };
            repeated.push(Located { value, at });
        }
    }
    Table { entries }
}

fn point(source: SourceId, start: usize) -> At {
    At {
        source,
        start,
        end: start,
    }
}

fn place(range: Range, source: SourceId) -> At {
    At {
        source,
        start: range.start,
        end: range.end,
    }
}
