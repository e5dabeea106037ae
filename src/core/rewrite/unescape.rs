//! Undoes the escaping of the model's own text.

use memchr::memmem;

use super::RequestReading;
use super::reading::TextFinder;
use crate::mark::MarkKind;
use crate::mark::escape::Escaper;
use crate::text::Span;
use crate::text::cost;
use crate::text::splice::Edit;
use crate::wire::Wire;
use crate::wire::view::{Role, View};

/// Removes the backslashes that escaping inserted, at or after offset `from`.
pub(super) fn edits(wire: &dyn Wire, reading: &RequestReading, from: usize) -> Vec<Edit> {
    let mut slashes = in_one_text(wire, reading, from);
    slashes.extend(across_texts(wire, &reading.view, from));
    slashes.sort_by_key(|s| s.start);
    slashes.dedup();
    slashes.into_iter().map(Edit::delete).collect()
}

fn in_one_text(wire: &dyn Wire, reading: &RequestReading, from: usize) -> Vec<Span> {
    let mut texts = TextFinder::new(wire, &reading.view);
    let broken = reading.marks.iter().filter(|m| m.span.start >= from);
    broken
        .filter_map(|m| match m.kind {
            MarkKind::Broken(slash) => texts.at(m.span.start, &[Role::Assistant]).map(|_| slash),
            _ => None,
        })
        .collect()
}

/// A message that was streamed in parts may come back in parts: what looks like ours begins in one of them then, and
/// its backslash is in a later one.
fn across_texts(wire: &dyn Wire, view: &View, from: usize) -> Vec<Span> {
    let broken = memmem::Finder::new(br"\\:");
    let mut found = Vec::new();
    let mut next = view.turns.partition_point(|t| t.span.end <= from);
    while let Some(turn) = view.turns.get(next) {
        cost::add(turn.span.len());
        if turn.role != Role::Assistant || broken.find(turn.span.of(&view.body)).is_none() {
            next += 1;
            continue;
        }
        let message = wire.message(view, next);
        next = message.end.max(next + 1);
        let mut escaper = Escaper::default();
        let texts = message
            .flat_map(|t| wire.content(view, t).parts)
            .filter_map(|p| p.text);
        for text in texts {
            let slashes = escaper.given_back(text.of(&view.body)).into_iter();
            found.extend(slashes.map(|s| Span::new(text.start + s.start, text.start + s.end)));
        }
    }
    found.retain(|s| s.start >= from);
    found
}
