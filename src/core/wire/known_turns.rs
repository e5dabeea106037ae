//! Turns that were read before. An agent resends its whole conversation with each request, so that a body mostly begins
//! like an earlier one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::turn::Turn;
use crate::text::Span;
use crate::text::prescan::Prescan;

/// What is known of a body before it is read.
#[derive(Debug, Default)]
pub struct BodyFacts {
    /// What a scan found while it arrived.
    pub prescan: Prescan,
    /// The turns of its beginning, where a body that was read on the same wire began alike.
    pub turns: Option<Arc<KnownTurns>>,
}

/// The turns of a body's beginning, and what a rewrite found out about them.
#[derive(Debug)]
pub struct KnownTurns {
    /// Where the array of turns begins.
    list: usize,
    turns: Vec<Turn>,
    found: Mutex<RewriteFindings>,
}

/// Findings in known turns that need no second search, from the last rewrite.
#[derive(Debug, Default)]
struct RewriteFindings {
    /// After this cut each result has its call, and these are open at the end.
    open_calls: Option<(CutTurn, OpenCalls)>,
    /// From this turn on, none of the model's has a beginning of a mark that was escaped across texts.
    unbroken: Option<usize>,
}

/// The calls that results after some turn may answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCalls {
    /// Ids of the last message's calls: nearly all results answer those.
    pub last: Vec<Span>,
    /// Ids of the calls before it.
    pub before: Vec<Span>,
    /// Calls of the last message that were not answered yet.
    pub unanswered: usize,
    /// Unanswered calls without an id: their results are identified by their number alone.
    pub nameless: usize,
}

/// A cut: the number of the turn, and the parts that are left of it.
pub(crate) type CutTurn = (usize, Vec<Span>);

/// Calls that are kept for each turn on average, at most: some agents make several in one message.
const SPANS_PER_TURN: usize = 4;

impl OpenCalls {
    fn spans(&self) -> usize {
        self.last.len() + self.before.len()
    }
}

impl KnownTurns {
    /// The `turns` of the array `list` that end within the first `len` bytes; `None` where there are none.
    pub fn new(list: Span, turns: &[Turn], len: usize) -> Option<Self> {
        let count = turns.partition_point(|turn| turn.span.end <= len);
        (count > 0).then(|| Self {
            list: list.start,
            turns: turns[..count].to_vec(),
            found: Mutex::default(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.turns.len()
    }

    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.turns) + self.most_spans() * size_of::<Span>()
    }

    /// Bounds what is kept of calls, which may be any number in one turn.
    fn most_spans(&self) -> usize {
        SPANS_PER_TURN * self.turns.len()
    }

    /// The turns of the array that begins at `list`.
    pub(super) fn of_list(&self, list: usize) -> &[Turn] {
        if self.list == list { &self.turns } else { &[] }
    }

    fn lock(&self) -> MutexGuard<'_, RewriteFindings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request shares with others: the turns that it begins with as an earlier one did, and those with which later
/// ones may.
#[derive(Debug, Clone, Default)]
pub struct SharedTurns {
    earlier: Option<Arc<KnownTurns>>,
    own: Option<Arc<KnownTurns>>,
}

impl SharedTurns {
    /// `earlier` were read before, `own` are kept; both begin the request's turns.
    pub fn new(earlier: Option<Arc<KnownTurns>>, own: Option<Arc<KnownTurns>>) -> Self {
        Self { earlier, own }
    }

    /// How many turns are kept.
    pub(crate) fn kept(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.count())
    }

    /// The calls that are open at the end of the turns that are known, where these were looked through after the same
    /// cut; and how many turns that are.
    pub(crate) fn open_calls(&self, cut: &CutTurn) -> Option<(OpenCalls, usize)> {
        let earlier = self.earlier.as_ref()?;
        let found = earlier.lock();
        let (_, calls) = found.open_calls.as_ref().filter(|(known, _)| known == cut)?;
        Some((calls.clone(), earlier.count()))
    }

    /// Keeps the calls that are open at the end of the turns that are kept, after a cut among these.
    pub(crate) fn keep_open_calls(&self, cut: &CutTurn, calls: &OpenCalls) {
        let fits = |own: &&Arc<KnownTurns>| cut.1.len() + calls.spans() <= own.most_spans();
        if let Some(own) = self.own.as_ref().filter(fits) {
            own.lock().open_calls = Some((cut.clone(), calls.clone()));
        }
    }

    /// The first turn, from `first` on, in which a beginning of a mark may have been escaped across texts.
    pub(crate) fn first_maybe_broken(&self, first: usize) -> usize {
        let known = self.earlier.as_ref().and_then(|earlier| {
            let from = earlier.lock().unbroken?;
            (from <= first).then_some(earlier.count())
        });
        known.map_or(first, |known| known.max(first))
    }

    /// Keeps that there is no such turn from `first` on, among those that are kept.
    pub(crate) fn keep_unbroken(&self, first: usize) {
        if let Some(own) = &self.own {
            own.lock().unbroken = Some(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Role;

    #[test]
    fn a_turn_of_many_calls_is_looked_through_again() {
        let turns: Vec<Turn> = (0..10)
            .map(|i| Turn {
                span: Span::new(i, i + 1),
                role: Role::Assistant,
            })
            .collect();
        let known = Arc::new(KnownTurns::new(Span::new(0, 10), &turns, 10).unwrap());
        let shared = SharedTurns::new(Some(Arc::clone(&known)), Some(known));
        let calls = |count| OpenCalls {
            last: vec![Span::default(); count],
            ..OpenCalls::default()
        };
        let cut = (0, Vec::new());
        shared.keep_open_calls(&cut, &calls(SPANS_PER_TURN * turns.len() + 1));
        assert_eq!(shared.open_calls(&cut), None);
        let few = calls(SPANS_PER_TURN * turns.len());
        shared.keep_open_calls(&cut, &few);
        assert_eq!(shared.open_calls(&cut), Some((few, turns.len())));
    }
}
