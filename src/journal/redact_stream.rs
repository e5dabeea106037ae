//! Credentials in a stream: texts under one key are searched as if they stood in one piece.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::ops::Range;

use super::redact::{Found, literals, mark};
use crate::json::{self, Span};

/// The literals of a stream that must be written anew, in order. `find` searches a text.
pub(super) fn edits(text: &[u8], find: impl Fn(&str) -> Vec<Found>) -> Vec<(Span, String)> {
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for (key, span) in keyed(text) {
        let key = key.of(text);
        let at = lanes.iter().position(|lane| lane.key == key).unwrap_or_else(|| {
            lanes.push(Lane::of(key));
            lanes.len() - 1
        });
        lanes[at].add(span, &json::unescape(span.inner().of(text)));
    }
    let all = lanes.iter().flat_map(|lane| lane.edits(&find(&lane.joined)));
    let mut edits: Vec<_> = all.collect();
    edits.sort_by_key(|(span, _)| span.start);
    edits
}

/// The texts under one key of a stream, joined.
struct Lane<'a> {
    key: &'a [u8],
    joined: String,
    pieces: Vec<(Span, Range<usize>)>,
}

impl<'a> Lane<'a> {
    fn of(key: &'a [u8]) -> Self {
        Self {
            key,
            joined: String::new(),
            pieces: Vec::new(),
        }
    }

    fn add(&mut self, span: Span, text: &str) {
        let from = self.joined.len();
        self.joined.push_str(text);
        self.pieces.push((span, from..self.joined.len()));
    }

    /// The literals to write anew: the mark where a find begins, nothing where it goes on.
    fn edits(&self, found: &[Found]) -> Vec<(Span, String)> {
        let touched =
            |piece: &Range<usize>, f: &Found| f.range.start < piece.end && piece.start < f.range.end;
        let mut edits = Vec::new();
        for (span, piece) in &self.pieces {
            // In order, so a search from the first that does not end before the piece.
            let first = found.partition_point(|f| f.range.end <= piece.start);
            let here: Vec<_> = found[first..].iter().take_while(|f| touched(piece, f)).collect();
            if here.is_empty() {
                continue;
            }
            let mut out = String::new();
            let mut at = piece.start;
            for f in here {
                out.push_str(&self.joined[at..f.range.start.max(at)]);
                if f.range.start >= piece.start {
                    out.push_str(&mark(f.kind));
                }
                at = f.range.end.min(piece.end);
            }
            out.push_str(&self.joined[at..piece.end]);
            edits.push((*span, json::quote(&out)));
        }
        edits
    }
}

/// The string literals that are values, each with its key (inside its quotes).
fn keyed(text: &[u8]) -> Vec<(Span, Span)> {
    let mut out = Vec::new();
    let mut key = Span::default();
    for span in literals(text) {
        let next = json::blank(text, span.end);
        if text.get(next) == Some(&b':') {
            key = span.inner();
        } else {
            out.push((key, span));
        }
    }
    out
}
