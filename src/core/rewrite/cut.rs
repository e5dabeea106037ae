//! The cut: the removed turns, their replacement, and the rest of the sentinel's turn.

use std::ops::Range;

use super::elements::Elements;
use super::{Candidate, ChangeReason, Cut, orphans};
use crate::marker::{gap, pasted, sentinel};
use crate::rewrite::preamble;
use crate::text::Span;
use crate::text::splice::Edit;
use crate::wire::view::{Role, TurnChange, TurnContent, TurnPart, View};
use crate::wire::{SplitTurn, SyntheticTurn, TurnRest};

/// Offset of the first byte of the agent's body that is kept.
pub(super) fn kept_from(view: &View, cut: Cut<'_>) -> usize {
    match cut {
        Cut::None | Cut::Text { .. } | Cut::Before { .. } => 0,
        Cut::At { candidate, .. } => candidate.sentinel.rest,
        Cut::BeforeTurn { turn, .. } => view.turns[turn].span.start,
        Cut::Fresh { .. } => view.list.end,
    }
}

/// Cuts the transcript, and removes elements that upstream would refuse without the removed ones.
pub(super) fn cut(elements: &mut Elements<'_>, cut: Cut<'_>) {
    let view = &elements.agents.view;
    let leading = view.leading();
    match cut {
        Cut::None => {}
        Cut::Text { edits } => elements.edit(ChangeReason::Cut, edits.to_vec()),
        Cut::Before { head } => {
            elements.replace(ChangeReason::Cut, leading..leading, vec![user(head)]);
        }
        Cut::Fresh { head } => open(elements, leading..view.turns.len(), head),
        // Only system messages come before that turn, so nothing is dropped.
        Cut::BeforeTurn { turn, head } if turn <= leading => {
            self::cut(elements, Cut::Before { head });
        }
        Cut::BeforeTurn { turn, head } => {
            elements.settle(ChangeReason::Cut, orphaned(view, turn - 1, &[]));
            open(elements, leading..turn, head);
        }
        Cut::At {
            candidate,
            prompt,
            head,
        } => {
            let turn = candidate.turn;
            let content = view.content(turn);
            let (mine, left) = match tail(view, candidate, prompt, &content) {
                Some(tail) => {
                    let gone = Span::new(view.turns[turn].span.start, tail.from);
                    let left = content.parts.get(tail.part..).unwrap_or_default();
                    (TurnChange::Within(turn, Edit::replace(gone, tail.prefix)), left)
                }
                // The message contained only the sentinel.
                None => (TurnChange::LeftOut(turn), &[][..]),
            };
            // Before the head is inserted, while the indexes are still those of the agent's transcript.
            let mut changes = orphaned(view, turn, left);
            changes.push(mine);
            elements.settle(ChangeReason::Cut, changes);
            // A sentinel in a leading turn leaves nothing to drop.
            open(elements, leading.min(turn)..turn, head);
        }
    }
}

fn user(head: &str) -> SyntheticTurn {
    SyntheticTurn::new(Role::User, head.to_owned())
}

/// Replaces these turns with the head and the re-emitted turns.
fn open(elements: &mut Elements<'_>, dropped: Range<usize>, head: &str) {
    let re_emitted = preamble::re_emitted(&elements.agents.view, dropped.start, dropped.end).into_iter();
    let re_emitted = re_emitted.map(|element| SyntheticTurn::new(Role::System, element));
    let made = [user(head)].into_iter().chain(re_emitted).collect();
    elements.replace(ChangeReason::Cut, dropped, made);
}

/// Removes elements after turn `cut` that upstream would refuse without the removed ones.
///
/// `left` is the rest of that turn.
fn orphaned(view: &View, cut: usize, left: &[TurnPart]) -> Vec<TurnChange> {
    match view.item_rules() {
        Some(items) => (items.repair)(view, cut),
        None => orphans::dropped(view, cut, left),
    }
}

/// Rest of the sentinel's own turn.
fn tail(view: &View, candidate: &Candidate, prompt: Option<&str>, content: &TurnContent) -> Option<TurnRest> {
    let inside = content.parts.get(candidate.part)?.text?;
    let text: &[u8] = &view.body;
    let unclosed = candidate.sentinel.sealed.is_none();
    let known = candidate.sentinel.rest;
    let rest = match prompt.filter(|_| unclosed) {
        // The user may have typed the first words of the prompt.
        Some(prompt) if candidate.by_user => {
            let spelled = sentinel::spelled_prompt(Span::new(known, inside.end).of(text), prompt);
            let rest = spelled.map_or(known, |len| gap::after(text, known + len, inside.end));
            pasted::after_closing(text, inside, rest)
        }
        Some(prompt) => sentinel::after_unclosed(text, known, inside.end, prompt),
        None => known,
    };
    SplitTurn::from(view, candidate.turn, content, candidate.part, rest)?.rest()
}
