//! Determines from the notes in a transcript which handoffs were undone.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use crate::wire::view::{Role, View};

use crate::record::{HiddenPair, InsertionPoint};
use crate::rewrite::RequestReading;
use crate::rewrite::chat_markers::{ChatMarker, MarkerPosition};
use crate::wire::Operation;
use bytes::Bytes;

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

/// Adjusts the pairs of a transcript with undone handoffs.
///
/// A call that was queued before an undo, or before the position of a reverted one, is void and must not take
/// effect again. A call with a changed prefix loses its binding, like the model's own calls.
///
/// `received` is the transcript as the agent sent it. `now` is that transcript without notes and undone
/// sentinels, and identifies calls without ids. Returns for each pair whether it is
/// in the transcript.
pub fn settle(received: &Bytes, now: &View, undone: &UndoneHandoffs, pairs: &mut [HiddenPair]) -> Vec<bool> {
    let Ok(reading) = RequestReading::new(now.wire(), received, Operation::Generate) else {
        return vec![false; pairs.len()];
    };
    rename_siblings(&reading.view, now, pairs);
    let places = offsets(&reading, now, pairs);
    for (pair, at) in pairs.iter_mut().zip(&places) {
        let Some(at) = *at else { continue };
        if undone.is_void(at) {
            pair.pending = None;
        }
        if undone.is_stale(at)
            && let Some(call) = (now.turn_rules().unbound_call)(&pair.call)
        {
            pair.call = call;
        }
    }
    places.iter().map(Option::is_some).collect()
}

/// Renames calls without ids that were named while the transcript still had a sentinel or note that is removed.
///
/// Removed parts may be whole messages, which a call's name counts. They contain no calls.
fn rename_siblings(received: &View, now: &View, pairs: &mut [HiddenPair]) {
    let siblings: Vec<&str> = pairs.iter().map(|pair| pair.place.sibling()).collect();
    let Some(names) = received.settled(&siblings, 0) else {
        return;
    };
    let calls = now.find_calls(&siblings, 0);
    for ((pair, name), call) in pairs.iter_mut().zip(names).zip(calls) {
        if let (None, InsertionPoint::Beside { sibling, .. }) = (call, &mut pair.place) {
            *sibling = name;
        }
    }
}

/// Position of each pair.
fn offsets(reading: &RequestReading, now: &View, pairs: &[HiddenPair]) -> Vec<Option<usize>> {
    let view = &reading.view;
    let asides: HashMap<_, _> = reading.aside_places().collect();
    let siblings: Vec<&str> = pairs.iter().map(|pair| pair.place.sibling()).collect();
    let mut calls = view.find_calls(&siblings, 0);
    // A call without an id is identified by the number of its message, and notes count as messages. Removed
    // parts contain no calls, so a call is equally far from the end in both transcripts.
    if let Some(distances) = now.settled(&siblings, 0) {
        let distances: Vec<&str> = distances.iter().map(String::as_str).collect();
        let surely = view.find_calls(&distances, 0);
        for (at, surely) in calls.iter_mut().zip(surely) {
            *at = surely.or(*at);
        }
    }
    let calls = calls.into_iter().map(|at| {
        let at = at?;
        let parts = view.content(at.turn).parts;
        Some(parts.get(at.part)?.span.start)
    });
    let mut places: Vec<Option<usize>> = calls.collect();
    for (place, pair) in places.iter_mut().zip(pairs) {
        if matches!(pair.place, InsertionPoint::Aside) {
            *place = asides.get(&pair.id).copied();
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::record::{HiddenResult, WireId};
    use crate::rewrite::notes;
    use crate::wire::wire;

    use crate::rewrite::notes::NoteSearch;

    const LOOK: NoteSearch<'static> = NoteSearch {
        prefix: "::",
        tags: &[],
    };

    fn beside(call: &str, created_ms: u64) -> HiddenPair {
        HiddenPair {
            id: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            wire: WireId::Anthropic,
            tool: "session_handoff".to_owned(),
            call_id: format!("hid_{call}"),
            call: "{}".to_owned(),
            answer: HiddenResult::QUEUED,
            place: InsertionPoint::Beside {
                sibling: call.to_owned(),
                offset: 0,
            },
            pending: Some(("Goal: on.".to_owned(), None)),
            created_ms,
        }
    }

    /// The transcript without notes and undone sentinels.
    fn cleaned(side: &crate::wire::Wire, body: &Bytes) -> notes::CleanedTranscript {
        let reading = RequestReading::new(side, body, Operation::Generate).unwrap();
        notes::take_out(&reading, LOOK, &[]).unwrap()
    }

    /// Machines that share a store have different clocks. The position decides whether a call was queued
    /// before or after an undo.
    #[test]
    fn a_call_is_void_by_its_place_and_not_by_its_time() {
        let id = Uuid::now_v7();
        let call = |id: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "x", "input": {}}]});
        let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": ""}]});
        let message = |who: &str, text: String| json!({"role": who, "content": text});
        let body = json!({"model": "m", "max_tokens": 9, "messages": [
            message("user", "Go.".to_owned()), call("toolu_1"), result("toolu_1"),
            message("assistant", format!("[[handoff-resume:{id}]]\n*Handed over. From here on.*\n\nGoal.\n[[/handoff-resume:AAAAAAAAAAAAAAAAAAAAAA]]")),
            message("user", "::handoff undo".to_owned()),
            message("assistant", format!("baton: the handoff was undone.\n\n[[handoff-note:{id}]]")),
            message("user", "On.".to_owned()), call("toolu_2"), result("toolu_2"),
        ]});
        let (body, side) = (Bytes::from(body.to_string()), wire(WireId::Anthropic));
        let cleaned = cleaned(side, &body);
        let (now, undone) = (&cleaned.reading.view, &cleaned.undone);
        assert!(undone.is_undone(id));
        let mut pairs = [
            beside("toolu_1", u64::MAX),
            beside("toolu_2", 0),
            beside("gone", 0),
        ];
        let found = settle(&body, now, undone, &mut pairs);
        assert_eq!(found, [true, true, false]);
        let waits: Vec<bool> = pairs.iter().map(|pair| pair.pending.is_some()).collect();
        assert_eq!(waits, [false, true, true]);
    }

    /// Calls without ids are identified by the numbers of their messages, and baton's replies do not count.
    /// Equal calls are distinguished as well.
    #[test]
    fn a_call_without_an_id_is_void_by_its_place_too() {
        let id = Uuid::now_v7();
        let message = |who: &str, text: String| json!({"role": who, "parts": [{"text": text}]});
        let user = |text: &str| message("user", text.to_owned());
        let call = || json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]});
        let result =
            || json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]});
        let sentinel = format!(
            "[[handoff-resume:{id}]]\n*Handed over. From here on.*\n\nGoal.\n[[/handoff-resume:AAAAAAAAAAAAAAAAAAAAAA]]"
        );
        let note = format!("baton: the handoff was undone.\n\n[[handoff-note:{id}]]");
        let contents = json!([
            user("Go."),
            call(),
            result(),
            call(),
            result(),
            message("model", sentinel),
            user("::handoff undo"),
            message("model", note),
            user("On."),
            call(),
            result(),
            call(),
            result(),
            call(),
            result(),
        ]);
        let (body, side) = (
            Bytes::from(json!({"contents": contents}).to_string()),
            wire(WireId::Gemini),
        );
        let cleaned = cleaned(side, &body);
        let names = cleaned.reading.call_names();
        assert_eq!(names.len(), 5);
        // A clock that runs ahead dates the first ones before all others.
        let of = |(n, name): (usize, &String)| HiddenPair {
            wire: WireId::Gemini,
            ..beside(name, if n < 2 { u64::MAX } else { 0 })
        };
        let mut pairs: Vec<HiddenPair> = names.iter().enumerate().map(of).collect();
        let found = settle(&body, &cleaned.reading.view, &cleaned.undone, &mut pairs);
        assert_eq!(found, [true; 5]);
        let waits: Vec<bool> = pairs.iter().map(|pair| pair.pending.is_some()).collect();
        assert_eq!(waits, [false, false, true, true, true]);
    }
}
