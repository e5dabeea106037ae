//! How many messages the model sees behind its carry-over prompt.

use super::{Cut, Reading, Rewrite};
use crate::limits;
use crate::rewrite::preamble;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::Wire;
use crate::wire::view::{Role, View};

/// Messages in the model's view behind the carry-over prompt.
pub(super) fn messages(
    wire: &dyn Wire,
    reading: &Reading,
    what: &Rewrite<'_>,
    cut: &[Edit],
    applied: bool,
) -> usize {
    match (applied, what.cut) {
        (false, Cut::At { .. } | Cut::Behind { .. } | Cut::Before { .. } | Cut::Fresh { .. }) => {
            behind_cut(&reading.view, what.cut, cut)
        }
        (true, Cut::At { head, .. } | Cut::Behind { head, .. } | Cut::Before { head }) => reading
            .view
            .turns
            .iter()
            .filter(|t| spoken(t.role))
            .count()
            .saturating_sub(heads(head)),
        _ => counted(wire, &reading.view, what.tags),
    }
}

/// Messages behind the head of a cut.
fn behind_cut(view: &View, cut: Cut<'_>, edits: &[Edit]) -> usize {
    let (left, kept) = match cut {
        Cut::At { candidate, .. } => {
            let whole = view.turns[candidate.turn].span;
            let left = edits.first().is_some_and(|e| e.span.end < whole.end);
            (usize::from(left), &view.turns[candidate.turn + 1..])
        }
        Cut::Behind { turn, .. } => (0, &view.turns[turn..]),
        Cut::Before { .. } => (0, &view.turns[..]),
        Cut::None | Cut::Text { .. } | Cut::Fresh { .. } => (0, &[][..]),
    };
    let dropped = edits
        .iter()
        .skip(1)
        .filter(|e| ends_a_turn(view, e.span.end))
        .count();
    let later = kept.iter().filter(|t| spoken(t.role)).count();
    (left + later).saturating_sub(dropped)
}

fn ends_a_turn(view: &View, end: usize) -> bool {
    let turn = end.checked_sub(1).and_then(|last| view.turn_at(last));
    turn.is_some_and(|t| view.turns[t].span.end == end)
}

/// Messages of a whole transcript, without system messages and preamble.
fn counted(wire: &dyn Wire, view: &View, tags: &[String]) -> usize {
    let all = view.turns.iter().filter(|t| spoken(t.role)).count();
    // What upstream holds of the conversation is content, too; at least the question and its answer.
    let held = view.facts.previous.as_ref().map_or(0, |_| limits::LEAST_MESSAGES);
    all.saturating_sub(preamble::whole_turns(wire, view, tags)) + held
}

fn spoken(role: Role) -> bool {
    !matches!(role, Role::System | Role::Tools)
}

/// How many elements a head has.
fn heads(head: &str) -> usize {
    let wrapped = format!("[{head}]");
    json::elements(wrapped.as_bytes(), Span::new(0, wrapped.len())).len()
}
