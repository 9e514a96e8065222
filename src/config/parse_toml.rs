//! TOML text into the tree.
//!
//! Called by the room itself for every `*.toml`. The parser itself bounds
//! the nesting and refuses a key written twice; it never panics on any text.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::{At, Entry, Located, Node, SourceId, Table, Value};
use super::problem::Problem;

/// Up to this length a broken file is read on past its first fault. Beyond it
/// the list of what follows from one stray byte could outgrow the file itself.
const RECOVER_UP_TO: usize = 256 * 1024;

/// The whole document as one table, or every line that does not parse.
pub(super) fn parse(text: &str, source: SourceId) -> Result<Node, Vec<Located<Problem>>> {
    match DeTable::parse(text) {
        Ok(table) => {
            let at = At {
                source,
                start: 0,
                end: text.len(),
            };
            let value = Value::Table(convert_table(table.into_inner(), source));
            Ok(Located { value, at })
        }
        Err(first) if text.len() > RECOVER_UP_TO => Err(vec![convert_error(&first, text, source)]),
        Err(_) => {
            let (_, errors) = DeTable::parse_recoverable(text);
            Err(one_a_line(&errors, text, source))
        }
    }
}

/// What follows on the same line is nearly always an echo of the first fault.
fn one_a_line(errors: &[toml::de::Error], text: &str, source: SourceId) -> Vec<Located<Problem>> {
    let mut kept: Vec<Located<Problem>> = Vec::new();
    for error in errors {
        let problem = convert_error(error, text, source);
        let echo = kept.last().is_some_and(|last| {
            let (from, to) = order(last.at.start, problem.at.start);
            text.get(from..to).is_some_and(|t| !t.contains('\n'))
        });
        if !echo {
            kept.push(problem);
        }
    }
    kept
}

fn order(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn convert_error(error: &toml::de::Error, text: &str, source: SourceId) -> Located<Problem> {
    let span = error.span().unwrap_or(0..text.len().min(1));
    let message = error.message().to_owned();
    let help = if message == "duplicate key" {
        Some("remove one of them")
    } else {
        in_bare_value(text, span.start).then_some("put text in double quotes")
    };
    Located {
        value: Problem::Syntax { message, help },
        at: At {
            source,
            start: span.start,
            end: span.end,
        },
    }
}

/// Whether the place is in a value that begins neither as a text nor as a list
/// or table: most often a text without quotes.
fn in_bare_value(text: &str, place: usize) -> bool {
    let before = text.get(..place).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(line_start..).unwrap_or_default();
    let line = line.split('\n').next().unwrap_or_default();
    line.split_once('=').is_some_and(|(key, value)| {
        let value = value.trim_start();
        let bare = !value.is_empty() && !value.starts_with(['"', '\'', '[', '{', '#']);
        bare && line_start + key.len() < place
    })
}

fn convert_table(table: DeTable<'_>, source: SourceId) -> Table {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| Entry {
            key: Located {
                at: place(&key, source),
                value: key.into_inner().into_owned(),
            },
            value: convert(value, source),
        })
        .collect();
    // The parser sorts by name; faults read better in the order written.
    entries.sort_by_key(|entry| entry.key.at.start);
    Table { entries }
}

fn convert(value: Spanned<DeValue<'_>>, source: SourceId) -> Node {
    let at = place(&value, source);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::HugeInteger, Value::Integer),
        DeValue::Float(_) => Value::Fraction,
        DeValue::Boolean(truth) => Value::Bool(truth),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(
            items
                .into_iter()
                .map(|item| convert(item, source))
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(convert_table(table, source)),
    };
    Located { value, at }
}

fn place<T>(spanned: &Spanned<T>, source: SourceId) -> At {
    let span = spanned.span();
    At {
        source,
        start: span.start,
        end: span.end,
    }
}
