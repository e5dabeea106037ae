//! Output: colour on terminals, tables, and escaping of untrusted text.

use std::fmt::{Arguments, Write as _};
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub(super) use crate::journal::{plural, short, size};

/// The output of a command.
pub(super) struct Out {
    writer: Box<dyn Write>,
    /// Width of the terminal; `None` for a pipe or a file, where nothing is truncated.
    width: Option<usize>,
}

/// Width of a terminal that does not report one.
const COLUMNS: usize = 100;

impl Out {
    pub(super) fn stdout() -> Self {
        let width = io::stdout().is_terminal().then(terminal_columns);
        Self {
            writer: Box::new(anstream::stdout()),
            width,
        }
    }

    pub(super) fn stderr() -> Self {
        Self {
            writer: Box::new(anstream::stderr()),
            width: None,
        }
    }

    /// Prints a line.
    pub(super) fn line(&mut self, text: Arguments<'_>) -> io::Result<()> {
        writeln!(self.writer, "{text}")?;
        self.writer.flush()
    }

    /// Prints a value as JSON.
    pub(super) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.line(format_args!("{}", escaped(&text)))
    }

    /// Prints a value as JSON in one line.
    pub(super) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value)?;
        self.line(format_args!("{}", escaped(&text)))
    }

    /// Prints bytes unchanged; on a terminal control characters are made visible.
    pub(super) fn body(&mut self, body: &[u8]) -> io::Result<()> {
        match self.width {
            Some(_) => self.line(format_args!("{}", visible(&String::from_utf8_lossy(body)))),
            None => {
                self.writer.write_all(body)?;
                self.writer.flush()
            }
        }
    }

    /// Maximum width of a line.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }
}

/// Width from `COLUMNS`, else from the terminal.
fn terminal_columns() -> usize {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse().ok()).filter(|n| *n > 0);
    let asked = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    said.or_else(asked).unwrap_or(COLUMNS)
}

/// Characters that control a terminal or disguise text: control characters, direction marks, and invisible characters.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Untrusted text with control characters made visible; line breaks and tabs stay.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => shown.push(c),
            // Harmless before a line break; elsewhere it could overwrite a line.
            '\r' if rest.peek() == Some(&'\n') => {}
            c if acts(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The first telling line, made visible and truncated to `width` characters.
pub(super) fn first_line(text: &str, width: Option<usize>) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = visible(line.unwrap_or_default()).replace('\t', " ");
    match width {
        Some(width) if line.chars().count() > width => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            kept + "…"
        }
        _ => line,
    }
}

/// JSON with all terminal control characters escaped; JSON itself allows some of them.
fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c == '\n' || !acts(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// Rows with aligned cells, two blanks between them and none at the end.
pub(super) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let padded: Vec<_> = cells.map(|(cell, &width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// `now`, `12m`, `3h`, `5d`.
pub(super) fn age(then_ms: u64, now_ms: u64) -> String {
    let secs = now_ms.saturating_sub(then_ms) / 1000;
    match secs {
        0..60 => "now".to_owned(),
        60..3600 => format!("{}m", secs / 60),
        3600..86400 => format!("{}h", secs / 3600),
        _ => format!("{}d", secs / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_made_visible() {
        assert_eq!(
            visible("a\u{1b}[31mb\u{9b}c\u{7f}"),
            "a\\u{1b}[31mb\\u{9b}c\\u{7f}"
        );
        assert_eq!(visible("x\r\ny\tz\rw"), "x\ny\tz\\u{d}w");
        assert_eq!(visible("a\u{202e}b\u{200b}c"), "a\\u{202e}b\\u{200b}c");
        assert_eq!(visible("grün 🦀"), "grün 🦀");
        assert_eq!(escaped("\"\u{9b}\u{e0001}\"\n"), "\"\\u009b\\udb40\\udc01\"\n");
    }

    #[test]
    fn the_first_line_is_one_line_and_fits() {
        assert_eq!(first_line("\n\n  one\u{1b}\ttwo\nthree", None), "one\\u{1b} two");
        assert_eq!(first_line("abcdef", Some(4)), "abc…");
        assert_eq!(first_line("", Some(4)), "");
    }

    #[test]
    fn ages_are_short() {
        let ages = [0, 59, 60, 7200, 200_000].map(|secs| age(0, secs * 1000));
        assert_eq!(ages, ["now", "now", "1m", "2h", "2d"]);
        assert_eq!(age(10, 5), "now");
    }

    #[test]
    fn tables_are_aligned_and_end_without_blanks() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let lines = table(&[row(["ID", "X"]), row(["grün", ""])]);
        assert_eq!(lines, ["ID    X", "grün"]);
    }
}
