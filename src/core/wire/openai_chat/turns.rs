//! What a message of a chat transcript is made of, and what in it is signed.

use super::OpenaiChat;
use crate::wire::Turns;

use crate::text::{Span, json};
use crate::wire::view::{Role, TurnContent, TurnPart, TurnPartKind, View};

/// Members of an assistant message that a provider has signed or encrypted, and so may have bound to a prefix.
const SIGNED: [&str; 4] = [
    "signature",
    "thought_signature",
    "encrypted_content",
    "redacted_data",
];

/// How deep signed members are looked for: the known ones are at four, and depth must be bounded.
const SIGNED_DEPTH: u32 = 8;

/// What a transcript with such a member has somewhere.
const HINTS: [&str; 4] = [
    "signature\"",
    "reasoning.encrypted",
    "encrypted_content\"",
    "_data\"",
];

impl Turns for OpenaiChat {
    /// The parts of a message: its content, then whatever is next to it (refusal, audio), then its calls, in
    /// whatever order its members are.
    fn content(&self, view: &View, turn: usize) -> TurnContent {
        let text = view.text_of(turn);
        let Some(turn) = view.turns.get(turn) else {
            return TurnContent::default();
        };
        if turn.role == Role::Tool {
            let part = TurnPart::new(turn.span, TurnPartKind::Result);
            return TurnContent::of(part.with_id(json::get_inner(text, turn.span, "tool_call_id")));
        }
        let mut found = TurnContent::default();
        let (mut others, mut calls) = (Vec::new(), Vec::new());
        for (key, value) in json::members(text, turn.span) {
            let there = !matches!(value.of(text), b"null" | b"\"\"" | b"[]");
            match key.of(text) {
                b"content" => content(text, value, &mut found),
                b"tool_calls" => {
                    calls = json::elements(text, value)
                        .iter()
                        .map(|s| call(text, *s))
                        .collect()
                }
                b"function_call" if there => calls.push(TurnPart::new(value, TurnPartKind::Call)),
                b"refusal" | b"audio" if there => others.push(TurnPart::new(value, TurnPartKind::Other)),
                _ => {}
            }
        }
        found.parts.extend(others);
        found.parts.extend(calls);
        found
    }

    /// Plain chat histories are bound to nothing. Some servers hand out signed or encrypted reasoning
    /// (OpenRouter's `reasoning_details`, Gemini's `extra_content`, LiteLLM's `thinking_blocks`).
    fn bound(&self, view: &View) -> bool {
        let mut model_turns = view.turns.iter().filter(|t| t.role == Role::Assistant);
        view.transcript_has(&HINTS) && model_turns.any(|t| signed(&view.body, t.span, SIGNED_DEPTH))
    }
}

fn content(text: &[u8], value: Span, found: &mut TurnContent) {
    match text.get(value.start) {
        Some(b'"') => *found = TurnContent::of(TurnPart::literal(value)),
        Some(b'[') => {
            found.list = Some(value);
            let all = json::elements(text, value);
            found.parts = all.into_iter().map(|span| block(text, span)).collect();
        }
        _ => {}
    }
}

fn block(text: &[u8], span: Span) -> TurnPart {
    let is_text = json::get(text, span, "type").is_some_and(|t| t.of(text) == b"\"text\"");
    match json::get_inner(text, span, "text").filter(|_| is_text) {
        Some(inside) => TurnPart::of_text(span, inside),
        None => TurnPart::new(span, TurnPartKind::Other),
    }
}

fn call(text: &[u8], span: Span) -> TurnPart {
    TurnPart::new(span, TurnPartKind::Call).with_id(json::get_inner(text, span, "id"))
}

fn signed(text: &[u8], span: Span, depth: u32) -> bool {
    if depth == 0 {
        return false;
    }
    match text.get(span.start) {
        Some(b'[') => json::elements(text, span)
            .into_iter()
            .any(|s| signed(text, s, depth - 1)),
        Some(b'{') => json::members(text, span).into_iter().any(|(key, value)| {
            let key = key.of(text);
            let named = SIGNED.iter().any(|s| s.as_bytes() == key);
            let literal = value.of(text);
            named && literal.len() > 2 && literal[0] == b'"'
                || key == b"type" && literal == b"\"reasoning.encrypted\""
                || signed(text, value, depth - 1)
        }),
        _ => false,
    }
}
