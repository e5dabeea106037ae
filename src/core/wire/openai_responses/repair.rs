//! Removes leftovers of a cut that upstream would reject.

use std::collections::HashSet;

use crate::text::Span;
use crate::text::splice::Edit;
use crate::wire::view::{self, Role, TurnChange, TurnPartKind, View};

use super::item::ResponsesItem;

/// Returns the changes after the sentinel's turn.
///
/// Results and references without their target are removed, as is reasoning that has lost its item. Items
/// that have lost their reasoning stay without their ids.
pub(super) fn after_cut(view: &View, cut: usize) -> Vec<TurnChange> {
    let text: &[u8] = &view.body;
    let after = view.turns[cut + 1..].iter();
    let items: Vec<_> = after.map(|t| ResponsesItem::read(text, t.span)).collect();
    let lost = lost(view, cut, &items);
    let gone = lost.iter().map(|i| TurnChange::LeftOut(cut + 1 + i));
    let mut changes: Vec<TurnChange> = gone.collect();
    if reasoning_went_first(view, cut) {
        changes.extend(without_ids(view, cut, &items));
    }
    changes
}

fn lost(view: &View, cut: usize, items: &[ResponsesItem]) -> Vec<usize> {
    let text: &[u8] = &view.body;
    let mut before: Option<CutIds<'_>> = None;
    let mut calls: HashSet<&[u8]> = HashSet::new();
    let mut references = false;
    let mut lost = Vec::new();
    let followed = followed(items);
    for (i, item) in items.iter().enumerate() {
        let gone = match item.part {
            TurnPartKind::Call => {
                calls.extend(item.call_id.map(|id| id.of(text)));
                false
            }
            TurnPartKind::Result => item.call_id.is_some_and(|id| {
                let id = id.of(text);
                // A call that is present only as a reference has no call id to compare.
                !calls.contains(id)
                    && (!references
                        || before
                            .get_or_insert_with(|| CutIds::read(view, cut))
                            .calls
                            .contains(id))
            }),
            _ if item.reference => {
                let cut_too = item.id.is_some_and(|id| {
                    let before = before.get_or_insert_with(|| CutIds::read(view, cut));
                    before.items.contains(id.of(text))
                });
                references |= !cut_too;
                cut_too
            }
            TurnPartKind::Thinking => !followed[i],
            _ => false,
        };
        if gone {
            lost.push(i);
        }
    }
    lost
}

/// Removes reasoning without a model item after it, because that item was a hidden call that was dropped. The
/// API would reject it.
///
/// `changes` may restore such calls.
pub(super) fn lone_reasoning(view: &View, changes: &[TurnChange]) -> Vec<TurnChange> {
    let thought = |turn: &usize| {
        view.turns[*turn].role.may_be_models()
            && is_reasoning(view.text_of(*turn), &ResponsesItem::from_turn(view, *turn))
    };
    // Turns that follow a restored item.
    let put_back = changes.iter().filter_map(|change| match change {
        TurnChange::Before(turn, _) => Some(*turn),
        TurnChange::After(turn, _) => Some(turn + 1),
        _ => None,
    });
    let put_back: HashSet<usize> = put_back.collect();
    let mut gone = Vec::new();
    for next in 2..view.turns.len() {
        if matches!(view.turns[next].role, Role::User | Role::System) && !put_back.contains(&next) {
            let run = (1..next).rev().take_while(thought);
            gone.extend(run.map(TurnChange::LeftOut));
        }
    }
    gone
}

/// Whether an item is reasoning, or a reference to it. Ids begin with a prefix for their type.
fn is_reasoning(text: &[u8], item: &ResponsesItem) -> bool {
    let named = |id: Span| id.of(text).starts_with(b"rs_");
    item.part == TurnPartKind::Thinking || item.reference && item.id.is_some_and(named)
}

/// For each item, whether a non-reasoning model item follows it. The last items count as followed, because the
/// agent and not the cut ended the transcript there.
fn followed(items: &[ResponsesItem]) -> Vec<bool> {
    let mut by_the_model = true;
    let newest_first = items.iter().rev().map(|item| {
        let followed = by_the_model;
        if item.part != TurnPartKind::Thinking {
            by_the_model = item.part != TurnPartKind::Result;
        }
        followed
    });
    let mut all: Vec<bool> = newest_first.collect();
    all.reverse();
    all
}

/// Ids of the removed items.
#[derive(Default)]
struct CutIds<'a> {
    calls: HashSet<&'a [u8]>,
    items: HashSet<&'a [u8]>,
}

impl<'a> CutIds<'a> {
    fn read(view: &'a View, cut: usize) -> Self {
        let text: &[u8] = &view.body;
        let mut all = Self::default();
        for turn in &view.turns[..=cut] {
            let item = ResponsesItem::read(text, turn.span);
            all.items.extend(item.id.map(|id| id.of(text)));
            if item.part == TurnPartKind::Call {
                all.calls.extend(item.call_id.map(|id| id.of(text)));
            }
        }
        all
    }
}

/// Whether the agent moved the reasoning of both legs to the front: two adjacent reasoning items before the
/// sentinel in the same response.
fn reasoning_went_first(view: &View, cut: usize) -> bool {
    let thinking = |turn: &crate::wire::Turn| {
        turn.role == Role::Assistant
            && ResponsesItem::read(&view.body, turn.span).part == TurnPartKind::Thinking
    };
    let newest_first = view.turns[..cut].iter().rev();
    let run = newest_first.take_while(|t| t.role == Role::Assistant);
    let flags: Vec<bool> = run.map(thinking).collect();
    flags.windows(2).any(|pair| pair == [true, true])
}

/// Removes the ids of the items right after the cut, up to the first reasoning item.
fn without_ids(view: &View, cut: usize, items: &[ResponsesItem]) -> Vec<TurnChange> {
    let run = items
        .iter()
        .zip(view.turns.iter().enumerate().skip(cut + 1))
        .take_while(|(item, (_, turn))| turn.role == Role::Assistant && item.part != TurnPartKind::Thinking);
    run.filter(|(item, _)| item.id.is_some())
        .map(|(_, (number, turn))| {
            let bare = view::without(&view.str(turn.span), "id").into_owned();
            TurnChange::Within(number, Edit::replace(turn.span, bare))
        })
        .collect()
}
