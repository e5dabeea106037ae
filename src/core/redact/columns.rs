//! Columns of tables with the name of a secret: Markdown, `psql`, `mysql`, comma and tab separated values.

use std::ops::Range;

use super::matches::Matches;
use super::names::{SecretName, secret_name};
use super::run;
use super::values::{ValueForm, is_secret};

/// Maximum length of a header in bytes.
const MAX_HEADER_BYTES: usize = 2048;

/// Maximum length of the name of a column in a table without a line below its header.
const MAX_NAME_BYTES: usize = 40;

/// State of the scan over tables.
#[derive(Default)]
pub(super) struct ColumnScan {
    /// End of the last line that was examined as a header, or of its table.
    seen: usize,
}

/// A column of secrets.
struct Column {
    index: usize,
    name: SecretName,
}

impl ColumnScan {
    /// Processes the name of a secret that may be in the header of a table.
    pub(super) fn at(&mut self, name: &Range<usize>, found: &mut Matches<'_>) {
        if name.start < self.seen {
            return;
        }
        let text = found.text();
        let bytes = text.as_bytes();
        let from = name.start.saturating_sub(MAX_HEADER_BYTES);
        let to = bytes.len().min(name.end + MAX_HEADER_BYTES);
        super::worked(to - from);
        let start = memchr::memrchr(b'\n', &bytes[from..name.start]).map(|at| from + at + 1);
        let end = memchr::memchr(b'\n', &bytes[name.end..to]).map(|at| name.end + at);
        self.seen = end.unwrap_or(to);
        // A header without rows is not a table.
        let (Some(start), Some(end)) = (start.or((from == 0).then_some(0)), end) else {
            return;
        };
        let Some(separator) = separator(&bytes[start..end]) else {
            return;
        };
        let columns = columns(text, start..end, separator);
        let mut at = end + 1;
        if separator == b'|' {
            match line(bytes, at) {
                Some(rule) if is_rule(&bytes[rule.clone()]) => at = rule.end + 1,
                _ => return,
            }
        }
        let count = cells(bytes, start..end, separator).count();
        while let Some(row) = line(bytes, at) {
            super::worked(row.len());
            let mut all = cells(bytes, row.clone(), separator);
            if is_rule(&bytes[row.clone()]) || cells(bytes, row.clone(), separator).count() != count {
                break;
            }
            let mut next = 0;
            for column in &columns {
                if let Some(cell) = all.nth(column.index - next) {
                    judge(bytes, cell, column.name, found);
                }
                next = column.index + 1;
            }
            at = row.end + 1;
        }
        self.seen = at;
    }
}

/// The separator of a header's cells, if the line may be a header.
fn separator(header: &[u8]) -> Option<u8> {
    if header.contains(&b'|') {
        return Some(b'|');
    }
    let separator = [b',', b'\t'].into_iter().find(|b| header.contains(b))?;
    let is_name = |cell: &[u8]| {
        let cell = cell.trim_ascii();
        let is_letter = |b: &u8| b.is_ascii_alphanumeric() || b"_-. \t\"'".contains(b) || !b.is_ascii();
        (1..=MAX_NAME_BYTES).contains(&cell.len()) && cell.iter().all(is_letter)
    };
    header
        .split(|b| *b == separator)
        .all(is_name)
        .then_some(separator)
}

fn columns(text: &str, header: Range<usize>, separator: u8) -> Vec<Column> {
    let cells = cells(text.as_bytes(), header, separator).enumerate();
    let named = cells.filter_map(|(index, cell)| {
        let name = secret_name(&text[cell])?;
        Some(Column { index, name })
    });
    named.collect()
}

fn judge(bytes: &[u8], cell: Range<usize>, name: SecretName, found: &mut Matches<'_>) {
    let spelled = ValueForm {
        quoted: false,
        plain: false,
        next: None,
    };
    if is_secret(&bytes[cell.clone()], name, spelled) {
        found.push(cell, name.kind());
    }
}

/// The line that begins at `at`. `None` if it is empty or the text ends.
fn line(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = bytes.get(at..)?;
    let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    (len > 0).then_some(at..at + len)
}

/// The cells of a row, without blanks and quotes around them. A tool may have numbered the lines.
fn cells(bytes: &[u8], row: Range<usize>, separator: u8) -> impl Iterator<Item = Range<usize>> + '_ {
    let number = if separator == b'\t' {
        0
    } else {
        number_len(&bytes[row.clone()])
    };
    let mut from = row.start + number;
    let is_around = |b: &u8| b.is_ascii_whitespace() || b"\"'`*".contains(b);
    bytes[from..row.end]
        .split(move |b| *b == separator)
        .map(move |cell| {
            let start = from;
            from += cell.len() + 1;
            let before = cell.iter().take_while(|b| is_around(b)).count();
            let after = cell[before..].iter().rev().take_while(|b| is_around(b)).count();
            start + before..start + cell.len() - after
        })
}

/// Whether the line separates a header from its rows.
fn is_rule(line: &[u8]) -> bool {
    let line = &line[number_len(line)..];
    line.contains(&b'-') && line.iter().all(|b| b"-|+:= \t\r".contains(b))
}

/// Length of a line's number, as tools write it before the line.
fn number_len(line: &[u8]) -> usize {
    let blanks = run(line, |b| b == b' ');
    let digits = run(&line[blanks..], |b| b.is_ascii_digit());
    let rest = &line[blanks + digits..];
    let ends = ["\t", "→", ":"];
    let end = ends
        .iter()
        .find(|end| digits > 0 && rest.starts_with(end.as_bytes()));
    end.map_or(0, |end| blanks + digits + end.len())
}
