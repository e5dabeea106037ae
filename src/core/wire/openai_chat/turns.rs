//! Content of chat messages, and signatures in it.

use crate::wire::parts::ElementMembers;

use crate::text::{Span, json};
use crate::wire::view::{Role, Turn, TurnContent, TurnPart, TurnPartKind, View};

/// Members of an assistant message that a provider signs or encrypts, and may therefore bind to a prefix.
const SIGNED: [&str; 4] = [
    "signature",
    "thought_signature",
    "encrypted_content",
    "redacted_data",
];

/// Maximum depth of the search for signed members. Known ones are at depth four; the limit bounds the
/// recursion.
const SIGNED_DEPTH: u32 = 8;

/// Every transcript with such a member contains at least one of these strings.
const HINTS: [&str; 4] = [
    "signature\"",
    "reasoning.encrypted",
    "encrypted_content\"",
    "_data\"",
];

/// Parts of a message: content, then refusal and audio, then calls, independent of the order of its
/// members.
pub(super) fn content(_view: &View, turn: Turn, text: &[u8]) -> TurnContent {
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

/// Plain chat histories are not bound to anything. Some servers return signed or encrypted reasoning:
/// OpenRouter's `reasoning_details`, Gemini's `extra_content`, LiteLLM's `thinking_blocks`.
pub(super) fn bound(view: &View) -> bool {
    let mut model_turns = view.turns.iter().filter(|t| t.role == Role::Assistant);
    view.transcript_has(&HINTS) && model_turns.any(|t| signed(&view.body, t.span, SIGNED_DEPTH))
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
