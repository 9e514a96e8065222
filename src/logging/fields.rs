//! Fields as people read them. A value may hold what somebody chose, a user's name say: what is in
//! it starts no line of its own and moves no terminal.

use std::fmt::{self, Write as _};

use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

pub(super) fn write(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    write!(Harmless(writer), "{value:?}")
}

struct Harmless<W>(W);

impl<W: fmt::Write> fmt::Write for Harmless<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(obeyed) {
            let end = part.chars().next_back().filter(|c| obeyed(*c));
            let plain = part.len() - end.map_or(0, char::len_utf8);
            self.0.write_str(part.get(..plain).unwrap_or_default())?;
            if let Some(c) = end {
                write!(self.0, "{}", c.escape_default())?;
            }
        }
        Ok(())
    }
}

/// Whether a terminal, or whoever splits lines, would do something at it.
fn obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        for (text, shown) in [
            ("", ""),
            ("corp\\jörg", "corp\\jörg"),
            ("a\r\nb", "a\\r\\nb"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("x\u{202e}y\u{2028}", "x\\u{202e}y\\u{2028}"),
        ] {
            let mut written = String::new();
            write!(Harmless(&mut written), "{text}").unwrap();
            assert_eq!(written, shown);
        }
    }
}
