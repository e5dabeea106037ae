//! Leaves out thinking that upstream refused.

use std::collections::HashMap;

use uuid::Uuid;

use super::positions::digests;
use super::{Cut, RequestReading, Rewrite, cut};
use crate::record::{HiddenPair, Position};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{self, TurnPart, TurnPartKind, View};
use crate::wire::{EMPTY_TURN, Wire};

/// The turn up to which these omissions leave thinking out; `None` where none of them has its place in the transcript.
pub fn omitted_until(view: &View, omissions: &[Position]) -> Option<usize> {
    let leading = view.leading();
    let mut maybe: Vec<&Position> = omissions.iter().collect();
    maybe.retain(|position| leading + position.turns <= view.turns.len());
    maybe.sort_by_key(|position| position.turns);
    let counts: Vec<usize> = maybe.iter().map(|position| position.turns).collect();
    let digests = digests(view, &counts);
    let found = maybe
        .iter()
        .zip(digests)
        .rfind(|(position, digest)| position.digest == *digest);
    found.map(|(position, _)| leading + position.turns)
}

/// The edits that leave out the thinking between a cut, which `cut` makes, and the turn that the rewrite names.
pub(super) fn edits(wire: &dyn Wire, view: &View, what: &Rewrite<'_>, cut: &[Edit]) -> Vec<Edit> {
    let Some(until) = what.omitted else {
        return Vec::new();
    };
    let from = match what.cut {
        Cut::At { .. } | Cut::BeforeTurn { .. } => cut.first().map_or(0, |edit| edit.span.end),
        Cut::Before { .. } | Cut::None => 0,
        // Nothing of the transcript is sent as turns.
        Cut::Text { .. } | Cut::Fresh { .. } => return Vec::new(),
    };
    let turns = view.turns.iter().enumerate().take(until);
    turns
        .filter(|(turn, kept)| kept.span.end > from && wire.is_models(view, *turn))
        .flat_map(|(turn, _)| in_turn(wire, view, turn, from))
        .collect()
}

/// The edits in one turn, of which the bytes before `from` are cut.
fn in_turn(wire: &dyn Wire, view: &View, turn: usize, from: usize) -> Vec<Edit> {
    let content = wire.content(view, turn);
    let parts: Vec<_> = content.parts.iter().filter(|part| part.span.end > from).collect();
    let mut edits: Vec<Edit> = parts
        .iter()
        .flat_map(|part| wire.omit(view, turn, part))
        .collect();
    let spans: Vec<Span> = parts.iter().map(|part| part.span).collect();
    let is_thinking = |part: &&TurnPart| part.kind == TurnPartKind::Thinking;
    let lost: Vec<bool> = parts.iter().map(is_thinking).collect();
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return edits;
    };
    if !lost.contains(&true) {
        return edits;
    }
    let is_opened_by_cut = view.turns[turn].span.start < from;
    let only = Span::new(first.start, last.end);
    match (view::kept(&spans, &lost), view.turns.get(turn + 1)) {
        (Some(kept), _) => edits.extend(kept),
        (None, _) if is_opened_by_cut => {
            edits.extend(wire.own_part(EMPTY_TURN).map(|part| Edit::replace(only, part)));
        }
        (None, Some(next)) => {
            let whole = Span::new(view.turns[turn].span.start, next.span.start);
            edits = vec![Edit::delete(whole)];
        }
        (None, None) => {}
    }
    edits
}

/// The pairs, those in front of the turn that the rewrite names without what binds their calls to thinking; `None`: as
/// they are.
pub(super) fn settled_pairs(
    wire: &dyn Wire,
    reading: &RequestReading,
    what: &Rewrite<'_>,
) -> Option<Vec<HiddenPair>> {
    let until = what.omitted.filter(|_| !what.pairs.is_empty())?;
    let view = &reading.view;
    let siblings: Vec<&str> = what.pairs.iter().map(|pair| pair.place.sibling()).collect();
    let found = wire.find_calls(view, &siblings, cut::kept_from(view, what.cut));
    let asides = reading
        .aside_places()
        .filter_map(|(id, at)| Some((id, view.turn_at(at)?)));
    let asides: HashMap<Uuid, usize> = asides.collect();
    let mut pairs = what.pairs.to_vec();
    for (pair, found) in pairs.iter_mut().zip(found) {
        let turn = found.map(|at| at.turn).or_else(|| asides.get(&pair.id).copied());
        if turn.is_some_and(|turn| turn < until)
            && let Some(call) = wire.unbound_call(&pair.call)
        {
            pair.call = call;
        }
    }
    Some(pairs)
}

/// Moves insertions out of what is left out, since a splice drops an edit inside another one. `omitted` is in order.
pub(super) fn keep_insertions(view: &View, inserted: &mut [Edit], omitted: &[Edit]) {
    for edit in inserted.iter_mut().filter(|edit| edit.span.is_empty()) {
        let at = edit.span.start;
        let before = omitted.partition_point(|omitted| omitted.span.start < at);
        let around = omitted[..before].last().filter(|omitted| omitted.span.end > at);
        let Some(around) = around.map(|omitted| omitted.span) else {
            continue;
        };
        let text = String::from_utf8_lossy(&edit.with).into_owned();
        let element = text.trim_matches(',');
        // An omission takes the comma before it or the one after it.
        let takes_comma_before = view.body.get(json::blank(&view.body, around.start)) == Some(&b',');
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

    use super::*;
    use crate::record::{HiddenResult, InsertionPlace, WireId};
    use crate::rewrite::{ChangeReason, SizeChange, positions, rewrite};
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

    /// The model's view of a transcript of Anthropic's, cut at its sentinel, without the thinking of its first `until`
    /// turns.
    fn sent(turns: &Value, until: usize, pairs: &[HiddenPair]) -> (Vec<Value>, Vec<SizeChange>) {
        let wire = wire(WireId::Anthropic);
        let reading = reading(WireId::Anthropic, "messages", turns);
        let candidates = reading.candidates(wire);
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
        let rewritten = rewrite(wire, &reading, &what);
        let body: Value = serde_json::from_slice(&rewritten.rope.concat()).unwrap();
        (body["messages"].as_array().unwrap().clone(), rewritten.changes)
    }

    /// A message in which a handoff happened, with these blocks after its sentinel.
    fn handed_over(blocks: &[Value]) -> Value {
        let seal = crate::mark::seal::SealKey::new(b"k").seal("local", Uuid::from_u128(7), "P");
        let sentinel = crate::mark::sentinel::full(Uuid::from_u128(7), None, "P", &seal);
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

    /// What is left of the sentinel's own message is never empty.
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

    /// A hidden call next to a removed block keeps its place.
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
            place: InsertionPlace::Beside {
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

    /// A reasoning item is removed whole; the item after it loses its id, since the API requires both together.
    #[test]
    fn reasoning_items_go_with_the_ids_of_what_follows() {
        let wire = wire(WireId::OpenaiResponses);
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
        let sent: Value = serde_json::from_slice(&rewrite(wire, &reading, &what).rope.concat()).unwrap();
        let bare = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
        assert_eq!(
            sent["input"],
            json!([user("P"), bare, output, later, user("Go on.")])
        );
    }

    /// At calls a placeholder replaces the signature; elsewhere it is removed.
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
        let sent: Value = serde_json::from_slice(&rewrite(wire, &reading, &what).rope.concat()).unwrap();
        let word = "skip_thought_signature_validator";
        let parts = json!([text, signed(function.clone(), word)]);
        assert_eq!(
            sent["contents"],
            json!([user_text("P"), {"role": "model", "parts": parts}, response])
        );
        let stored = signed(function.clone(), "b").to_string();
        assert_eq!(
            wire.unbound_call(&stored),
            Some(signed(function, word).to_string())
        );
    }
}
