//! Lines that fit a terminal: tables with right-aligned figures, and wrapped sentences.

use crate::cli::output::first_line;

/// Columns if the output is not a terminal, and the maximum.
const COLUMNS: usize = 80;
const MAX_COLUMNS: usize = 100;

/// Minimum width of a table's first cell, in columns.
const MIN_NAME: usize = 12;

/// The number of columns to use.
pub(super) fn columns(terminal: Option<usize>) -> usize {
    terminal.unwrap_or(COLUMNS).min(MAX_COLUMNS)
}

/// Rows of a table. The first cell is a name and is shortened to fit; the others are figures.
pub(super) fn table(rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let cells = rows.iter().map(Vec::len).max().unwrap_or(0);
    let chars = |text: &String| text.chars().count();
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(chars)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..cells).map(width).collect();
    let figures: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    let most = columns.saturating_sub(figures).max(MIN_NAME);
    let name = widths.first().map_or(0, |width| (*width).min(most));
    let line = |row: &Vec<String>| {
        let first = row.first().map_or(String::new(), |cell| clipped(cell, name));
        let rest = row.iter().zip(&widths).skip(1);
        let rest = rest.map(|(cell, &width)| format!("  {cell:>width$}"));
        let line = format!("{first:name$}{}", rest.collect::<String>());
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A line with its indentation, at most this wide.
pub(super) fn clipped(cell: &str, width: usize) -> String {
    let indent = cell.len() - cell.trim_start().len();
    let cell = first_line(cell, Some(width.saturating_sub(indent)));
    format!("{:indent$}{cell}", "")
}

/// Wraps a sentence to this many columns. Lines after the first are indented by `hang` more.
pub(super) fn wrapped(text: &str, columns: usize, hang: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start().len();
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent);
    for word in text.split_whitespace() {
        let is_empty = line.trim_start().is_empty();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent + hang)));
        } else if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// `$12.40`.
pub(super) fn money(amount: f64) -> String {
    let cents = (amount.abs() * 100.0).round() / 100.0;
    // A loss of less than half a cent would otherwise be `-$0.00`.
    let sign = if amount < 0.0 && cents > 0.0 { "-" } else { "" };
    format!("{sign}${cents:.2}")
}

/// Formats a saving as `+$12.40`, and a loss as `-$12.40`.
pub(super) fn saving(amount: f64) -> String {
    let text = money(amount);
    let is_gain = amount > 0.0 && text != "$0.00";
    if is_gain { format!("+{text}") } else { text }
}

/// `12 %` of a whole.
pub(super) fn percent(part: f64, whole: f64) -> String {
    let share = if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
    // Adding zero turns `-0` into `0`.
    format!("{:.0} %", share.round() + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_aligned_and_a_name_gives_way() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["", "paid", "saved"]),
            row(["  a rather long name", "$1234.50", "+$0.06"]),
        ];
        assert_eq!(table(&rows, 80)[1], "  a rather long name  $1234.50  +$0.06");
        let lines = table(&rows, 30);
        assert_eq!(lines[1], "  a rather …  $1234.50  +$0.06");
        assert!(lines.iter().all(|line| line.chars().count() <= 30), "{lines:?}");
    }

    #[test]
    fn sentences_are_wrapped_and_money_has_two_decimals() {
        assert_eq!(
            wrapped("  one two three four", 12, 2),
            ["  one two", "    three", "    four"]
        );
        assert_eq!([-0.001, 0.0, 0.004].map(saving), ["$0.00"; 3]);
        assert_eq!([-0.0577, 1234.5].map(saving), ["-$0.06", "+$1234.50"]);
        assert_eq!(percent(-0.001, 9.0), "0 %");
    }
}
