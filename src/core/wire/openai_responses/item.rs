//! Items, one by one: what each is, its text, and by which ids it is known.

use crate::text::{Span, json};
use crate::wire::view::{TurnPartKind, View};

/// Item id of a sentinel, up to the handoff's id without dashes.
pub(super) const SENTINEL_ITEM: &str = "msg_handoff_";
/// Item id of an aside, up to the aside's id without dashes.
pub(super) const ASIDE_ITEM: &str = "msg_aside_";

/// Item id of the placeholder where the model had written nothing, up to the response's own part.
pub(super) const FILLER_ITEM: &str = "msg_note_";
/// Item id of an answer of baton's own, up to its own part.
pub(super) const LOCAL_ANSWER_ITEM: &str = "msg_baton_";
/// Names an item as a hidden pair's sibling, up to its id: what else is named so are calls, by the ids of the calls.
pub(super) const BY_ITEM: &str = "item:";

/// The members of an item that matter, each the inside of its literal.
#[derive(Default)]
pub(super) struct ResponsesItem {
    /// What it is, messages being texts.
    pub(super) part: TurnPartKind,
    pub(super) id: Option<Span>,
    /// The id of the call that it is or answers.
    pub(super) call_id: Option<Span>,
    /// Whether it is nothing but a reference.
    pub(super) reference: bool,
    /// Whether it carries encrypted reasoning.
    pub(super) encrypted: bool,
    pub(super) content: Option<Span>,
}

impl ResponsesItem {
    /// The item that is this turn.
    pub(super) fn of(view: &View, turn: usize) -> Self {
        Self::read(view.text_of(turn), view.turns[turn].span)
    }

    pub(super) fn read(text: &[u8], whole: Span) -> Self {
        let mut kind = &b"message"[..];
        let mut item = Self::default();
        let mut approval = None;
        let _ = json::object(text, whole.start, |key, at| {
            let end = json::value_end(text, at)?;
            let value = Span::new(at, end);
            let literal = Some(value.inner()).filter(|_| text[at] == b'"');
            match key.of(text) {
                b"type" => kind = value.inner().of(text),
                b"id" => item.id = literal,
                b"call_id" => item.call_id = literal,
                b"approval_request_id" => approval = literal,
                b"encrypted_content" => item.encrypted = literal.is_some(),
                b"content" => item.content = Some(value),
                _ => {}
            }
            Ok(end)
        });
        item.part = match kind {
            b"message" => TurnPartKind::Text,
            b"reasoning" => TurnPartKind::Thinking,
            b"additional_tools" | b"configuration_update" => TurnPartKind::ToolChange,
            b"compaction" => TurnPartKind::Compaction,
            b"mcp_approval_response" => TurnPartKind::Result,
            b"mcp_approval_request" => TurnPartKind::Call,
            kind if kind.ends_with(b"_call") && item.call_id.is_some() => TurnPartKind::Call,
            // Codex states the goal of its session as a result without a call.
            b"function_call_output" if item.call_id.is_none() => TurnPartKind::Other,
            kind if kind.ends_with(b"_output") => TurnPartKind::Result,
            _ => TurnPartKind::Other,
        };
        match kind {
            b"mcp_approval_request" => item.call_id = item.id,
            b"mcp_approval_response" => item.call_id = approval,
            _ => {
                // The type of a reference may be left out.
                let bare = kind == b"message" && item.content.is_none() && item.id.is_some();
                item.reference = bare || kind == b"item_reference";
            }
        }
        if item.reference {
            item.part = TurnPartKind::Other;
        }
        item
    }
}
