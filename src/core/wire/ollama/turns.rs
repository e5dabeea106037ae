//! Content of Ollama messages.

use crate::wire::parts::ElementMembers;
use crate::wire::view::{Role, Turn, TurnContent, TurnPart, View};

/// Text of the content, then the calls. A tool message is one result.
pub(super) fn content(_view: &View, turn: Turn, text: &[u8]) -> TurnContent {
    let is_result = turn.role == Role::Tool;
    let found = ElementMembers::read(text, turn.span, true);
    let literal = found.get(b"content").filter(|value| text[value.start] == b'"');
    if is_result {
        let result = |span| {
            TurnContent::from_part(TurnPart {
                span,
                ..found.result()
            })
        };
        return literal.map_or_else(TurnContent::default, result);
    }
    let calls = found.calls.into_iter().flatten();
    let calls = calls.map(|call| call.with_id(call.id.filter(|id| !id.is_empty())));
    TurnContent {
        parts: literal.map(TurnPart::literal).into_iter().chain(calls).collect(),
        list: None,
    }
}

/// Thinking is plain text here, so nothing is bound to a prefix.
pub(super) fn bound(_view: &View) -> bool {
    false
}
