//! Leaves out thinking that upstream refused.

use super::elements::Elements;
use super::positions::digests;
use super::{Cut, Rewrite};
use crate::record::Position;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::EMPTY_TURN;
use crate::wire::view::{self, TurnChange, TurnPart, TurnPartKind, View};

/// End of the turns whose thinking these omissions leave out; `None` if none of them has a position in the
/// transcript.
pub fn omitted_until(view: &View, omissions: &[Position]) -> Option<usize> {
    let leading = view.leading();
    let mut maybe: Vec<&Position> = omissions.iter().collect();
    maybe.retain(|position| leading + position.turns <= view.turns.len());
    maybe.sort_by_key(|position| position.turns);
    let counts: Vec<usize> = maybe.iter().map(|position| position.turns).collect();
    let digests = digests(view, &counts);
    let mut maybe = maybe.iter().zip(digests);
    let found = maybe.rfind(|(position, digest)| position.digest == *digest);
    found.map(|(position, _)| leading + position.turns)
}

/// Changes that leave out the thinking up to the rewrite's turn.
pub(super) fn changes(elements: &Elements<'_>, what: &Rewrite<'_>) -> Vec<TurnChange> {
    let Some(until) = what.omitted else {
        return Vec::new();
    };
    let view = &elements.view;
    let opened = match what.cut {
        Cut::At { candidate, .. } => Some(candidate.turn),
        _ => None,
    };
    let origins = elements.origins();
    let turns = origins.filter(|(turn, origin)| *origin < until && view.is_models(*turn));
    let changes = turns.map(|(turn, origin)| in_turn(view, turn, opened == Some(origin)));
    changes.flatten().collect()
}

/// Changes in one turn, which the cut may have opened.
fn in_turn(view: &View, turn: usize, is_opened_by_cut: bool) -> Vec<TurnChange> {
    let parts = view.content(turn).parts;
    let omit = |part| (view.turn_rules().omit)(view, turn, part);
    let mut edits: Vec<Edit> = parts.iter().flat_map(omit).collect();
    let spans: Vec<Span> = parts.iter().map(|part| part.span).collect();
    let is_thinking = |part: &TurnPart| part.kind == TurnPartKind::Thinking;
    let lost: Vec<bool> = parts.iter().map(is_thinking).collect();
    if lost.contains(&true) {
        let only = Span::new(spans[0].start, spans[spans.len() - 1].end);
        match view::kept(&spans, &lost) {
            Some(kept) => edits.extend(kept),
            // The rest of the sentinel's turn is nothing but thinking. The turn must stay, because the cut edits it.
            None if is_opened_by_cut => {
                edits.extend((view.turn_rules().own_part)(EMPTY_TURN).map(|part| Edit::replace(only, part)));
            }
            None if turn + 1 < view.turns.len() => return vec![TurnChange::LeftOut(turn)],
            None => {}
        }
    }
    TurnChange::within(turn, edits)
}

/// Moves insertions out of omitted spans in the same turn, because a splice drops an edit inside another one.
pub(super) fn keep_insertions(view: &View, inserted: &mut [TurnChange], omitted: &[TurnChange]) {
    for change in inserted {
        let TurnChange::Within(turn, edit) = change else {
            continue;
        };
        let at = edit.span.start;
        let first = omitted.partition_point(|omitted| omitted.turn() < *turn);
        let from = omitted[first..].iter();
        let of_turn = from.take_while(|omitted| omitted.turn() == *turn);
        let around = of_turn.filter_map(|omitted| match omitted {
            TurnChange::Within(_, omitted) => {
                Some(omitted.span).filter(|span| span.start < at && at < span.end)
            }
            _ => None,
        });
        let Some(around) = around.last().filter(|_| edit.span.is_empty()) else {
            continue;
        };
        let text = String::from_utf8_lossy(&edit.with).into_owned();
        let element = text.trim_matches(',');
        // An omission includes the comma before it or the one after it.
        let body = view.text_of(*turn);
        let takes_comma_before = body.get(json::blank(body, around.start)) == Some(&b',');
        *edit = match takes_comma_before {
            true => Edit::insert(around.start, format!(",{element}")),
            false => Edit::insert(around.end, format!("{element},")),
        };
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::record::{HiddenPair, HiddenResult, InsertionPoint, WireId};
    use crate::rewrite::{ChangeReason, RequestReading, SizeChange, positions, rewrite};
    use crate::wire::{Operation, wire};

    const HEAD: &str = r#"{"role":"user","content":"P"}"#;

    fn reading(id: WireId, key: &str, turns: &Value) -> RequestReading {
        let body = json!({"model": "m", key: turns}).to_string();
        RequestReading::new(wire(id), &Bytes::from(body), Operation::Generate).unwrap()
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn model(blocks: Value) -> Value {
        json!({"role": "assistant", "content": blocks})
    }

    fn thought(text: &str) -> Value {
        json!({"type": "thinking", "thinking": text, "signature": text})
    }

    fn say(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]})
    }

    /// The model's view of an Anthropic transcript that is cut at its sentinel, without the thinking of its
    /// first `until` turns.
    fn sent(turns: &Value, until: usize, pairs: &[HiddenPair]) -> (Vec<Value>, Vec<SizeChange>) {
        let reading = reading(WireId::Anthropic, "messages", turns);
        let candidates = reading.candidates();
        let what = Rewrite {
            cut: Cut::At {
                candidate: &candidates[0],
                prompt: None,
                head: HEAD,
            },
            omitted: Some(until),
            pairs,
            ..Rewrite::default()
        };
        let rewritten = rewrite(&reading, &what);
        let body: Value = serde_json::from_slice(&rewritten.rope.concat()).unwrap();
        (body["messages"].as_array().unwrap().clone(), rewritten.changes)
    }

    /// A message with a handoff, and these blocks after its sentinel.
    fn handed_over(blocks: &[Value]) -> Value {
        let seal = crate::marker::seal::SealKey::new(b"k").seal("local", Uuid::from_u128(7), "P");
        let sentinel = crate::marker::sentinel::full(Uuid::from_u128(7), None, "P", &seal);
        let blocks = [&[thought("before"), say(&sentinel)][..], blocks].concat();
        model(json!(blocks))
    }

    #[test]
    fn thinking_goes_up_to_the_turn_and_messages_of_nothing_else_go_whole() {
        let redacted = json!({"type": "redacted_thinking", "data": "r"});
        let turns = json!([
            user("Hi"),
            handed_over(&[thought("a"), redacted, say("Fresh.")]),
            user("Go on."),
            model(json!([thought("b"), call("c1"), thought("c")])),
            result("c1"),
            model(json!([thought("d")])),
            user("Well?"),
            model(json!([thought("e"), say("Later.")])),
            user("Now?"),
        ]);
        let (view, changes) = sent(&turns, 7, &[]);
        let expected = json!([
            user("P"),
            model(json!([say("Fresh.")])),
            user("Go on."),
            model(json!([call("c1")])),
            result("c1"),
            user("Well?"),
            model(json!([thought("e"), say("Later.")])),
            user("Now?"),
        ]);
        assert_eq!(json!(view), expected);
        assert!(
            changes
                .iter()
                .any(|change| change.why == ChangeReason::Thinking && change.added == 0)
        );
    }

    /// The rest of the sentinel's own message is never empty.
    #[test]
    fn a_message_that_the_cut_opens_keeps_a_part() {
        let turns = json!([
            user("Hi"),
            handed_over(&[thought("a"), thought("b")]),
            user("Go on.")
        ]);
        let (view, _) = sent(&turns, 3, &[]);
        assert_eq!(view[1], model(json!([say(EMPTY_TURN)])));
    }

    /// A hidden call next to a removed block keeps its position.
    #[test]
    fn hidden_calls_beside_thinking_stay() {
        let hidden = json!({"type": "tool_use", "id": "h", "name": "session_handoff", "input": {}});
        let pair = |sibling: &str, offset: i32| HiddenPair {
            id: Uuid::from_u128(9),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            wire: WireId::Anthropic,
            tool: "session_handoff".to_owned(),
            call_id: "h".to_owned(),
            call: hidden.to_string(),
            answer: HiddenResult::QUEUED,
            place: InsertionPoint::Beside {
                sibling: sibling.to_owned(),
                offset,
            },
            pending: None,
            created_ms: 1,
        };
        let blocks = [say("t"), thought("a"), call("c1"), thought("b")];
        let turns = json!([
            user("Hi"),
            handed_over(&[say("Fresh.")]),
            user("Go on."),
            model(json!(blocks)),
            result("c1")
        ]);
        let (before, after) = (
            json!([say("t"), hidden, call("c1")]),
            json!([say("t"), call("c1"), hidden]),
        );
        for (offset, expected) in [(-1, &before), (-2, &before), (0, &after), (1, &after)] {
            let (view, _) = sent(&turns, 5, &[pair("c1", offset)]);
            assert_eq!(view[3]["content"], *expected, "{offset}");
        }
    }

    #[test]
    fn the_last_omission_that_has_its_place_counts() {
        let turns = |n: usize| -> Value { (0..n).map(|n| user(&n.to_string())).collect() };
        let at = |n: usize| positions::of(&reading(WireId::Anthropic, "messages", &turns(n)).view);
        let now = reading(WireId::Anthropic, "messages", &turns(4));
        let other = positions::of(
            &reading(
                WireId::Anthropic,
                "messages",
                &json!([user("x"), user("y"), user("z")]),
            )
            .view,
        );
        assert_eq!(omitted_until(&now.view, &[at(2), at(1), other.clone()]), Some(2));
        assert_eq!(omitted_until(&now.view, &[other, at(5)]), None);
    }

    /// A reasoning item is removed whole. The item after it loses its id, because the API requires both
    /// together.
    #[test]
    fn reasoning_items_go_with_the_ids_of_what_follows() {
        let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
        let function =
            json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"});
        let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
        let later = json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "f"});
        let items = json!([user("Hi"), reasoning, function, output, later, user("Go on.")]);
        let reading = reading(WireId::OpenaiResponses, "input", &items);
        let what = Rewrite {
            cut: Cut::BeforeTurn { turn: 1, head: HEAD },
            omitted: Some(4),
            ..Rewrite::default()
        };
        let sent: Value = serde_json::from_slice(&rewrite(&reading, &what).rope.concat()).unwrap();
        let bare = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
        assert_eq!(
            sent["input"],
            json!([user("P"), bare, output, later, user("Go on.")])
        );
    }

    /// A placeholder replaces the signature of a call; other signatures are removed.
    #[test]
    fn signatures_are_stood_in_for() {
        let wire = wire(WireId::Gemini);
        let user_text = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
        let signed = |part: Value, signature: &str| {
            let mut part = part;
            part["thoughtSignature"] = json!(signature);
            part
        };
        let text = json!({"text": "t"});
        let function = json!({"functionCall": {"name": "f", "args": {}}});
        let thought = json!({"text": "hm", "thought": true});
        let parts = json!([thought, signed(text.clone(), "a"), signed(function.clone(), "b")]);
        let response =
            json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]});
        let contents = json!([user_text("Hi"), {"role": "model", "parts": parts}, response]);
        let reading = reading(WireId::Gemini, "contents", &contents);
        let what = Rewrite {
            cut: Cut::BeforeTurn {
                turn: 1,
                head: r#"{"role":"user","parts":[{"text":"P"}]}"#,
            },
            omitted: Some(3),
            ..Rewrite::default()
        };
        let sent: Value = serde_json::from_slice(&rewrite(&reading, &what).rope.concat()).unwrap();
        let word = "skip_thought_signature_validator";
        let parts = json!([text, signed(function.clone(), word)]);
        assert_eq!(
            sent["contents"],
            json!([user_text("P"), {"role": "model", "parts": parts}, response])
        );
        let stored = signed(function.clone(), "b").to_string();
        assert_eq!(
            (wire.turns.unbound_call)(&stored),
            Some(signed(function, word).to_string())
        );
    }
}
