//! What a message of Ollama's is made of.

use super::Ollama;
use crate::text::{Span, json};
use crate::wire::Turns;
use crate::wire::call_fingerprint::Traits;
use crate::wire::view::{Role, TurnContent, TurnPart, TurnPartKind, View};
use std::borrow::Cow;

impl Turns for Ollama {
    /// The content's text, then the calls. A tool's message is one result.
    fn content(&self, view: &View, turn: usize) -> TurnContent {
        let text = view.text_of(turn);
        let Some(turn) = view.turns.get(turn) else {
            return TurnContent::default();
        };
        let mut content = None;
        let mut calls = None;
        let mut id = None;
        for (key, value) in json::members(text, turn.span) {
            let literal = text[value.start] == b'"';
            match key.of(text) {
                b"content" if literal => content = Some(value),
                b"tool_calls" => calls = Some(value),
                b"tool_call_id" if literal => id = Some(value.inner()),
                _ => {}
            }
        }
        let result = turn.role == Role::Tool;
        let part = content.map(|span| match result {
            true => TurnPart::new(span, TurnPartKind::Result).with_id(id),
            false => TurnPart::literal(span),
        });
        // A result and calls are never in one list: edits of parts must not mix them.
        let calls = calls.filter(|_| !result);
        let calls = calls.map_or(Vec::new(), |c| json::elements(text, c));
        let call = |span| TurnPart::new(span, TurnPartKind::Call).with_id(traits(text, span).id);
        TurnContent {
            parts: part.into_iter().chain(calls.into_iter().map(call)).collect(),
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
