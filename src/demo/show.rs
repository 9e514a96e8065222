//! Prints the demo: a heading a scene, a labelled line a fact, a table at the
//! end. Colour and pauses only where a person looks on.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::sleep;

/// Between two scenes, for whoever reads along.
const PAUSE: Duration = Duration::from_millis(1200);

/// Terminal codes, off again with [`PLAIN`].
const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const GREEN: &str = "\u{1b}[32m";
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";

/// Where the demo is written to.
#[derive(Debug)]
pub(super) struct Show<W> {
    out: W,
    colour: bool,
    pauses: bool,
    scenes: u32,
}

impl<W: Write> Show<W> {
    pub(super) fn new(out: W, colour: bool, pauses: bool) -> Self {
        Self {
            out,
            colour,
            pauses,
            scenes: 0,
        }
    }

    pub(super) fn text(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    pub(super) fn title(&mut self, text: &str) -> io::Result<()> {
        let title = self.in_colour(BOLD, text);
        self.text(title)
    }

    /// Begins a scene.
    pub(super) async fn scene(&mut self, title: &str) -> io::Result<()> {
        if self.pauses {
            sleep(PAUSE).await;
        }
        self.scenes += 1;
        let heading = self.in_colour(BOLD, &format!("{}. {title}", self.scenes));
        self.text(format_args!("\n{heading}"))
    }

    /// What somebody does.
    pub(super) fn action(&mut self, text: impl fmt::Display) -> io::Result<()> {
        self.text(format_args!("\n  {text}"))
    }

    /// A fact, under its label.
    pub(super) fn fact(&mut self, label: &str, fact: impl fmt::Display) -> io::Result<()> {
        let label = self.in_colour(DIM, &format!("{label:<11}"));
        self.text(format_args!("    {label}{fact}"))
    }

    /// What was shown and has been checked.
    pub(super) fn proven(&mut self, text: impl fmt::Display) -> io::Result<()> {
        let ok = self.in_colour(GREEN, "ok");
        self.text(format_args!("\n  {ok}  {text}"))
    }

    /// What was not as it should be.
    pub(super) fn failed(&mut self, text: impl fmt::Display) -> io::Result<()> {
        let failed = self.in_colour(RED, "NOT AS EXPECTED");
        self.text(format_args!("\n  {failed}  {text}"))
    }

    /// Rows under a heading, each column as wide as its widest cell.
    pub(super) fn table<const N: usize>(&mut self, rows: &[[String; N]]) -> io::Result<()> {
        let mut widths = [0; N];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (at, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(widths);
            let padded: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            let line = padded.join("  ");
            let line = line.trim_end();
            let line = if at == 0 {
                self.in_colour(DIM, line)
            } else {
                line.to_owned()
            };
            self.text(format_args!("  {line}"))?;
        }
        Ok(())
    }

    fn in_colour(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(colour: bool) -> String {
        let mut out = Vec::new();
        let mut show = Show::new(&mut out, colour, false);
        show.fact("decided", "rds-1").unwrap();
        let cell = |text: &str| text.to_owned();
        let rows = [
            [cell("user"), cell("host")],
            [cell("Ännchen"), cell("rds-1")],
        ];
        show.table(&rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_line_up_and_no_colour_means_none() {
        assert_eq!(
            shown(false),
            "    decided    rds-1\n  user     host\n  Ännchen  rds-1\n"
        );
        assert!(shown(true).contains("\u{1b}["));
    }

    #[test]
    fn a_reader_that_left_is_an_error_of_its_own_kind() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = Show::new(Closed, false, false).title("demo").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
