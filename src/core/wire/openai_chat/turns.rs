//! What a message of a chat transcript is made of, and what in it is signed.

use super::OpenaiChat;
use crate::wire::Turns;
use crate::wire::parts::ElementMembers;

use crate::text::{Span, json};
use crate::wire::view::{Role, Turn, TurnContent, TurnPart, TurnPartKind, View};

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
    fn content(&self, _view: &View, turn: Turn, text: &[u8]) -> TurnContent {
        let found = ElementMembers::read(text, turn.span, turn.role != Role::Tool);
        if turn.role == Role::Tool {
            let span = turn.span;
            return TurnContent::from_part(TurnPart {
                span,
                ..found.result()
            });
        }
        let is_text = |part: &TurnPart| {
            part.kind == TurnPartKind::Text && part.name.is_some_and(|kind| kind.of(text) == b"text")
        };
        found.edited(|part| {
            if !is_text(part) {
                *part = TurnPart::new(part.span, TurnPartKind::Other);
            }
        })
    }

    /// Plain chat histories are bound to nothing. Some servers hand out signed or encrypted reasoning
    /// (OpenRouter's `reasoning_details`, Gemini's `extra_content`, LiteLLM's `thinking_blocks`).
    fn bound(&self, view: &View) -> bool {
        let mut model_turns = view.turns.iter().filter(|t| t.role == Role::Assistant);
        view.transcript_has(&HINTS) && model_turns.any(|t| signed(&view.body, t.span, SIGNED_DEPTH))
    }
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
