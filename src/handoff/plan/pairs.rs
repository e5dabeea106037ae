//! Hidden pairs, back in their places.

use super::{Change, Cut, Reading, Rewrite, Why};
use crate::handoff::record::{HiddenPair, Place};
use crate::handoff::sentinel::{Mark, MarkKind};
use crate::json::Span;
use crate::splice::{self, Edit};
use crate::wire::Wire;
use crate::wire::view::{Anatomy, OwnItem, Role, View};

/// Whether a pair stands in the very turn that is cut: its place may be in front of text that an agent glued to
/// the sentinel, and that is a place only once the cut is made.
fn beside_in_cut_turn(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> bool {
    let Cut::At { candidate, .. } = what.cut else {
        return false;
    };
    let from = candidate.sentinel.rest;
    what.pairs.iter().any(|p| match &p.place {
        Place::Beside { sibling, .. } => {
            let found = wire.find_call(&reading.view, sibling, from);
            found.is_some_and(|(turn, ..)| turn == candidate.turn)
        }
        Place::Aside => false,
    })
}

/// Applies the cut, then puts one aside's pair back after another; `None` where the cut need not come first.
pub(super) fn put_asides(
    wire: &dyn Wire,
    reading: &Reading,
    cut: &[Edit],
    what: &Rewrite<'_>,
    placed: &mut Vec<uuid::Uuid>,
    changes: &mut Vec<Change>,
) -> Option<Reading> {
    let find = |id| {
        what.pairs
            .iter()
            .find(|p: &&HiddenPair| p.id == id && p.place == Place::Aside)
    };
    // Results that go would be taken for those that a pair stands beside.
    let mended = matches!(what.cut, Cut::At { .. }) && cut.len() > 1;
    let asides = reading.asides().into_iter().find_map(find).is_some();
    if !asides && !mended && !beside_in_cut_turn(wire, reading, what) {
        return None;
    }
    let mut body = splice::flat(splice::splice(&reading.view.body, cut.to_vec()));
    loop {
        let now = reading.again(wire, &body)?;
        // An aside that an agent resends twice is put back once.
        let known = |id| find(id).filter(|_| !placed.contains(&id));
        let by_text = || now.marks.iter().find_map(|m| aside_edits(wire, &now, m, &known));
        let by_item = || {
            now.items
                .iter()
                .find_map(|i| aside_item_edits(wire, &now, i, &known))
        };
        let Some((edits, id)) = by_text().or_else(by_item) else {
            return Some(now);
        };
        placed.push(id);
        changes.extend(Change::of(Why::Pair, &edits));
        body = splice::flat(splice::splice(&body, edits));
    }
}

fn aside_edits<'a>(
    wire: &dyn Wire,
    reading: &Reading,
    mark: &Mark,
    known: &impl Fn(uuid::Uuid) -> Option<&'a HiddenPair>,
) -> Option<(Vec<Edit>, uuid::Uuid)> {
    let MarkKind::Aside(id) = mark.kind else {
        return None;
    };
    let pair = known(id).filter(|p| p.wire == wire.id())?;
    let turn = reading.view.turn_at(mark.span.start)?;
    if reading.view.turns[turn].role != Role::Assistant {
        return None;
    }
    let anatomy = wire.anatomy(&reading.view, turn);
    let part = anatomy.text_at(mark.span.start)?;
    let edits = wire.put_aside(&reading.view, turn, &anatomy, part, mark.span, pair);
    (!edits.is_empty()).then_some((edits, id))
}

fn aside_item_edits<'a>(
    wire: &dyn Wire,
    reading: &Reading,
    item: &OwnItem,
    known: &impl Fn(uuid::Uuid) -> Option<&'a HiddenPair>,
) -> Option<(Vec<Edit>, uuid::Uuid)> {
    let pair = known(item.id).filter(|p| item.aside && p.wire == wire.id())?;
    let whole = reading.view.turns[item.turn].span;
    let edits = wire.put_aside(&reading.view, item.turn, &Anatomy::default(), 0, whole, pair);
    (!edits.is_empty()).then_some((edits, item.id))
}

/// References to items of ours that nothing came of: upstream has never heard of them.
pub(super) fn drop_references(reading: &Reading, from: usize) -> Vec<Edit> {
    let turns = &reading.view.turns;
    let lost = reading
        .items
        .iter()
        .filter(|i| i.reference && turns[i.turn].span.start >= from);
    lost.map(|i| {
        let whole = turns[i.turn].span;
        Edit::delete(match (i.turn.checked_sub(1), turns.get(i.turn + 1)) {
            (Some(before), _) => Span::new(turns[before].span.end, whole.end),
            (None, Some(next)) => Span::new(whole.start, next.span.start),
            (None, None) => whole,
        })
    })
    .collect()
}

/// Puts pairs back beside their siblings, and returns what the last of them left pending.
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
    let mut pending: Option<(usize, (String, Option<String>))> = None;
    for pair in what.pairs.iter().filter(|p| p.wire == wire.id()) {
        let Place::Beside { sibling, .. } = &pair.place else {
            continue;
        };
        let (turn, back) = match wire.find_call(view, sibling, from) {
            Some((turn, anatomy, part)) => (turn, wire.put_beside(view, turn, &anatomy, part, pair)),
            None => match find_result(wire, view, sibling, from) {
                Some(turn) => (turn, wire.put_by_result(view, turn, pair)),
                None => continue,
            },
        };
        if back.is_empty() {
            continue;
        }
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

/// The turn at or behind `from` that is the result of the call `id`.
fn find_result(wire: &dyn Wire, view: &View, id: &str, from: usize) -> Option<usize> {
    let region = view.body.get(from..)?;
    memchr::memmem::find_iter(region, id).find_map(|hit| {
        let turn = view
            .turn_at(from + hit)
            .filter(|&t| view.turns[t].role == Role::Tool)?;
        wire.anatomy(view, turn).result(&view.body, id).map(|_| turn)
    })
}
