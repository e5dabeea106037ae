//! What a cut leaves after it that upstream would refuse.

use std::collections::HashSet;

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{Role, Turn, TurnPartKind, View};

use super::item::ResponsesItem;

/// Edits after the sentinel's turn: results and references to what was cut go, and so does reasoning that
/// lost its item; items that lost their reasoning continue without ids.
pub(super) fn after_cut(view: &View, cut: usize) -> Vec<Edit> {
    let text: &[u8] = &view.body;
    let items: Vec<ResponsesItem> = view.turns[cut + 1..]
        .iter()
        .map(|t| ResponsesItem::read(text, t.span))
        .collect();
    let lost = lost(view, cut, &items);
    let mut edits: Vec<Edit> = lost
        .iter()
        .map(|&i| {
            let turn = cut + 1 + i;
            Edit::delete(Span::new(
                view.turns[turn - 1].span.end,
                view.turns[turn].span.end,
            ))
        })
        .collect();
    if reasoning_went_first(view, cut) {
        edits.extend(without_ids(view, cut, &items));
    }
    edits
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
                // A call that is there by reference only has no call id to compare.
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

/// Reasoning without an item of the model's after it: the item was a call of ours that was dropped. The reasoning is
/// removed, as the API would refuse it. Turns before `from` are not sent; `edits` put calls back.
pub(super) fn lone_reasoning(view: &View, from: usize, edits: &[Edit]) -> Vec<Edit> {
    let thought = |turn: &Turn| {
        let here = turn.role.may_be_models() && turn.span.start >= from;
        here && is_reasoning(&view.body, &ResponsesItem::read(&view.body, turn.span))
    };
    let mut put_back: Vec<usize> = edits.iter().map(|e| e.span.start).collect();
    put_back.sort_unstable();
    let mut gone = Vec::new();
    for (i, pair) in view.turns.windows(2).enumerate().skip(1) {
        let (here, next) = (pair[0], pair[1]);
        if !matches!(next.role, Role::User | Role::System) || !thought(&here) {
            continue;
        }
        let edit = put_back.partition_point(|at| *at < here.span.end);
        if put_back.get(edit).is_some_and(|at| *at <= next.span.start) {
            continue;
        }
        let run = view.turns[1..=i].iter().enumerate().rev();
        let run = run.take_while(|(_, turn)| thought(turn));
        gone.extend(
            run.map(|(before, turn)| Edit::delete(Span::new(view.turns[before].span.end, turn.span.end))),
        );
    }
    gone
}

/// Reasoning, also where it is named by its id alone: ids have the prefix of their type.
fn is_reasoning(text: &[u8], item: &ResponsesItem) -> bool {
    let named = |id: Span| id.of(text).starts_with(b"rs_");
    item.part == TurnPartKind::Thinking || item.reference && item.id.is_some_and(named)
}

/// Of each item, whether one of the model follows it, reasoning aside. At the end of the transcript
/// it is the agent's own affair.
fn followed(items: &[ResponsesItem]) -> Vec<bool> {
    let mut by_the_model = true;
    let mut all: Vec<bool> = items
        .iter()
        .rev()
        .map(|item| {
            let followed = by_the_model;
            if item.part != TurnPartKind::Thinking {
                by_the_model = item.part != TurnPartKind::Result;
            }
            followed
        })
        .collect();
    all.reverse();
    all
}

/// Ids of what the cut took.
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

/// Whether the agent moved the reasoning of both legs in front of the rest: two neighbours of it before the
/// sentinel, in the same response.
fn reasoning_went_first(view: &View, cut: usize) -> bool {
    let thinking = |turn: &crate::wire::Turn| {
        turn.role == Role::Assistant
            && ResponsesItem::read(&view.body, turn.span).part == TurnPartKind::Thinking
    };
    let run = view.turns[..cut]
        .iter()
        .rev()
        .take_while(|t| t.role == Role::Assistant);
    let flags: Vec<bool> = run.map(thinking).collect();
    flags.windows(2).any(|pair| pair == [true, true])
}

/// Removes the ids of the items right after the cut, up to the first that has its reasoning.
fn without_ids(view: &View, cut: usize, items: &[ResponsesItem]) -> Vec<Edit> {
    let run = items
        .iter()
        .zip(&view.turns[cut + 1..])
        .take_while(|(item, turn)| turn.role == Role::Assistant && item.part != TurnPartKind::Thinking);
    run.filter(|(item, _)| item.id.is_some())
        .map(|(_, turn)| {
            // The closing brace stays, so that the edit is not taken for the whole item's end.
            let whole = view.str(turn.span);
            let bare = json::without(&whole, "id");
            let open = Span::new(turn.span.start, turn.span.end - 1);
            Edit::replace(open, bare[..bare.len() - 1].to_owned())
        })
        .collect()
}
