//! Content of Ollama messages.

use crate::wire::parts::ElementMembers;
use crate::wire::view::{Role, Turn, TurnContent, TurnPart, View};

/// Text of the content, then the calls. A tool message is one result.
pub(super) fn content(_view: &View, turn: Turn, text: &[u8]) -> TurnContent {
    let found = ElementMembers::read(text, turn.span, true);
    let literal = found.get(b"content").filter(|value| text[value.start] == b'"');
    if turn.role == Role::Tool {
        let whole = found.result();
        let result = |span| TurnContent::from_part(TurnPart { span, ..whole });
        return literal.map_or_else(TurnContent::default, result);
    }
    let calls = found.calls.into_iter().flatten();
    let calls = calls.map(|call| call.with_id(call.id.filter(|id| !id.is_empty())));
    TurnContent {
        parts: literal.map(TurnPart::literal).into_iter().chain(calls).collect(),
        list: None,
    }
}
