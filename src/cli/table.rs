//! Tables for people: columns as wide as they must be, colour on a terminal
//! only.

use std::fmt::Write;
use std::io::IsTerminal;

use serde_json::Value;

/// The field of an answer whose texts have several lines.
const FINDINGS: &str = "findings";

/// How a cell is shown where there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Strong,
    Good,
    Bad,
    Faint,
}

/// A cell that says something as it is.
pub(super) fn plain(text: impl ToString) -> (String, Tone) {
    (text.to_string(), Tone::Plain)
}

/// What the broker answers, safe for a terminal: names come from whoever
/// connects, and none may move the cursor, hide itself, or pose as a line of
/// ours. Findings about files keep their line breaks.
pub(super) fn harmless(answer: Value) -> Value {
    match answer {
        Value::String(text) => Value::String(visible(&text, false)),
        Value::Array(values) => values.into_iter().map(harmless).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| {
                    let value = if name == FINDINGS {
                        broken_in_lines(value)
                    } else {
                        harmless(value)
                    };
                    (visible(&name, false), value)
                })
                .collect(),
        ),
        other => other,
    }
}

/// Findings, which have several lines each.
fn broken_in_lines(findings: Value) -> Value {
    match findings {
        Value::String(text) => Value::String(visible(&text, true)),
        Value::Array(values) => values.into_iter().map(broken_in_lines).collect(),
        other => harmless(other),
    }
}

/// A text with what is not to be seen written out: `\u{1b}`.
pub(super) fn visible(text: &str, in_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' if in_lines => shown.push(c),
            c if c.is_control() || turns(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether a character breaks the line or turns its direction around.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether there is colour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(bool);

impl Paint {
    /// Colour for standard output, if that is a terminal and nobody minds.
    pub(super) fn stdout() -> Self {
        let minds = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        Self(std::io::stdout().is_terminal() && !minds)
    }

    pub(super) fn text(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.0 => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Rows of cells; the first is the head.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|cell| ((*cell).to_owned(), Tone::Strong));
        Self {
            rows: vec![head.collect()],
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text; every line ends in a line break.
    pub(super) fn show(&self, paint: Paint) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|(text, _)| text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut shown = String::new();
        for row in &self.rows {
            let mut line = String::new();
            let mut gap = 0;
            for ((text, tone), width) in row.iter().zip(&widths) {
                line.extend(std::iter::repeat_n(' ', gap));
                line.push_str(&paint.text(*tone, text));
                // Never behind the last cell that says something.
                gap = width - text.chars().count() + 2;
            }
            // Writing to a text cannot fail.
            let _ = writeln!(shown, "{}", line.trim_end());
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["host", "score"]);
        table.row([plain("büro-1"), plain("12")]);
        table.row([plain("b"), plain("")]);
        assert_eq!(table.show(Paint(false)), "host    score\nbüro-1  12\nb\n");
    }

    #[test]
    fn no_name_reaches_the_terminal_but_as_what_it_is() {
        let name = "a\nb\u{1b}[31mc\u{202e}d\u{9b}\tj\u{f6}rg \u{1f600}";
        let shown = r"a\nb\u{1b}[31mc\u{202e}d\u{9b}\tjörg 😀";
        let answer = json!({ "users": [{ "name": name }], FINDINGS: [name], "count": 1 });
        let answer = harmless(answer);
        assert_eq!(answer["users"][0]["name"], shown);
        assert_eq!(answer[FINDINGS][0], shown.replace("\\n", "\n"));
        assert_eq!(answer["count"], 1);
    }

    #[test]
    fn colour_takes_no_room() {
        let mut table = Table::new(&["a", "b"]);
        table.row([("long".to_owned(), Tone::Bad), plain("x")]);
        assert_eq!(
            table.show(Paint(true)),
            "\x1b[1ma\x1b[0m     \x1b[1mb\x1b[0m\n\x1b[31mlong\x1b[0m  x\n"
        );
    }
}
