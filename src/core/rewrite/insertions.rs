//! Puts notices into the model's view, after turns of the agent's transcript.

use std::collections::HashSet;

use uuid::Uuid;

use super::elements::Elements;
use super::positions::digests;
use super::{Cut, PlacedInsertion, Rewrite, cut};
use crate::record::{Insertion, InsertionContent, InsertionPoint, Position};
use crate::wire::view::{Role, TurnChange, View};

/// Turn that a notice follows at the end of a transcript; `None` if the model wrote last.
pub fn last(view: &View) -> Option<usize> {
    before(view, view.turns.len())
}

/// Turn that a notice follows within the first `end` turns. System messages after the user stay in place.
fn before(view: &View, end: usize) -> Option<usize> {
    let turns = view.turns.get(..end)?;
    let turn = turns.iter().rposition(|t| t.role.is_spoken())?;
    matches!(turns[turn].role, Role::User | Role::Tool).then_some(turn)
}

/// Finds the insertions with a position in the transcript, and the ids of lost ones.
///
/// An insertion is lost if its position is gone although the transcript is long enough. The transcript is
/// then another one, or was edited.
pub fn find<'a>(
    view: &View,
    insertions: impl IntoIterator<Item = &'a Insertion>,
) -> (Vec<PlacedInsertion>, Vec<Uuid>) {
    let leading = view.leading();
    let after = insertions
        .into_iter()
        .filter_map(|insertion| match &insertion.place {
            // A shorter transcript does not prove that the position is gone.
            InsertionPoint::After(position) if leading + position.turns <= view.turns.len() => {
                Some((position, insertion))
            }
            _ => None,
        });
    let mut all: Vec<(&Position, &Insertion)> = after.collect();
    // `digests` needs ascending counts.
    all.sort_by_key(|(position, insertion)| (position.turns, insertion.id));
    let counts: Vec<usize> = all.iter().map(|(position, _)| position.turns).collect();
    let (mut placed, mut lost) = (Vec::new(), Vec::new());
    let mut taken = HashSet::new();
    for ((position, insertion), digest) in all.iter().zip(digests(view, &counts)) {
        let turn = (digest == position.digest).then(|| before(view, leading + position.turns));
        let Some(turn) = turn.flatten() else {
            lost.push(insertion.id);
            continue;
        };
        // Two joined branches may each have one here. The older one comes first.
        if taken.insert(turn) {
            let InsertionContent::Text(text) = &insertion.content;
            placed.push(PlacedInsertion {
                id: insertion.id,
                turn,
                text: text.clone(),
            });
        }
    }
    (placed, lost)
}

/// Digests of the possible ends of answered requests, except the first response.
///
/// The digests find insertions of the conversation that this one was forked from.
pub fn positions(view: &View) -> Vec<String> {
    let leading = view.leading();
    let Some(first) = view.turns.iter().position(|t| t.role == Role::Assistant) else {
        return Vec::new();
    };
    let ends = |at: &usize| {
        let answered = view.turns.get(*at).is_none_or(|t| t.role == Role::Assistant);
        answered && before(view, *at).is_some()
    };
    // A notice follows a response's usage, so none is before the first response.
    let counts = (first + 1..=view.turns.len()).filter(ends);
    let counts: Vec<usize> = counts.map(|at| at - leading).collect();
    digests(view, &counts)
}

/// Changes that insert the notices after the cut.
pub(super) fn changes(elements: &Elements<'_>, what: &Rewrite<'_>) -> Vec<TurnChange> {
    let agents = &elements.agents.view;
    if what.insertions.is_empty() || matches!(what.cut, Cut::Fresh { .. }) {
        return Vec::new();
    }
    let from = cut::kept_from(agents, what.cut);
    let places = elements.places();
    let kept = |placed: &&PlacedInsertion| {
        let turn = agents.turns.get(placed.turn);
        turn.is_some_and(|turn| turn.span.start >= from)
    };
    let placed = what.insertions.iter().filter(kept);
    let changes = placed.flat_map(|placed| match places[placed.turn] {
        Some(turn) => elements.view.put_text(turn, &placed.text),
        // The result was removed with its call.
        None if agents.turns[placed.turn].role == Role::Tool => {
            let text = agents.wire().user_text(&placed.text);
            let next = places[placed.turn..].iter().find_map(|place| *place);
            vec![match next {
                Some(next) => TurnChange::Before(next, text),
                None => TurnChange::After(elements.view.turns.len() - 1, text),
            }]
        }
        None => Vec::new(),
    });
    changes.collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::record::WireId;
    use crate::rewrite::{RequestReading, positions, rewrite};
    use crate::wire::{Operation, wire};

    fn body(wire: WireId, turns: &[Value]) -> Bytes {
        let key = match wire {
            WireId::OpenaiResponses => "input",
            WireId::Gemini => "contents",
            _ => "messages",
        };
        json!({"model": "m", key: turns}).to_string().into()
    }

    fn reading(id: WireId, turns: &[Value]) -> RequestReading {
        RequestReading::new(wire(id), &body(id, turns), Operation::Generate).unwrap()
    }

    fn insertion(view: &View, text: &str) -> Insertion {
        Insertion {
            id: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            wire: WireId::Anthropic,
            place: InsertionPoint::After(positions::of(view)),
            content: InsertionContent::Text(text.to_owned()),
            created_ms: 1,
        }
    }

    fn sent(id: WireId, turns: &[Value], insertions: &[PlacedInsertion]) -> Value {
        let reading = reading(id, turns);
        let what = Rewrite {
            insertions,
            ..Rewrite::default()
        };
        serde_json::from_slice(&rewrite(&reading, &what).rope.concat()).unwrap()
    }

    /// After a user message, and after tool results: the preceding turns, and the turn with the notice.
    fn ends(id: WireId) -> Vec<(Vec<Value>, Value)> {
        let block = |kind: &str| json!({"type": kind, "text": "N \"1\""});
        let own = json!({"role": "user", "content": "N \"1\""});
        match id {
            WireId::Anthropic => {
                let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "x"});
                vec![
                    (
                        vec![json!({"role": "user", "content": "Hi"})],
                        json!([{"role": "user", "content": [{"type": "text", "text": "Hi"}, block("text")]}]),
                    ),
                    (
                        vec![json!({"role": "user", "content": [result]})],
                        json!([{"role": "user", "content": [result, block("text")]}]),
                    ),
                    (
                        vec![
                            json!({"role": "user", "content": [result]}),
                            json!({"role": "system", "content": "s"}),
                        ],
                        json!([{"role": "user", "content": [result, block("text")]}, {"role": "system", "content": "s"}]),
                    ),
                ]
            }
            WireId::OpenaiChat => vec![
                (
                    vec![json!({"role": "user", "content": "Hi\n"})],
                    json!([{"role": "user", "content": "Hi\n\n\nN \"1\""}]),
                ),
                (
                    vec![json!({"role": "user", "content": [{"type": "text", "text": "Hi"}]})],
                    json!([{"role": "user", "content": [{"type": "text", "text": "Hi"}, block("text")]}]),
                ),
                (
                    vec![json!({"role": "tool", "tool_call_id": "t", "content": "x"})],
                    json!([{"role": "tool", "tool_call_id": "t", "content": "x"}, own]),
                ),
            ],
            WireId::Ollama => vec![
                (
                    vec![json!({"role": "user", "content": "Hi"})],
                    json!([{"role": "user", "content": "Hi\n\nN \"1\""}]),
                ),
                (
                    vec![json!({"role": "tool", "content": "x"})],
                    json!([{"role": "tool", "content": "x"}, own]),
                ),
            ],
            WireId::OpenaiResponses => {
                let own = json!({"type": "message", "role": "user", "content": [block("input_text")]});
                let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
                vec![
                    (
                        vec![json!({"role": "user", "content": "Hi"})],
                        json!([{"role": "user", "content": "Hi"}, own]),
                    ),
                    (vec![output.clone()], json!([output, own])),
                ]
            }
            WireId::Gemini => {
                let text = json!({"text": "N \"1\""});
                let response = json!({"functionResponse": {"name": "f", "response": {}}});
                vec![
                    (
                        vec![json!({"role": "user", "parts": [{"text": "Hi"}]})],
                        json!([{"role": "user", "parts": [{"text": "Hi"}, text]}]),
                    ),
                    (
                        vec![json!({"parts": response})],
                        json!([{"parts": [response, text]}]),
                    ),
                    (
                        vec![json!({"role": "function", "parts": [response]})],
                        json!([{"role": "function", "parts": [response]}, {"role": "user", "parts": [text]}]),
                    ),
                ]
            }
        }
    }

    #[test]
    fn a_text_follows_the_user_or_the_results_also_on_later_requests() {
        for id in WireId::ALL {
            let reply = |text: &str| match id {
                WireId::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
                _ => json!({"role": "assistant", "content": text}),
            };
            for (turns, then) in ends(id) {
                let first = reading(id, &turns);
                let known = insertion(&first.view, "N \"1\"");
                let (placed, lost) = find(&first.view, [&known]);
                assert_eq!((placed.len(), lost.len()), (1, 0), "{id:?} {turns:?}");
                assert_eq!(last(&first.view), Some(placed[0].turn));
                let list = |sent: &Value| {
                    let keys = ["messages", "input", "contents"];
                    keys.iter().find_map(|k| sent.get(k)).unwrap().clone()
                };
                assert_eq!(list(&sent(id, &turns, &placed)), then, "{id:?}");
                // The next request has more turns after it. A third one has another transcript before it.
                let next = [&turns[..], &[reply("Yes.")], &turns].concat();
                let (placed, lost) = find(&reading(id, &next).view, [&known]);
                assert_eq!((placed.len(), lost.len()), (1, 0));
                let mut all = then.as_array().unwrap().clone();
                all.push(reply("Yes."));
                all.extend(turns.clone());
                assert_eq!(list(&sent(id, &next, &placed)), json!(all), "{id:?}");
                let other = [&[reply("No.")][..], &turns].concat();
                assert_eq!(
                    find(&reading(id, &other).view, [&known]),
                    (vec![], vec![known.id])
                );
            }
        }
    }

    /// A single string is the user's message on the Responses wire.
    #[test]
    fn a_lone_string_becomes_a_list() {
        let wire = wire(WireId::OpenaiResponses);
        let body = Bytes::from_static(br#"{"input":"Hi"}"#);
        let reading = RequestReading::new(wire, &body, Operation::Generate).unwrap();
        let (placed, _) = find(&reading.view, [&insertion(&reading.view, "N")]);
        let what = Rewrite {
            insertions: &placed,
            ..Rewrite::default()
        };
        let sent: Value = serde_json::from_slice(&rewrite(&reading, &what).rope.concat()).unwrap();
        let input = sent["input"].as_array().unwrap();
        assert_eq!((input.len(), &input[1]["content"][0]["text"]), (2, &json!("N")));
    }

    #[test]
    fn no_text_follows_the_models_last_turn() {
        let turns = [
            json!({"role": "user", "content": "Hi"}),
            json!({"role": "assistant", "content": "So"}),
        ];
        assert_eq!(last(&reading(WireId::Anthropic, &turns).view), None);
    }

    #[test]
    fn a_copy_finds_where_texts_may_stand_after_the_first_answer() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let reply = |text: &str| json!({"role": "assistant", "content": text});
        let turns = [user("a"), reply("b"), user("c"), user("d"), reply("e"), user("f")];
        let at = |n: usize| positions::of(&reading(WireId::OpenaiChat, &turns[..n]).view).digest;
        let view = reading(WireId::OpenaiChat, &turns).view;
        assert_eq!(super::positions(&view), [at(4), at(6)]);
        assert!(super::positions(&reading(WireId::OpenaiChat, &turns[..1]).view).is_empty());
    }
}
