//! The calls that hidden pairs name as their siblings: found for all pairs together, so that many pairs in a large
//! transcript cost one walk over it.

use std::collections::HashMap;

use memchr::memmem;

use super::view::{self, Role, TurnContent, TurnPart, TurnPartKind, View};
use crate::record::HiddenPair;
use crate::text::cost;
use crate::text::splice::Edit;

/// Up to this many ids are searched for one by one: a search is many times faster than a walk over all calls.
const FEW: usize = 4;

/// Where a call is in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallAt {
    pub turn: usize,
    /// Which part of the turn it is.
    pub part: usize,
}

/// A hidden pair and the call that it goes next to.
#[derive(Debug, Clone, Copy)]
pub struct SiblingPair<'a> {
    /// The sibling.
    pub at: CallAt,
    pub pair: &'a HiddenPair,
}

/// The calls of these ids at or after offset `from`, where `parts_of` reads a turn's parts, as
/// [`Pairs::find_calls`](super::Pairs::find_calls) returns them.
pub(super) fn find_by_ids(
    parts_of: impl Fn(usize) -> TurnContent,
    view: &View,
    ids: &[&str],
    from: usize,
) -> Vec<Option<CallAt>> {
    if ids.len() <= FEW {
        let found = ids.iter().map(|id| find_by_id(&parts_of, view, id, from));
        return found.collect();
    }
    let mut wanted: HashMap<&[u8], Option<CallAt>> = ids.iter().map(|id| (id.as_bytes(), None)).collect();
    wanted.remove(&b""[..]);
    let mut left = wanted.len();
    let first = view.turns.partition_point(|t| t.span.end <= from);
    for turn in first..view.turns.len() {
        if left == 0 {
            break;
        }
        if view.turns[turn].role != Role::Assistant {
            continue;
        }
        let parts = parts_of(turn).parts.into_iter().enumerate();
        let calls = parts.filter(|(_, p)| p.kind == TurnPartKind::Call);
        for (part, id) in calls.filter_map(|(part, p)| Some((part, p.id?))) {
            let wanted_here = wanted.get_mut(view.text(id)).filter(|_| id.start > from);
            if let Some(missing @ None) = wanted_here {
                *missing = Some(CallAt { turn, part });
                left -= 1;
            }
        }
    }
    let found = ids.iter().map(|id| wanted.get(id.as_bytes()).copied().flatten());
    found.collect()
}

fn find_by_id(parts_of: impl Fn(usize) -> TurnContent, view: &View, id: &str, from: usize) -> Option<CallAt> {
    if id.is_empty() {
        return None;
    }
    let region = view.body.get(from..)?;
    // A later hit in the same turn adds nothing to the first one.
    let mut seen = None;
    let found = memmem::find_iter(region, &format!("\"{id}\"")).find_map(|hit| {
        let turn = view
            .turn_at(from + hit)
            .filter(|&t| view.turns[t].role == Role::Assistant && seen.replace(t) != Some(t))?;
        let part = parts_of(turn).call(&view.body, id)?;
        Some(CallAt { turn, part })
    });
    cost::add(found.map_or(region.len(), |at| view.turns[at.turn].span.end - from));
    found
}

/// The edits that restore pairs where content and calls are two lists of a message. The call goes among the calls,
/// which alone count; the `result` goes right after the message.
pub(super) fn among_calls(
    parts_of: impl Fn(usize) -> TurnContent,
    view: &View,
    besides: &[SiblingPair<'_>],
    result: fn(&HiddenPair) -> String,
) -> Vec<Vec<Edit>> {
    // Of each message, its calls, and which of its parts they are.
    let mut messages: HashMap<usize, (Vec<TurnPart>, Vec<usize>)> = HashMap::new();
    let edits = besides.iter().map(|SiblingPair { at, pair }| {
        let (calls, numbers) = messages.entry(at.turn).or_insert_with(|| {
            let parts = parts_of(at.turn).parts.into_iter().enumerate();
            let calls = parts.filter(|(_, part)| part.kind == TurnPartKind::Call);
            calls.map(|(number, part)| (part, number)).unzip()
        });
        let Ok(sibling) = numbers.binary_search(&at.part) else {
            return Vec::new();
        };
        vec![
            view::beside(calls, sibling, pair.place.offset(), &pair.call),
            Edit::insert(view.turns[at.turn].span.end, format!(",{}", result(pair))),
        ]
    });
    edits.collect()
}
