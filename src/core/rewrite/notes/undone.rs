//! Which handoffs were undone, by the notes in a transcript.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use crate::wire::view::{Role, View};

use crate::rewrite::chat_markers::{ChatMarker, MarkerPosition};

/// The handoffs that are undone, and those that were restored.
#[derive(Debug, Clone, Default)]
pub struct UndoneHandoffs {
    /// Handoffs whose notes occur an odd number of times: they do not count.
    pub(super) now: HashSet<Uuid>,
    /// Handoffs that were undone at any time.
    pub(super) ever: HashSet<Uuid>,
    /// The handoff whose undo, or whose undo's own, is the last change of what the model sees.
    pub last: Option<Uuid>,
    /// The position of the last undo, or of its reversal.
    toggled: Option<usize>,
    /// The handoff that was active from each of these offsets of the transcript on; empty if nothing was ever
    /// undone.
    states: Vec<(usize, Option<Uuid>)>,
    /// Position of the active handoff. What precedes it is not sent and stays unchanged, since the positions of later
    /// texts of ours are digests of all that precedes them.
    from: usize,
}

impl UndoneHandoffs {
    /// Whether the model's text at this offset was written after another prefix than it has now.
    pub(super) fn is_stale(&self, offset: usize) -> bool {
        let Some((_, now)) = self.states.last() else {
            return false;
        };
        let until = self.states.partition_point(|(at, _)| *at <= offset);
        offset >= self.from && until > 0 && self.states[until - 1].1 != *now
    }

    /// Whether a handoff was ever undone.
    pub(super) fn is_any(&self) -> bool {
        !self.states.is_empty()
    }

    /// Whether this handoff is undone.
    pub fn is_undone(&self, handoff: Uuid) -> bool {
        self.now.contains(&handoff)
    }

    /// Whether a call that was queued at this offset is void: what the model saw was changed by a user since.
    pub(super) fn is_void(&self, offset: usize) -> bool {
        self.toggled.is_some_and(|toggled| offset < toggled)
    }

    /// Handoffs that were undone at any time.
    pub fn ever(&self) -> &HashSet<Uuid> {
        &self.ever
    }

    /// Those without a known place: undone by the notes of a flattened transcript.
    pub(super) fn in_text(now: HashSet<Uuid>) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    /// What the notes say of the handoffs. `dropped`: where those begin whose sentinels the transcript lacks.
    pub(super) fn find(view: &View, found: &ChatMarker, dropped: &[(usize, Uuid)]) -> Self {
        let turns_of_users = last_asking(view);
        let start = |at: &MarkerPosition| at.span.map_or(view.turns[at.turn].span.start, |span| span.start);
        // Each with the turn of the note; `None`: a sentinel.
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
                // An answer that an agent resends twice answers one turn.
                let turns_of_users = turns_of_users[turn];
                if counted.insert(id, turns_of_users) == Some(turns_of_users) {
                    continue;
                }
                let counts = undone.now.remove(&id);
                if !counts {
                    undone.now.insert(id);
                }
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

/// Of each turn, and of the one to come, the last turn before it that is not the model's: what an answer in it is to.
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
