//! Lines that print a mark before the output of each part.

use crate::agents::commands::LinePart;

/// Maximum number of commands of a line, which is that of the bits.
const MAX_RUNS: usize = 64;

/// How the commands of a marked line ended, by the output of their own parts: bits in the order of the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MarkedEnds {
    passed: u64,
    failed: u64,
}

impl MarkedEnds {
    /// Records whether the command with this index passed; `None` if unknown.
    pub(super) fn put(&mut self, at: usize, passed: Option<bool>) {
        let bit = if at < MAX_RUNS { 1 << at } else { 0 };
        match passed {
            Some(true) => self.passed |= bit,
            Some(false) => self.failed |= bit,
            None => {}
        }
    }

    /// Whether the command with this index passed; `None` if unknown.
    pub(super) fn passed(self, at: usize) -> Option<bool> {
        let has = |bits: u64| at < MAX_RUNS && bits & (1 << at) != 0;
        match (has(self.passed), has(self.failed)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// The output of each part; `None` if the output does not have each mark once, in the order of the parts.
pub(super) fn outputs<'t>(parts: &[LinePart<'_>], text: &'t str) -> Option<Vec<&'t str>> {
    let (mut outputs, mut from, mut at) = (Vec::with_capacity(parts.len()), 0, 0);
    let mut marks = parts[1..].iter().map(|part| part.mark).peekable();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if marks.peek() == Some(&trimmed) {
            marks.next();
            outputs.push(&text[from..at]);
            from = at + line.len();
        } else if parts[1..].iter().any(|part| part.mark == trimmed) {
            return None;
        }
        at += line.len();
    }
    outputs.push(&text[from..]);
    marks.next().is_none().then_some(outputs)
}
