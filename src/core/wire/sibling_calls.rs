//! Finds the calls that hidden pairs name as siblings, for all pairs together: many pairs in a large
//! transcript cost one walk.

use std::collections::HashMap;

use memchr::memmem;

use super::view::{self, Role, TurnChange, TurnPart, TurnPartKind, View};
use crate::record::HiddenPair;
use crate::text::cost;

/// Maximum number of ids that are searched for separately. A byte search is many times faster than parsing
/// all calls.
const FEW: usize = 4;

/// Position of a call in a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallAt {
    pub turn: usize,
    /// Index of the part in its turn.
    pub part: usize,
}

/// A hidden pair and its sibling, the call next to it.
#[derive(Debug, Clone, Copy)]
pub struct SiblingPair<'a> {
    /// Position of the sibling.
    pub at: CallAt,
    pub pair: &'a HiddenPair,
}

/// Ids to find in one walk over a transcript.
pub(super) struct WantedIds<'a, T> {
    found: HashMap<&'a [u8], Option<T>>,
    missing: usize,
    /// Searchers for the ids if there are few. A search is many times faster than parsing a turn.
    few: Vec<memmem::Finder<'static>>,
}

impl<'a, T: Copy> WantedIds<'a, T> {
    pub(super) fn new(ids: impl Iterator<Item = &'a str>) -> Self {
        let ids = ids.filter(|id| !id.is_empty());
        let found: HashMap<&[u8], Option<T>> = ids.map(|id| (id.as_bytes(), None)).collect();
        // With its quotes, an id does not match inside a longer one.
        let finder = |id: &&[u8]| memmem::Finder::new(&[b"\"", *id, b"\""].concat()).into_owned();
        let few = found.keys().filter(|_| found.len() <= FEW);
        Self {
            missing: found.len(),
            few: few.map(finder).collect(),
            found,
        }
    }

    /// Whether ids are missing, and the bytes of a turn may contain one.
    pub(super) fn may_be_in(&self, raw: &[u8]) -> bool {
        if self.missing == 0 {
            return false;
        }
        cost::add(raw.len());
        self.few.is_empty() || self.few.iter().any(|id| id.find(raw).is_some())
    }

    /// Records the first occurrence of an id.
    pub(super) fn take(&mut self, id: &[u8], what: T) {
        if let Some(missing @ None) = self.found.get_mut(id) {
            *missing = Some(what);
            self.missing -= 1;
        }
    }

    pub(super) fn found(&self, id: &str) -> Option<T> {
        self.found.get(id.as_bytes()).copied().flatten()
    }
}

/// Calls of a turn with their positions.
pub(super) fn calls_in(
    view: &View,
    turn: usize,
) -> impl DoubleEndedIterator<Item = (CallAt, TurnPart)> + use<> {
    let parts = view.content(turn).parts.into_iter().enumerate();
    let calls = parts.filter(|(_, part)| part.kind == TurnPartKind::Call);
    calls.map(move |(part, call)| (CallAt { turn, part }, call))
}

/// Finds the calls with these ids, at or after offset `from`.
pub(super) fn find_by_ids(view: &View, ids: &[&str], from: usize) -> Vec<Option<CallAt>> {
    let mut wanted = WantedIds::new(ids.iter().copied());
    let first = view.turns.partition_point(|t| t.span.end <= from);
    for turn in first..view.turns.len() {
        if wanted.missing == 0 {
            break;
        }
        if view.turns[turn].role != Role::Assistant || !wanted.may_be_in(view.raw(turn)) {
            continue;
        }
        for (at, call) in calls_in(view, turn) {
            // The first turn may begin before the offset.
            if let Some(id) = call.id.filter(|id| id.start > from) {
                wanted.take(id.of(view.text_of(turn)), at);
            }
        }
    }
    ids.iter().map(|id| wanted.found(id)).collect()
}

/// Returns the changes that restore pairs in messages with separate lists of content and calls.
///
/// Only the list of calls determines the order. The call is inserted there, and `result` follows the message.
pub(super) fn among_calls(
    view: &View,
    besides: &[SiblingPair<'_>],
    result: fn(&HiddenPair) -> String,
) -> Vec<Vec<TurnChange>> {
    // For each message, its calls and their part indices.
    let mut messages: HashMap<usize, (Vec<TurnPart>, Vec<usize>)> = HashMap::new();
    let changes = besides.iter().map(|SiblingPair { at, pair }| {
        let (calls, numbers) = messages.entry(at.turn).or_insert_with(|| {
            let calls = calls_in(view, at.turn);
            calls.map(|(at, part)| (part, at.part)).unzip()
        });
        let Ok(sibling) = numbers.binary_search(&at.part) else {
            return Vec::new();
        };
        let call = view::beside(calls, sibling, pair.place.offset(), &pair.call);
        vec![
            TurnChange::Within(at.turn, call),
            TurnChange::After(at.turn, result(pair)),
        ]
    });
    changes.collect()
}
