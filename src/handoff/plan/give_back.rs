//! The model's own text, broken up on its way to the agent, given back whole.

use memchr::memmem;

use super::Reading;
use crate::handoff::breaker::Breaker;
use crate::handoff::sentinel::MarkKind;
use crate::json::Span;
use crate::splice::Edit;
use crate::wire::Wire;
use crate::wire::view::{Anatomy, Role, View};

/// Takes the backslashes out that were put in, at or behind offset `from`.
pub(super) fn edits(wire: &dyn Wire, reading: &Reading, from: usize) -> Vec<Edit> {
    let mut slashes = in_one_text(wire, reading, from);
    slashes.extend(across_texts(wire, &reading.view, from));
    slashes.sort_by_key(|s| s.start);
    slashes.dedup();
    slashes.into_iter().map(Edit::delete).collect()
}

fn in_one_text(wire: &dyn Wire, reading: &Reading, from: usize) -> Vec<Span> {
    let view = &reading.view;
    // Marks come turn by turn: each turn is taken apart once.
    let mut known: Option<(usize, Anatomy)> = None;
    let mut found = Vec::new();
    for mark in reading.marks.iter().filter(|m| m.span.start >= from) {
        let MarkKind::Broken(slash) = mark.kind else {
            continue;
        };
        let turn = view.turn_at(mark.span.start);
        let Some(turn) = turn.filter(|&t| view.turns[t].role == Role::Assistant) else {
            continue;
        };
        if known.as_ref().is_none_or(|(of, _)| *of != turn) {
            known = Some((turn, wire.anatomy(view, turn)));
        }
        let anatomy = known.as_ref().map(|(_, anatomy)| anatomy);
        if anatomy.is_some_and(|a| a.text_at(mark.span.start).is_some()) {
            found.push(slash);
        }
    }
    found
}

/// A message that was streamed in parts may come back in parts: what looks like ours begins in one of them then, and
/// its backslash stands in a later one.
fn across_texts(wire: &dyn Wire, view: &View, from: usize) -> Vec<Span> {
    let broken = memmem::Finder::new(br"\\:");
    let mut found = Vec::new();
    let mut next = view.turns.partition_point(|t| t.span.end <= from);
    while let Some(turn) = view.turns.get(next) {
        if turn.role != Role::Assistant || broken.find(turn.span.of(&view.body)).is_none() {
            next += 1;
            continue;
        }
        let message = wire.message(view, next);
        next = message.end.max(next + 1);
        let mut breaker = Breaker::default();
        let texts = message
            .flat_map(|t| wire.anatomy(view, t).parts)
            .filter_map(|p| p.text);
        for text in texts {
            let slashes = breaker.given_back(text.of(&view.body)).into_iter();
            found.extend(slashes.map(|s| Span::new(text.start + s.start, text.start + s.end)));
        }
    }
    found.retain(|s| s.start >= from);
    found
}
