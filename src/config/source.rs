//! The text of one file, and what a fault may show of it.
//!
//! Called by [`super::report`]. Turns byte offsets into lines and columns and
//! cuts the excerpt under a fault. It never shows the value of a key that
//! looks secret, and nothing a terminal would obey.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::PathBuf;

use super::mask::secret_values;

/// How much of a line stands before and after the place; a JSON file may be
/// one line of megabytes.
const BEFORE: usize = 60;
const AFTER: usize = 100;

/// What a text was read from.
#[derive(Debug)]
pub(super) enum Origin {
    File(PathBuf),
    /// An environment variable of this name.
    Variable(String),
}

/// One file or environment variable that was read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) origin: Origin,
    pub(super) text: String,
    lines: OnceCell<Vec<usize>>,
    /// Values that their readers know to be nobody's business.
    concealed: Vec<Range<usize>>,
    // INVARIANT: in order and not overlapping.
    secrets: OnceCell<Vec<Range<usize>>>,
}

/// A line and column, both counted from one; the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from one.
    pub line: usize,
    /// Column in characters, from one.
    pub column: usize,
}

/// Part of a line with a stretch of it marked, ready to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Characters before the mark.
    pub(super) indent: usize,
    /// Length of the mark in characters, at least one.
    pub(super) width: usize,
}

impl Source {
    pub(super) fn new(origin: Origin, text: String) -> Self {
        Self {
            origin,
            text,
            lines: OnceCell::new(),
            concealed: Vec::new(),
            secrets: OnceCell::new(),
        }
    }

    /// Never shows this stretch.
    pub(super) fn conceal(&mut self, range: Range<usize>) {
        self.concealed.push(range);
        self.secrets = OnceCell::new();
    }

    /// The line and column of a byte offset.
    pub(super) fn position(&self, offset: usize) -> Position {
        let (line, start) = self.line_of(offset);
        let column = self.slice(start, offset).chars().count() + 1;
        Position { line, column }
    }

    /// The line around a place, with the place marked.
    pub(super) fn excerpt(&self, start: usize, end: usize) -> Excerpt {
        let start = self.boundary(start);
        let (_, line_start) = self.line_of(start);
        let from = self.boundary(start.saturating_sub(BEFORE).max(line_start));
        // Never looks further than it shows: the line may be the whole file.
        let ahead = self.slice(start, start + AFTER);
        let to = start + ahead.find('\n').unwrap_or(ahead.len());
        let line_goes_on = !ahead.contains('\n') && to < self.text.len();

        let mut cut = Cut::default();
        if from > line_start {
            cut.text.push_str("...");
            cut.length = 3;
        }
        for (offset, c) in self.slice(from, to).trim_end_matches('\r').char_indices() {
            let offset = from + offset;
            if offset <= start {
                cut.mark_start = cut.length;
            }
            cut.push(c, self.secret_at(offset));
            if offset < end {
                cut.mark_end = cut.length;
            }
        }
        if start >= to {
            cut.mark_start = cut.length;
        }
        if line_goes_on {
            cut.text.push_str("...");
        }
        Excerpt {
            indent: cut.mark_start,
            width: cut.mark_end.saturating_sub(cut.mark_start).max(1),
            text: cut.text,
        }
    }

    fn line_of(&self, offset: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect()
        });
        let line = lines.partition_point(|start| *start <= offset).max(1);
        let start = lines.get(line - 1).copied().unwrap_or_default();
        (line, start)
    }

    fn secret_at(&self, offset: usize) -> Option<usize> {
        let secrets = self.secrets.get_or_init(|| {
            let found = secret_values(&self.text);
            merged(found.into_iter().chain(self.concealed.iter().cloned()))
        });
        let next = secrets.partition_point(|range| range.end <= offset);
        secrets
            .get(next)
            .is_some_and(|range| range.start <= offset)
            .then_some(next)
    }

    fn boundary(&self, mut offset: usize) -> usize {
        offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }

    fn slice(&self, from: usize, to: usize) -> &str {
        let (from, to) = (self.boundary(from), self.boundary(to));
        self.text.get(from..to).unwrap_or_default()
    }
}

/// The same stretches in order, those that touch made one.
fn merged(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut sorted: Vec<_> = ranges.collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// An excerpt in the making.
#[derive(Debug, Default)]
struct Cut {
    text: String,
    length: usize,
    mark_start: usize,
    mark_end: usize,
    /// The secret whose stars were written last.
    starred: Option<usize>,
}

impl Cut {
    fn push(&mut self, c: char, secret: Option<usize>) {
        match secret {
            None => {
                self.text.push(harmless(c));
                self.length += 1;
            }
            Some(_) if self.starred == secret => {}
            Some(_) => {
                self.text.push_str("***");
                self.length += 3;
            }
        }
        self.starred = secret;
    }
}

/// Control characters and those that turn the writing direction could rewrite
/// what the terminal shows.
pub(super) fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, mark: &str) -> String {
        let source = Source::new(Origin::File("a.toml".into()), text.to_owned());
        let start = text.find(mark).unwrap();
        let excerpt = source.excerpt(start, start + mark.len());
        let marks = " ".repeat(excerpt.indent) + &"^".repeat(excerpt.width);
        format!("{}\n{marks}", excerpt.text)
    }

    #[test]
    fn the_line_is_cut_and_marked() {
        assert_eq!(excerpt("a = 1\nbb = 22\n", "22"), "bb = 22\n     ^^");
        assert_eq!(excerpt("ä = \"ö\"\r\nb = 1", "\"ö\""), "ä = \"ö\"\n    ^^^");
    }

    #[test]
    fn a_place_over_several_lines_is_marked_on_its_first() {
        assert_eq!(excerpt("a = [\n1,\n2]\n", "[\n1,\n2]"), "a = [\n    ^");
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let text = format!("{}HERE{}", "x".repeat(5000), "y".repeat(5000));
        let shown = excerpt(&text, "HERE");
        assert!(shown.starts_with("...xxx"), "{shown}");
        assert!(shown.len() < 400, "{shown}");
        assert!(
            shown.ends_with(&format!("{}^^^^", " ".repeat(BEFORE + 3))),
            "{shown}"
        );
    }

    #[test]
    fn secrets_become_stars_and_the_mark_moves_along() {
        assert_eq!(
            excerpt(r#"{"password": "hunter2", "nmae": "x"}"#, "\"nmae\""),
            "{\"password\": ***, \"nmae\": \"x\"}\n                  ^^^^^^"
        );
        assert_eq!(
            excerpt("api_key = \"abc\"", "\"abc\""),
            "api_key = ***\n          ^^^"
        );
    }

    #[test]
    fn what_a_terminal_obeys_is_replaced() {
        assert_eq!(
            excerpt("a\t= \u{1b}[2J\u{202e}b", "b"),
            "a = \u{fffd}[2J\u{fffd}b\n         ^"
        );
    }

    #[test]
    fn the_end_of_the_text_is_a_place_too() {
        let source = Source::new(Origin::File("a.toml".into()), "a = ".to_owned());
        assert_eq!(source.position(4), Position { line: 1, column: 5 });
        let excerpt = source.excerpt(4, 4);
        assert_eq!((excerpt.indent, excerpt.width), (4, 1));
        assert_eq!(source.position(900), Position { line: 1, column: 5 });
    }
}
