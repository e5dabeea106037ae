//! Matches, and the text that contains them.

use std::borrow::Cow;
use std::ops::Range;

use super::mark;
use crate::text::cut::{ceil, floor};

/// A match. Its ends are character boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    range: Range<usize>,
    kind: &'static str,
}

impl Match {
    pub(crate) fn start(&self) -> usize {
        self.range.start
    }

    pub(crate) fn end(&self) -> usize {
        self.range.end
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }
}

/// Matches with their text, so that they cannot be applied to a different one.
#[derive(Debug)]
pub(crate) struct Matches<'t> {
    text: &'t str,
    all: Vec<Match>,
}

impl<'t> Matches<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            all: Vec::new(),
        }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Adds a non-empty byte range. It is extended to whole characters, because the search and its limits
    /// work on bytes.
    pub(super) fn push(&mut self, range: Range<usize>, kind: &'static str) {
        if !range.is_empty() {
            let range = floor(self.text, range.start)..ceil(self.text, range.end);
            self.all.push(Match { range, kind });
        }
    }

    /// Sorts the matches and merges overlaps.
    pub(super) fn merged(mut self) -> Self {
        self.all
            .sort_by_key(|f| (f.range.start, std::cmp::Reverse(f.range.end)));
        self.all.dedup_by(|next, last| {
            let overlaps = next.range.start < last.range.end;
            if overlaps {
                last.range.end = last.range.end.max(next.range.end);
            }
            overlaps
        });
        self
    }

    pub(crate) fn all(&self) -> &[Match] {
        &self.all
    }

    /// The text with a mark in place of each match.
    pub(super) fn replaced(&self) -> Cow<'t, str> {
        let marked = self.marked(&(0..self.text.len()), true);
        marked.map_or(Cow::Borrowed(self.text), Cow::Owned)
    }

    /// A range of the text with a mark in place of each match, or `None` if it has none.
    ///
    /// `continued` tells whether a match that begins before the range gets a mark in it as well.
    pub(crate) fn marked(&self, range: &Range<usize>, continued: bool) -> Option<String> {
        // Sorted, so the first relevant match is the first that ends after the start of the range.
        let first = self.all.partition_point(|found| found.range.end <= range.start);
        let here = self.all[first..].iter();
        let mut here = here.take_while(|found| found.range.start < range.end).peekable();
        here.peek()?;
        let mut out = String::with_capacity(range.len());
        let mut at = range.start;
        for found in here {
            out.push_str(&self.text[at..found.range.start.max(at)]);
            if continued || found.range.start >= range.start {
                out.push_str(&mark(found.kind));
            }
            at = found.range.end.min(range.end);
        }
        out.push_str(&self.text[at..range.end]);
        Some(out)
    }
}
