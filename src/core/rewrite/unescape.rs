//! Undoes the escaping of the model's own text.

use memchr::memmem;

use crate::mark::escape::Escaper;
use crate::text::Span;
use crate::text::cost;
use crate::text::splice::Edit;
use crate::wire::Wire;
use crate::wire::view::{Role, TurnChange, View};

/// Removes the backslashes that escaping inserted. A message that was streamed in parts may come back in parts: what
/// looks like ours begins in one of them then, and its backslash is in a later one.
pub(super) fn changes(wire: &dyn Wire, view: &View) -> Vec<TurnChange> {
    let broken = memmem::Finder::new(br"\\:");
    let mut changes = Vec::new();
    let mut next = 0;
    while let Some(turn) = view.turns.get(next) {
        cost::add(turn.span.len());
        if turn.role != Role::Assistant || broken.find(view.raw(next)).is_none() {
            next += 1;
            continue;
        }
        let message = wire.message(view, next);
        next = message.end.max(next + 1);
        let mut escaper = Escaper::default();
        for turn in message {
            for text in wire.content(view, turn).parts.into_iter().filter_map(|p| p.text) {
                let slashes = escaper.given_back(text.of(view.text_of(turn))).into_iter();
                let placed = slashes.map(|s| Span::new(text.start + s.start, text.start + s.end));
                changes.extend(placed.map(|slash| TurnChange::Within(turn, Edit::delete(slash))));
            }
        }
    }
    changes
}
