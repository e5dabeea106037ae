//! Determines from the notes in a transcript which handoffs were undone.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use crate::wire::view::{Role, View};

use crate::rewrite::chat_markers::{ChatMarker, MarkerPosition};

/// Handoffs that are undone, and those that were restored.
#[derive(Debug, Clone, Default)]
pub struct UndoneHandoffs {
    /// Handoffs whose notes occur an odd number of times, and which do not count.
    pub(super) now: HashSet<Uuid>,
    /// Handoffs that were undone at any time.
    pub(super) ever: HashSet<Uuid>,
    /// Handoff whose undo, or reverted undo, last changed the model's view.
    pub last: Option<Uuid>,
    /// Position of the last undo or its reversal.
    toggled: Option<usize>,
    /// The active handoff from each of these offsets on; empty if nothing was ever undone.
    states: Vec<(usize, Option<Uuid>)>,
    /// Position of the active handoff.
    ///
    /// Everything before it is not sent and stays unchanged, because the positions of later notices are
    /// digests of all that precedes them.
    from: usize,
}

impl UndoneHandoffs {
    /// Whether the model's text at this offset was written after another prefix than its present one.
    pub(super) fn is_stale(&self, offset: usize) -> bool {
        let Some((_, now)) = self.states.last() else {
            return false;
        };
        let until = self.states.partition_point(|(at, _)| *at <= offset);
        offset >= self.from && until > 0 && self.states[until - 1].1 != *now
    }

    /// Whether any handoff was ever undone.
    pub(super) fn is_any(&self) -> bool {
        !self.states.is_empty()
    }

    /// Whether this handoff is undone.
    pub fn is_undone(&self, handoff: Uuid) -> bool {
        self.now.contains(&handoff)
    }

    /// Whether a call queued at this offset is void, because the user has changed the model's view since.
    pub(super) fn is_void(&self, offset: usize) -> bool {
        self.toggled.is_some_and(|toggled| offset < toggled)
    }

    /// Handoffs that were undone at any time.
    pub fn ever(&self) -> &HashSet<Uuid> {
        &self.ever
    }

    /// Creates undone handoffs without known positions, from the notes of a flattened transcript.
    pub(super) fn in_text(now: HashSet<Uuid>) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    /// Reads the notes. `dropped` holds the positions of handoffs whose sentinels the transcript lacks.
    pub(super) fn find(view: &View, found: &ChatMarker, dropped: &[(usize, Uuid)]) -> Self {
        let turns_of_users = last_asking(view);
        let start = |at: &MarkerPosition| at.span.map_or(view.turns[at.turn].span.start, |span| span.start);
        // Each with the turn of its note, or `None` for a sentinel.
        let mut all: Vec<(usize, Option<usize>, Uuid)> =
            found.opens.iter().map(|at| (start(at), None, at.id)).collect();
        all.extend(dropped.iter().map(|(at, id)| (*at, None, *id)));
        let notes = found.notes.iter().filter(|at| !at.id.is_nil());
        all.extend(notes.map(|at| (start(at), Some(at.turn), at.id)));
        all.sort_by_key(|(at, ..)| *at);
        let mut undone = Self::default();
        let mut opened: HashMap<Uuid, usize> = HashMap::new();
        let mut counting: BTreeSet<(usize, Uuid)> = BTreeSet::new();
        let mut states = vec![(0, None)];
        let mut counted: HashMap<Uuid, Option<usize>> = HashMap::new();
        for (at, note, id) in all {
            if let Some(turn) = note {
                // A reply that an agent resends twice counts once.
                let turns_of_users = turns_of_users[turn];
                if counted.insert(id, turns_of_users) == Some(turns_of_users) {
                    continue;
                }
                // Each further note toggles the state.
                let counts = undone.now.remove(&id);
                if !counts {
                    undone.now.insert(id);
                }
                // A note of a handoff that this branch never had.
                let Some(open) = opened.get(&id) else {
                    continue;
                };
                undone.ever.insert(id);
                match counts {
                    true => counting.insert((*open, id)),
                    false => counting.remove(&(*open, id)),
                };
                undone.toggled = Some(at);
                undone.last = Some(id);
            } else {
                // A handoff that the user resumes is shown again further down, and counts from there.
                if let Some(before) = opened.insert(id, at) {
                    counting.remove(&(before, id));
                }
                counting.insert((at, id));
                undone.now.remove(&id);
                counted.remove(&id);
                undone.last = None;
            }
            states.push((at, counting.last().map(|(_, id)| *id)));
        }
        if undone.toggled.is_some() {
            undone.from = counting.last().map_or(0, |(at, _)| *at);
            undone.states = states;
        }
        undone
    }
}

/// For each turn, and for the one that would follow the last, the last turn of the user or of a tool before it.
///
/// A reply of baton in the turn answers that one.
fn last_asking(view: &View) -> Vec<Option<usize>> {
    let mut last = None;
    let mut all = Vec::with_capacity(view.turns.len() + 1);
    for (n, turn) in view.turns.iter().enumerate() {
        all.push(last);
        if matches!(turn.role, Role::User | Role::Tool) {
            last = Some(n);
        }
    }
    all.push(last);
    all
}
