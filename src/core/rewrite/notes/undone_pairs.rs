//! Effects of an undo on hidden pairs, which reappear in the model's view or change their prefix.

use std::collections::HashMap;

use bytes::Bytes;

use super::undone::UndoneHandoffs;
use crate::record::{HiddenPair, InsertionPoint};
use crate::rewrite::RequestReading;
use crate::wire::Operation;
use crate::wire::view::View;

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
