//! Lines that print a mark before the output of each part.

use crate::agents::commands::LinePart;

/// Maximum number of followed commands of a line.
const MAX_RUNS: usize = 16;

/// Whether the commands of a marked line passed, by the output of their own parts; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MarkedEnds([Option<bool>; MAX_RUNS]);

impl MarkedEnds {
    /// Records whether the command with this index passed.
    pub(super) fn put(&mut self, at: usize, passed: Option<bool>) {
        self.0.iter_mut().skip(at).take(1).for_each(|end| *end = passed);
    }

    /// Whether the command with this index passed.
    pub(super) fn passed(self, at: usize) -> Option<bool> {
        self.0.get(at).copied().flatten()
    }
}

/// The output of each part; `None` if the output does not have each mark once, in the order of the parts.
pub(super) fn outputs<'t>(parts: &[LinePart<'_>], text: &'t str) -> Option<Vec<&'t str>> {
    let marks: Vec<&str> = parts[1..].iter().map(|part| part.mark).collect();
    let (mut outputs, mut from, mut at) = (Vec::with_capacity(parts.len()), 0, 0);
    for line in text.split_inclusive('\n') {
        if marks.contains(&line.trim()) {
            let is_next = marks.get(outputs.len()) == Some(&line.trim());
            outputs.push(is_next.then(|| &text[from..at])?);
            from = at + line.len();
        }
        at += line.len();
    }
    outputs.push(&text[from..]);
    (outputs.len() == parts.len()).then_some(outputs)
}
