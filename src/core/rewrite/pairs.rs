//! Restores hidden pairs, and finds those whose position is lost.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::elements::Elements;
use super::reading::SortedTexts;
use super::{ChangeReason, Cut, RequestReading, Rewrite, cut};
use crate::marker::MarkerKind;
use crate::record::{HiddenPair, InsertionPoint, WireId};
use crate::text::splice::Edit;
use crate::wire::view::{InjectedKind, Role, TurnChange, TurnContent};
use crate::wire::{CallAt, SiblingPair, SplitTurn, SyntheticTurn};

/// Pairs of this wire that are next to a parallel call, each with that call.
fn beside<'a>(
    wire: WireId,
    pairs: &'a [HiddenPair],
) -> impl Iterator<Item = (&'a HiddenPair, &'a str)> + use<'a> {
    pairs.iter().filter_map(move |pair| match &pair.place {
        InsertionPoint::Beside { sibling, .. } if pair.wire == wire => Some((pair, sibling.as_str())),
        _ => None,
    })
}

/// Maximum number of asides restored in one turn; further ones stay a line of text.
///
/// A response has at most [`crate::limits::ASK_AGAIN`] asides of refused calls and a few of answered searches, so
/// usually only a turn that an agent has joined from several responses has more.
const MAX_ASIDES: usize = 16;

/// Restores the pairs of asides, each between the text before it and the text after it. Returns their ids.
///
/// An aside that an agent resends twice is restored once.
pub(super) fn put_asides(elements: &mut Elements<'_>, pairs: &[HiddenPair]) -> Vec<Uuid> {
    let reading = elements.agents;
    let mine = pairs
        .iter()
        .filter(|p| p.place == InsertionPoint::Aside && p.wire == reading.view.wire);
    let mut known: HashMap<Uuid, &HiddenPair> = mine.map(|p| (p.id, p)).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let places = elements.places();
    let here = reading.aside_places().filter(|(id, _)| known.contains_key(id));
    let here = here.filter_map(|(_, at)| places[reading.view.turn_at(at)?]);
    let mut turns: BTreeSet<usize> = here.collect();
    let mut placed = Vec::new();
    // A pass restores one aside per turn, because that splits the turn.
    for _ in 0..MAX_ASIDES {
        let (mut mended, mut split) = (Vec::new(), Vec::new());
        for &turn in &turns {
            let Some((id, made)) = put_aside(elements, turn, &known) else {
                continue;
            };
            known.remove(&id);
            placed.push(id);
            let view = &elements.view;
            mended.extend((view.turn_rules().mend_before_aside)(view, turn));
            split.push((turn, made));
        }
        if split.is_empty() {
            break;
        }
        elements.settle(ChangeReason::Pair, mended);
        // The last piece of each turn may have another aside.
        turns = elements.split(ChangeReason::Pair, split).into_iter().collect();
    }
    placed
}

/// Restores the first aside of a model turn, and returns the turns that replace it.
fn put_aside(
    elements: &Elements<'_>,
    turn: usize,
    known: &HashMap<Uuid, &HiddenPair>,
) -> Option<(Uuid, Vec<SyntheticTurn>)> {
    let (reading, view) = (elements.agents, &elements.view);
    if view.turns[turn].role == Role::Assistant {
        let content = view.content(turn);
        let texts = SortedTexts::new(&content);
        for mark in &*reading.marks_of(view, turn) {
            let MarkerKind::Aside(id) = mark.kind else {
                continue;
            };
            let (Some(pair), Some((part, _))) = (known.get(&id), texts.at(mark.span.start)) else {
                continue;
            };
            let split = SplitTurn::at(view, turn, &content, part, mark.span);
            let made = split.map(|split| (view.wire().functions.put_between)(&split, pair));
            if let Some(made) = made.filter(|made| !made.is_empty()) {
                return Some((id, made));
            }
        }
    }
    let items = reading.items.iter();
    let mut items = items.filter(|item| item.kind == InjectedKind::Aside);
    let is_here = |turn_of: usize| elements.is_agents(turn) && elements.origin(turn) == Some(turn_of);
    let id = items.find(|item| is_here(item.turn))?.id;
    let content = TurnContent::default();
    let whole = SplitTurn::whole(view, turn, &content);
    Some((id, (view.wire().functions.put_between)(&whole, known.get(&id)?)))
}

/// Removes references to injected items that upstream does not know.
///
/// The filler of an empty turn is sent in full, as by agents that send whole items.
pub(super) fn drop_references(elements: &Elements<'_>) -> Vec<TurnChange> {
    let reading = elements.agents;
    let is_any = reading.items.iter().any(|item| item.reference);
    let Some(rules) = reading.view.item_rules().filter(|_| is_any) else {
        return Vec::new();
    };
    let places = elements.places();
    let lost = reading.items.iter().filter(|i| i.reference);
    let changes = lost.filter_map(|item| {
        let turn = places[item.turn].filter(|turn| elements.is_agents(*turn))?;
        let is_filler = item.kind == InjectedKind::Filler;
        let filler = is_filler.then(|| (rules.filler)(&reading.view, item)).flatten();
        Some(match filler {
            Some(spoken) => TurnChange::Within(turn, Edit::replace(elements.view.turns[turn].span, spoken)),
            None => TurnChange::LeftOut(turn),
        })
    });
    changes.collect()
}

/// Positions of the parallel calls in a rewritten request.
fn find_siblings(elements: &Elements<'_>, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
    let agents = &elements.agents.view;
    let mut found = agents.find_calls(siblings, from);
    let places = elements.places();
    let mut moved = Vec::new();
    for (n, found) in found.iter_mut().enumerate() {
        let Some(at) = found else { continue };
        match places[at.turn].filter(|turn| elements.is_agents(*turn)) {
            Some(turn) => at.turn = turn,
            // The turn was split, or has lost its beginning.
            None => moved.push(n),
        }
    }
    if moved.is_empty() {
        return found;
    }
    let names: Vec<&str> = moved.iter().map(|n| siblings[*n]).collect();
    let settled = agents.settled(&names, from);
    let names = settled
        .as_ref()
        .map_or(names, |settled| settled.iter().map(String::as_str).collect());
    let again = elements.view.find_calls(&names, 0);
    for (n, again) in moved.into_iter().zip(again) {
        found[n] = again;
    }
    found
}

/// Restores pairs next to their parallel calls, and returns the pending handoff of the last one.
pub(super) fn insert_beside_siblings(
    elements: &Elements<'_>,
    what: &Rewrite<'_>,
    changes: &mut Vec<TurnChange>,
    placed: &mut Vec<Uuid>,
) -> Option<(String, Option<String>)> {
    let view = &elements.view;
    let (pairs, siblings): (Vec<_>, Vec<_>) = beside(view.wire, what.pairs).unzip();
    if pairs.is_empty() || matches!(what.cut, Cut::Fresh { .. }) {
        return None;
    }
    let from = cut::kept_from(&elements.agents.view, what.cut);
    let found = find_siblings(elements, &siblings, from);
    let mut pairs: Vec<Cow<'_, HiddenPair>> = pairs.into_iter().map(Cow::Borrowed).collect();
    for (pair, at) in pairs.iter_mut().zip(&found) {
        // A call whose thinking is left out is not bound to anything.
        if at
            .and_then(|at| elements.origin(at.turn))
            .is_some_and(|turn| Some(turn) < what.omitted)
            && let Some(call) = (view.turn_rules().unbound_call)(&pair.call)
        {
            pair.to_mut().call = call;
        }
    }
    let known = pairs.iter().zip(&found);
    let found_pairs = known.clone();
    let found_pairs = found_pairs.filter_map(|(pair, at)| Some(SiblingPair { at: (*at)?, pair }));
    let besides: Vec<SiblingPair<'_>> = found_pairs.collect();
    // Their call may be stored upstream, so that only its result is in the request (Responses).
    let missing = known.filter(|(_, at)| at.is_none());
    let missing: Vec<&HiddenPair> = missing.map(|(pair, _)| &**pair).collect();
    let mut beside = (view.wire().functions.put_beside)(view, &besides).into_iter();
    let items = view.item_rules();
    let by_result = items.map(|items| (items.put_by_results)(view, &missing));
    let mut by_result = by_result.into_iter().flatten();
    let owed = what.previous.map_or(&[][..], |previous| previous.owed);
    let is_owed = |pair: &HiddenPair| {
        items.is_some_and(|items| owed.contains(&(items.lone_result)(&pair.call_id, &pair.answer)))
    };
    let mut pending: Option<(usize, (String, Option<String>))> = None;
    for (pair, at) in pairs.iter().zip(&found) {
        let back = match at {
            Some(at) => beside.next().map(|changes| (at.turn, changes)),
            None => by_result.next().flatten(),
        };
        let Some((turn, back)) = back.filter(|(_, back)| !back.is_empty()) else {
            continue;
        };
        // The request has this result as one that the continued response waits for.
        if at.is_some() || !is_owed(pair) {
            changes.extend(back);
        }
        placed.push(pair.id);
        if let Some(waiting) = &pair.pending
            // The last one in the transcript counts.
            && pending.as_ref().is_none_or(|(at, _)| *at <= turn)
        {
            pending = Some((turn, waiting.clone()));
        }
    }
    pending.map(|(_, waiting)| waiting)
}

/// Finds the pairs that should be in a rewritten request but are missing.
///
/// These are pairs of `here`, which belong to calls of this transcript, and those of its asides. Pairs before
/// the cut are not lost.
pub fn lost(
    reading: &RequestReading,
    what: Cut<'_>,
    pairs: &[HiddenPair],
    here: &[Uuid],
    placed: &[Uuid],
) -> Vec<Uuid> {
    // The part of the transcript that upstream stores is dropped with everything in it.
    if matches!(what, Cut::Before { .. } | Cut::Fresh { .. }) {
        return Vec::new();
    }
    let from = cut::kept_from(&reading.view, what);
    let placed: HashSet<_> = placed.iter().collect();
    let mut lost = reading.asides_after(from);
    lost.retain(|id| !placed.contains(id));
    let here: HashSet<_> = here.iter().collect();
    let pairs = pairs.iter();
    let missing = pairs.filter(|pair| here.contains(&pair.id) && !placed.contains(&pair.id));
    let (ids, siblings): (Vec<Uuid>, Vec<&str>) = missing.map(|pair| (pair.id, pair.place.sibling())).unzip();
    let anywhere = reading.view.find_calls(&siblings, 0);
    let after = reading.view.find_calls(&siblings, from);
    // A call that is found, but not after the cut, was cut.
    let was_cut = anywhere.iter().zip(after);
    let was_cut = was_cut.map(|(a, b)| a.is_some() && b.is_none());
    let left = ids.into_iter().zip(was_cut).filter(|(_, was_cut)| !was_cut);
    lost.extend(left.map(|(id, _)| id));
    lost
}
