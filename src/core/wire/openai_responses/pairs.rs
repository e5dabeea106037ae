//! Restores hidden pairs in the agent's items: each call at its position, each result after the group, or before the
//! reasoning that follows the call.

use super::response_object;
use crate::wire::{CallAt, HiddenCall, PlacedChanges, SiblingPair};
use std::collections::HashMap;

use crate::record::{HiddenPair, HiddenResult};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::aside::{LonePart, SplitTurn, SyntheticTurn};
use crate::wire::call_fingerprint::id_in;
use crate::wire::sibling_calls::WantedIds;
use crate::wire::view::{self, Role, TurnChange, TurnPartKind, View};

use super::item::{BY_ITEM, ResponsesItem};

/// Serializes a hidden call: upstream's own item, or one built from the collected arguments.
///
/// Arguments that do not parse are replaced within the item, because reasoning before it is bound to its id.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    let arguments = call.put_back();
    if let Some(raw) = call.raw.as_deref().filter(|_| call.complete) {
        let text = raw.as_bytes();
        let own = json::whole(text).ok();
        let own = own.and_then(|whole| json::get(text, whole, "arguments"));
        return match own.filter(|_| arguments != call.arguments) {
            Some(own) => [&raw[..own.start], &json::quote(arguments), &raw[own.end..]].concat(),
            None => raw.to_owned(),
        };
    }
    let (id, name) = (json::quote(&call.id), call.name());
    let arguments = json::quote(arguments);
    format!(
        r#"{{"type":"function_call","status":"completed","call_id":{id},"name":"{name}","arguments":{arguments}}}"#
    )
}

pub(super) fn put_beside(view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>> {
    if besides.is_empty() {
        return Vec::new();
    }
    let spoken = Neighbours::from_view(view, Role::may_be_models);
    let mut named: HashMap<usize, bool> = HashMap::new();
    let changes = besides.iter().map(|SiblingPair { at, pair }| {
        let offset = pair.place.offset();
        let has_id = *named.entry(at.turn).or_insert_with(|| has_id(view, at.turn));
        let call = call_like(has_id, pair);
        let distance = usize::try_from(offset.unsigned_abs()).unwrap_or_default();
        let (first, last) = spoken.0[at.turn];
        let call = if offset < 0 {
            TurnChange::Before(at.turn.saturating_sub(distance - 1).max(first), call)
        } else {
            TurnChange::After((at.turn + distance).min(last), call)
        };
        // Inserted before the next turn, so that calls and results restored at the same position stay
        // separate.
        let result = match last + 1 < view.turns.len() {
            // Reasoning after reasoning is that of the next leg, which saw the result.
            _ if is_model_part(view, at.turn, TurnPartKind::Thinking)
                && is_model_part(view, at.turn + 1, TurnPartKind::Thinking) =>
            {
                TurnChange::Before(at.turn + 1, result(pair))
            }
            true => TurnChange::Before(last + 1, result(pair)),
            false => TurnChange::After(last, result(pair)),
        };
        vec![call, result]
    });
    changes.collect()
}

/// Replaces the aside's item by the pair. Other text that an agent joined to it becomes separate items.
pub(super) fn put_between(split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn> {
    let call = call_like(has_id(split.view, split.turn), pair);
    let made = [
        SyntheticTurn::new(Role::Assistant, call),
        SyntheticTurn::new(Role::Tool, result(pair)),
    ];
    let lone = LonePart::default();
    // The API rejects two items with the same id, and does not know an injected one.
    let [first, last] = split.halves(&lone).map(|parts| {
        let message = (!parts.is_empty()).then(|| split.message(&parts, &lone))?;
        let bare = view::without(&message, "id").into_owned();
        Some(SyntheticTurn::new(Role::Assistant, bare))
    });
    first.into_iter().chain(made).chain(last).collect()
}

/// Removes the ids of messages right after reasoning before an aside.
///
/// The reasoning may belong to the hidden call, and the API rejects an id in the position of another item.
pub(super) fn mend_before_aside(view: &View, turn: usize) -> Vec<TurnChange> {
    let mut changes = Vec::new();
    for before in (0..turn).rev() {
        let whole = view.turns[before];
        if whole.role != Role::Assistant {
            return Vec::new();
        }
        let item = ResponsesItem::from_turn(view, before);
        match item.part {
            TurnPartKind::Thinking => return changes,
            TurnPartKind::Text if item.id.is_some() => {
                let message = view.str_in(before, whole.span);
                let bare = view::without(&message, "id").into_owned();
                changes.push(TurnChange::Within(before, Edit::replace(whole.span, bare)));
            }
            TurnPartKind::Text => {}
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

/// Restores pairs whose siblings have only results in the transcript.
///
/// With a previous response, upstream stores the calls, and only baton's results are missing. If the agent
/// refers to its calls by item id, baton's calls are missing as well. Any other result has lost its call in a
/// cut.
pub(super) fn put_by_results(view: &View, pairs: &[&HiddenPair]) -> Vec<PlacedChanges> {
    let siblings: Vec<_> = pairs.iter().map(|pair| id_in(pair.place.sibling())).collect();
    let siblings: Vec<&str> = siblings.iter().map(|id| &**id).collect();
    let found = results_of(view, &siblings);
    if found.iter().all(Option::is_none) {
        return vec![None; pairs.len()];
    }
    let results = Neighbours::from_view(view, |role| role == Role::Tool);
    let mut referred: HashMap<usize, Option<ReferencedItems>> = HashMap::new();
    let changes = pairs.iter().zip(found).map(|(pair, turn)| {
        let turn = turn?;
        let first = results.0[turn].0;
        let back = TurnChange::Before(first, result(pair));
        let before = first.checked_sub(1);
        let referred = before.and_then(|before| {
            let read = || ReferencedItems::after(view, before);
            *referred.entry(before).or_insert_with(read)
        });
        Some(match (&view.facts.previous, referred) {
            (Some(_), _) => (turn, vec![back]),
            // Inserted before the other results, so that several pairs form one batch.
            (None, Some(referred)) => (turn, vec![referred.call(pair), back]),
            (None, None) => (turn, Vec::new()),
        })
    });
    changes.collect()
}

/// Serializes the result of a hidden call as an item.
pub(super) fn result(pair: &HiddenPair) -> String {
    output(&pair.call_id, &pair.answer)
}

/// Serializes the result of the call with this id as an item.
pub(super) fn output(call_id: &str, answer: &HiddenResult) -> String {
    let (id, output) = (json::quote(call_id), json::quote(answer.text()));
    format!(r#"{{"type":"function_call_output","call_id":{id},"output":{output}}}"#)
}

/// Finds the items that siblings name, at or after offset `from`. One walk serves all of them.
pub(super) fn find_items(view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
    let ids = siblings.iter().map(|sibling| sibling.strip_prefix(BY_ITEM));
    let mut wanted = WantedIds::new(ids.clone().flatten());
    let first = view.turns.partition_point(|t| t.span.end <= from);
    for turn in first..view.turns.len() {
        if view.turns[turn].role.may_be_models()
            && wanted.may_be_in(view.raw(turn))
            && let Some(id) = ResponsesItem::from_turn(view, turn).id
        {
            wanted.take(id.of(view.text_of(turn)), CallAt { turn, part: 0 });
        }
    }
    ids.map(|id| wanted.found(id?)).collect()
}

/// Whether a turn is an item of this kind by the model.
fn is_model_part(view: &View, turn: usize, part: TurnPartKind) -> bool {
    let here = view.turns.get(turn).filter(|here| here.role == Role::Assistant);
    here.is_some_and(|_| ResponsesItem::from_turn(view, turn).part == part)
}

/// Sibling name of a call that was dropped or answered between this reasoning item and the model's next item.
pub(super) fn bound(view: &View, turn: usize) -> Option<String> {
    let followed_by = |part| is_model_part(view, turn + 1, part);
    let is_followed = is_model_part(view, turn, TurnPartKind::Thinking)
        && (followed_by(TurnPartKind::Text) || followed_by(TurnPartKind::Thinking));
    is_followed.then(|| response_object::binds(view.text_of(turn), view.turns[turn].span))?
}

/// Serializes the call as this agent would. An agent that omits item ids gets none here either, because the
/// API rejects an id without its reasoning.
fn call_like(has_id: bool, pair: &HiddenPair) -> String {
    if has_id {
        pair.call.clone()
    } else {
        view::without(&pair.call, "id").into_owned()
    }
}

/// Whether the item has an id.
fn has_id(view: &View, turn: usize) -> bool {
    ResponsesItem::from_turn(view, turn).id.is_some()
}

/// For each turn, the first and last turn of the run of adjacent turns that it belongs to.
struct Neighbours(Vec<(usize, usize)>);

impl Neighbours {
    /// Finds the runs of turns with matching roles. Any other turn is a run of its own.
    fn from_view(view: &View, kind: fn(Role) -> bool) -> Self {
        let mut all: Vec<(usize, usize)> = Vec::with_capacity(view.turns.len());
        let mut first = 0;
        for (n, turn) in view.turns.iter().enumerate() {
            if !kind(turn.role) || n == 0 || !kind(view.turns[n - 1].role) {
                first = n;
            }
            all.push((first, n));
        }
        // Backward, so that the end of each run reaches its first turn.
        for n in (1..all.len()).rev() {
            if all[n].0 < n {
                all[n - 1].1 = all[n].1;
            }
        }
        Self(all)
    }
}

/// A run of references to the model's items of one response.
#[derive(Clone, Copy)]
struct ReferencedItems {
    first: usize,
    last: usize,
    /// Index of the first call among them.
    call: Option<usize>,
}

impl ReferencedItems {
    /// Finds the run that ends with turn `last`, or returns `None` if that is not a reference.
    fn after(view: &View, last: usize) -> Option<Self> {
        let mut found = Self {
            first: last,
            last,
            call: None,
        };
        for turn in (0..=last).rev() {
            let item = ResponsesItem::from_turn(view, turn);
            if !item.reference {
                return Some(found).filter(|_| turn < last);
            }
            found.first = turn;
            let is_call = |id: Span| {
                let id = id.of(view.text_of(turn));
                CALLS.iter().any(|prefix| id.starts_with(prefix))
            };
            if item.id.is_some_and(is_call) {
                found.call = Some(turn);
            }
        }
        Some(found)
    }

    /// Inserts the call at its distance before the first call, because reasoning may belong to it. A call
    /// after one of several siblings goes after all of them; only the order is lost.
    fn call(self, pair: &HiddenPair) -> TurnChange {
        let offset = pair.place.offset();
        match self.call {
            Some(call) if offset < 0 => {
                let distance = usize::try_from(offset.unsigned_abs()).unwrap_or_default();
                let turn = (call + 1).saturating_sub(distance).max(self.first);
                TurnChange::Before(turn, pair.call.clone())
            }
            _ => TurnChange::After(self.last, pair.call.clone()),
        }
    }
}

/// Prefixes of call ids.
const CALLS: [&[u8]; 2] = [b"fc_", b"ctc_"];

/// Finds the turns that are the results of these calls.
fn results_of(view: &View, ids: &[&str]) -> Vec<Option<usize>> {
    let mut wanted = WantedIds::new(ids.iter().copied());
    for (turn, whole) in view.turns.iter().enumerate() {
        if whole.role != Role::Tool || !wanted.may_be_in(view.raw(turn)) {
            continue;
        }
        let item = ResponsesItem::from_turn(view, turn);
        if let Some(id) = item.call_id.filter(|_| item.part == TurnPartKind::Result) {
            wanted.take(id.of(view.text_of(turn)), turn);
        }
    }
    ids.iter().map(|id| wanted.found(id)).collect()
}
