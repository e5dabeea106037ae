//! Restores hidden pairs, and finds those whose place is lost.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::reading::TextFinder;
use super::{ChangeReason, Cut, RequestReading, Rewrite, SizeChange, cut};
use crate::mark::MarkKind;
use crate::record::{HiddenPair, InsertionPlace};
use crate::text::Span;
use crate::text::splice::{self, Edit};
use crate::wire::view::{OwnKind, Role, TurnContent, View};
use crate::wire::{AsidePlace, SiblingPair, Wire};

/// Whether a pair belongs to the message that is cut. Its place may be before text that an agent appended to the
/// sentinel, and exists only after the cut.
fn beside_in_cut_message(wire: &dyn Wire, reading: &RequestReading, what: &Rewrite<'_>) -> bool {
    let Cut::At { candidate, .. } = what.cut else {
        return false;
    };
    let from = candidate.sentinel.rest;
    let message = wire.message(&reading.view, candidate.turn);
    let siblings: Vec<&str> = beside(wire, what.pairs).map(|(_, sibling)| sibling).collect();
    let found = wire.find_calls(&reading.view, &siblings, from);
    found.into_iter().flatten().any(|at| message.contains(&at.turn))
}

/// The pairs of this wire that are next to a sibling, each with that.
fn beside<'a>(
    wire: &dyn Wire,
    pairs: &'a [HiddenPair],
) -> impl Iterator<Item = (&'a HiddenPair, &'a str)> + use<'a> {
    let wire = wire.id();
    pairs.iter().filter_map(move |pair| match &pair.place {
        InsertionPlace::Beside { sibling, .. } if pair.wire == wire => Some((pair, sibling.as_str())),
        _ => None,
    })
}

/// Times that a body is read again for asides that share a turn. An answer has [`crate::limits::ASK_AGAIN`] of them, so
/// only an agent that joins answers comes near. Further ones stay a line of text.
const ASIDE_ROUNDS: usize = 16;

/// Applies the cut and puts texts in, then puts the asides' pairs back; `None` where the cut need not come first.
pub(super) fn put_asides(
    wire: &dyn Wire,
    reading: &RequestReading,
    (cut, inserted): (&[Edit], &[Edit]),
    what: &Rewrite<'_>,
    placed: &mut Vec<uuid::Uuid>,
    changes: &mut Vec<SizeChange>,
) -> Option<RequestReading> {
    let mine = what
        .pairs
        .iter()
        .filter(|p| p.place == InsertionPlace::Aside && p.wire == wire.id());
    let mut known: HashMap<uuid::Uuid, &HiddenPair> = mine.map(|p| (p.id, p)).collect();
    // Removed results would be taken for siblings of a pair.
    let mended = matches!(what.cut, Cut::At { .. } | Cut::BeforeTurn { .. }) && cut.len() > 1;
    let asides = reading.asides().iter().any(|id| known.contains_key(id));
    if !asides && !mended && !beside_in_cut_message(wire, reading, what) {
        return None;
    }
    let mut body = splice::edited(&reading.view.body, [cut, inserted].concat());
    for _ in 0..ASIDE_ROUNDS {
        let now = reading.again(wire, &body)?;
        let edits = aside_round(wire, &now, &mut known, placed);
        if edits.is_empty() {
            return Some(now);
        }
        changes.extend(SizeChange::of(ChangeReason::Pair, &edits));
        body = splice::edited(&body, edits);
    }
    reading.again(wire, &body)
}

/// Restores one aside of each turn: the edits of one turn do not touch another. An aside that an agent resends twice
/// is restored once.
fn aside_round(
    wire: &dyn Wire,
    now: &RequestReading,
    known: &mut HashMap<uuid::Uuid, &HiddenPair>,
    placed: &mut Vec<uuid::Uuid>,
) -> Vec<Edit> {
    let mut texts = TextFinder::new(wire, &now.view);
    let mut touched = HashSet::new();
    let mut all = Vec::new();
    let marks = now.marks.iter().filter_map(|mark| match mark.kind {
        MarkKind::Aside(id) => Some((id, mark.span, None)),
        _ => None,
    });
    let items = now.items.iter().filter(|item| item.kind == OwnKind::Aside);
    let items = items.map(|item| (item.id, now.view.turns[item.turn].span, Some(item.turn)));
    let unread = TurnContent::default();
    for (id, mark, item) in marks.chain(items) {
        let Some(pair) = known.get(&id) else { continue };
        let place = match item {
            Some(turn) => Some((turn, 0)),
            None => texts.at(mark.start, &[Role::Assistant]),
        };
        let Some((turn, part)) = place.filter(|(turn, _)| !touched.contains(turn)) else {
            continue;
        };
        let aside = AsidePlace {
            view: &now.view,
            turn,
            content: item.map_or(texts.content(), |_| &unread),
            part,
            mark,
        };
        let edits = wire.put_aside(&aside, pair);
        if !edits.is_empty() {
            known.remove(&id);
            touched.insert(turn);
            placed.push(id);
            all.extend(edits);
        }
    }
    all
}

/// References to items of ours that upstream does not know. The item in place of an empty turn is sent in full, as by
/// agents that send whole items.
pub(super) fn drop_references(wire: &dyn Wire, reading: &RequestReading, from: usize) -> Vec<Edit> {
    let turns = &reading.view.turns;
    let lost = reading
        .items
        .iter()
        .filter(|i| i.reference && turns[i.turn].span.start >= from);
    lost.map(|i| {
        let whole = turns[i.turn].span;
        let rules = wire.facts().items.filter(|_| i.kind == OwnKind::Filler);
        if let Some(spoken) = rules.and_then(|rules| (rules.filler)(&reading.view, i)) {
            return Edit::replace(whole, spoken);
        }
        Edit::delete(match (i.turn.checked_sub(1), turns.get(i.turn + 1)) {
            (Some(before), _) => Span::new(turns[before].span.end, whole.end),
            (None, Some(next)) => Span::new(whole.start, next.span.start),
            (None, None) => whole,
        })
    })
    .collect()
}

/// The pairs with siblings that are found whatever is edited before them.
pub(super) fn settled(wire: &dyn Wire, view: &View, what: &Rewrite<'_>) -> Vec<HiddenPair> {
    let from = cut::kept_from(view, what.cut);
    let mut pairs = what.pairs.to_vec();
    let siblings: Vec<&str> = beside(wire, what.pairs).map(|(_, sibling)| sibling).collect();
    let Some(settled) = wire.settled(view, &siblings, from) else {
        return pairs;
    };
    let mut settled = settled.into_iter();
    for pair in pairs.iter_mut().filter(|pair| pair.wire == wire.id()) {
        if let InsertionPlace::Beside { sibling, .. } = &mut pair.place
            && let Some(settled) = settled.next()
        {
            *sibling = settled;
        }
    }
    pairs
}

/// Puts pairs back next to their siblings, and returns what the last of them left pending.
pub(super) fn put_besides(
    wire: &dyn Wire,
    view: &View,
    what: &Rewrite<'_>,
    from: usize,
    edits: &mut Vec<Edit>,
    placed: &mut Vec<uuid::Uuid>,
) -> Option<(String, Option<String>)> {
    if matches!(what.cut, Cut::Fresh { .. }) {
        return None;
    }
    let (pairs, siblings): (Vec<_>, Vec<_>) = beside(wire, what.pairs).unzip();
    let found = wire.find_calls(view, &siblings, from);
    let known = pairs.iter().zip(&found);
    let besides: Vec<SiblingPair<'_>> = known
        .clone()
        .filter_map(|(pair, at)| Some(SiblingPair { at: (*at)?, pair }))
        .collect();
    let missing: Vec<_> = known
        .filter(|(_, at)| at.is_none())
        .map(|(pair, _)| *pair)
        .collect();
    let mut beside = wire.put_beside(view, &besides).into_iter();
    let by_result = wire
        .facts()
        .items
        .map(|items| (items.put_by_results)(view, &missing, from));
    let mut by_result = by_result.into_iter().flatten();
    let mut pending: Option<(usize, (String, Option<String>))> = None;
    for (pair, at) in pairs.iter().zip(&found) {
        let back = match at {
            Some(at) => beside.next().map(|edits| (at.turn, edits)),
            None => by_result.next().flatten(),
        };
        let Some((turn, back)) = back.filter(|(_, back)| !back.is_empty()) else {
            continue;
        };
        edits.extend(back);
        placed.push(pair.id);
        if let Some(waiting) = &pair.pending
            && pending.as_ref().is_none_or(|(at, _)| *at <= turn)
        {
            pending = Some((turn, waiting.clone()));
        }
    }
    pending.map(|(_, waiting)| waiting)
}

/// Pairs that should be in a rewritten request and are missing: those of `here`, which belong to calls of this
/// transcript, and of its asides. Pairs before the cut are not lost.
pub fn lost(
    wire: &dyn Wire,
    reading: &RequestReading,
    what: Cut<'_>,
    pairs: &[HiddenPair],
    here: &[Uuid],
    placed: &[Uuid],
) -> Vec<Uuid> {
    // Upstream's stored part of the transcript is dropped with everything in it.
    if matches!(what, Cut::Before { .. } | Cut::Fresh { .. }) {
        return Vec::new();
    }
    let from = cut::kept_from(&reading.view, what);
    let placed: HashSet<_> = placed.iter().collect();
    let mut lost = reading.asides_after(from);
    lost.retain(|id| !placed.contains(id));
    let here: HashSet<_> = here.iter().collect();
    let missing = pairs
        .iter()
        .filter(|pair| here.contains(&pair.id) && !placed.contains(&pair.id));
    let (ids, siblings): (Vec<Uuid>, Vec<&str>) = missing.map(|pair| (pair.id, pair.place.sibling())).unzip();
    let anywhere = wire.find_calls(&reading.view, &siblings, 0);
    let after = wire.find_calls(&reading.view, &siblings, from);
    let was_cut = anywhere
        .iter()
        .zip(after)
        .map(|(a, b)| a.is_some() && b.is_none());
    let left = ids.into_iter().zip(was_cut).filter(|(_, was_cut)| !was_cut);
    lost.extend(left.map(|(id, _)| id));
    lost
}
