//! What a message of Ollama's is made of.

use super::Ollama;
use crate::text::{Span, json};
use crate::wire::Turns;
use crate::wire::call_fingerprint::Traits;
use crate::wire::parts::ElementMembers;
use crate::wire::view::{Role, TurnContent, TurnPart, View};
use std::borrow::Cow;

impl Turns for Ollama {
    /// The content's text, then the calls. A tool's message is one result.
    fn content(&self, view: &View, turn: usize) -> TurnContent {
        let text = view.text_of(turn);
        let Some(turn) = view.turns.get(turn) else {
            return TurnContent::default();
        };
        let is_result = turn.role == Role::Tool;
        let found = ElementMembers::read(text, turn.span, true);
        let literal = found.content.filter(|value| text[value.start] == b'"');
        if is_result {
            let result = |span| {
                TurnContent::of(TurnPart {
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

    /// Thinking is plain text here.
    fn bound(&self, _view: &View) -> bool {
        false
    }
}

/// What a call is identified by.
pub(super) fn traits(text: &[u8], call: Span) -> Traits {
    let function = |key: &str| json::at_path(text, call, &["function", key]);
    Traits {
        name: function("name"),
        arguments: function("arguments"),
        id: json::get_inner(text, call, "id").filter(|id| !id.is_empty()),
        signature: None,
    }
}

/// The name of a call's tool.
pub(super) fn name(text: &[u8], call: Span) -> Option<Cow<'_, str>> {
    traits(text, call).name.and_then(|n| json::string(text, n))
}
