//! Output of all commands: colors on terminals, tables, and escaping of untrusted text.
//!
//! Every line that a command prints goes through [`Out`].

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::exit::{CliResult, CommandFailure};
use super::state_args::ListFormat;
use baton_core::text::{units, visible as text};
pub(super) use baton_state::journal::{plural, short, unsent};
pub(super) use baton_state::telemetry::size;

/// The output of a command.
pub(super) struct Out {
    writer: Box<dyn Write>,
    /// Width of the terminal; `None` for a pipe or a file, whose lines are not truncated.
    width: Option<usize>,
}

/// Quotes a string for CSV.
///
/// Names of models come from requests: a spreadsheet must not take one for a formula.
pub(super) fn csv_text(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// Width of a terminal that does not report one, in columns.
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

    /// Prints a line. Only its styles act on a terminal.
    pub(super) fn line(&mut self, text: impl Display) -> CliResult {
        writeln!(self.writer, "{}", text::styled(&text.to_string()))?;
        Ok(self.writer.flush()?)
    }

    /// Prints several lines.
    pub(super) fn lines(&mut self, lines: impl IntoIterator<Item = String>) -> CliResult {
        let mut lines = lines.into_iter();
        lines.try_for_each(|line| self.line(line))
    }

    /// Prints a value as JSON.
    pub(super) fn json(&mut self, value: &impl Serialize) -> CliResult {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        self.line(text::json(&text))
    }

    /// Prints a value as JSON on one line.
    pub(super) fn json_line(&mut self, value: &impl Serialize) -> CliResult {
        let text = serde_json::to_string(value).map_err(io::Error::from)?;
        self.line(text::json(&text))
    }

    /// Prints the rows of a list as one array, or as one object per line.
    pub(super) fn rows(&mut self, rows: &[impl Serialize], format: ListFormat) -> CliResult {
        match format.jsonl {
            true => rows.iter().try_for_each(|row| self.json_line(row)),
            false => self.json(&rows),
        }
    }

    /// Prints a document that ends with a line break. Nothing in it acts on a terminal.
    pub(super) fn document(&mut self, text: &str) -> CliResult {
        self.writer.write_all(text::visible(text).as_bytes())?;
        Ok(self.writer.flush()?)
    }

    /// Prints a JSON document without changing its value.
    pub(super) fn document_json(&mut self, json: &str) -> CliResult {
        self.writer.write_all(text::json(json).as_bytes())?;
        Ok(self.writer.flush()?)
    }

    /// Prints bytes that a program reads unchanged.
    ///
    /// On a terminal, control characters are made visible.
    pub(super) fn body(&mut self, body: &[u8]) -> CliResult {
        match self.width {
            Some(_) => self.line(visible(&String::from_utf8_lossy(body))),
            None => {
                self.writer.write_all(body)?;
                Ok(self.writer.flush()?)
            }
        }
    }

    /// Maximum width of a line.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }
}

/// Prints a failure to standard error and returns its exit code.
pub(super) fn report(failure: &CommandFailure) -> ExitCode {
    let mut out = Out::stderr();
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    if !failure.message.is_empty() {
        // Ignored: standard error may be closed.
        let _ = out.line(format_args!(
            "{red}error{red:#}: {}",
            without_os_codes(&failure.message)
        ));
        if let Some(help) = &failure.help {
            let _ = out.line(format_args!("  help: {help}"));
        }
    }
    failure.exit.into()
}

/// Removes the error numbers that the standard library appends to messages of the operating system.
pub(super) fn without_os_codes(message: &str) -> String {
    // Only digits in the parentheses are removed: the rest of a message may contain these words.
    let mut parts = message.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((code, rest)) if code.bytes().all(|b| b.is_ascii_digit()) => text.push_str(rest),
            _ => text.extend([" (os error ", part]),
        }
    }
    text
}

/// Width from the variable `COLUMNS`, else from the terminal.
fn terminal_columns() -> usize {
    // `COLUMNS=0` counts as unset, because it would truncate every line to nothing.
    let given = std::env::var("COLUMNS").ok();
    let given = given.and_then(|columns| columns.parse().ok()).filter(|n| *n > 0);
    let measured = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    given.or_else(measured).unwrap_or(COLUMNS)
}

/// Makes control characters of untrusted text visible, except line breaks and tabs.
pub(super) fn visible(text: &str) -> String {
    text::visible(text).into_owned()
}

/// Formats a path, with control characters made visible.
pub(super) fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}

/// First line that is not empty, made visible and truncated to `width` characters.
pub(super) fn first_line(text: &str, width: Option<usize>) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    // A tab would break the alignment of columns.
    let line = visible(line.unwrap_or_default()).replace('\t', " ");
    match width {
        Some(width) if line.chars().count() > width => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            kept + "…"
        }
        _ => line,
    }
}

/// Aligns the cells of rows, with two blanks between them and none at the end of a line.
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

/// Formats an age as `now`, `12m`, `3h` or `5d`.
pub(super) fn age(then_ms: u64, now_ms: u64) -> String {
    units::age(now_ms.saturating_sub(then_ms) / 1000)
}

/// Escapes text for an XML element.
pub(super) fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_csv_is_not_a_formula() {
        for (name, expected) in [
            ("claude-opus-5-5", "\"claude-opus-5-5\""),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(1)", "\"'@SUM(1)\""),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
        ] {
            assert_eq!(csv_text(name), expected);
        }
    }

    #[test]
    fn nothing_but_styles_is_printed_raw() {
        let printed = |text: &str| {
            let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let writer = Box::new(CapturedOutput(std::sync::Arc::clone(&kept)));
            let mut out = Out { writer, width: None };
            out.line(text).unwrap();
            out.json(&text).unwrap();
            let kept = kept.lock().unwrap().clone();
            String::from_utf8(kept).unwrap()
        };
        assert_eq!(
            printed("\u{1b}[1ma\u{202e}b\u{9b}"),
            "\u{1b}[1ma\\u{202e}b\\u{9b}\n\"\\u001b[1ma\\u202eb\\u009b\"\n"
        );
    }

    struct CapturedOutput(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for CapturedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_line_is_one_line_and_fits() {
        assert_eq!(first_line("\n\n  one\u{1b}\ttwo\nthree", None), "one\\u{1b} two");
        assert_eq!(first_line("abcdef", Some(4)), "abc…");
        assert_eq!(first_line("", Some(4)), "");
    }

    #[test]
    fn numbers_of_the_operating_system_are_left_out() {
        let error = io::Error::from_raw_os_error(2);
        let message = format!("a: {error}\nb: {error}, c (os error x)");
        let text = "a: No such file or directory\nb: No such file or directory, c (os error x)";
        assert_eq!(without_os_codes(&message), text);
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
