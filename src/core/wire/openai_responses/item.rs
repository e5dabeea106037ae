//! Items one by one: their kinds, text and ids.

use crate::text::Span;
use crate::wire::parts::ElementMembers;
use crate::wire::view::{TurnPartKind, View};

/// Prefix of a sentinel's item id, before the handoff's id without dashes.
pub(super) const SENTINEL_ITEM: &str = "msg_handoff_";
/// Prefix of an aside's item id, before the aside's id without dashes.
pub(super) const ASIDE_ITEM: &str = "msg_aside_";

/// Prefix of the placeholder's item id, before a part of the response id.
pub(super) const FILLER_ITEM: &str = "msg_note_";
/// Prefix of a synthetic response's item id.
pub(super) const LOCAL_ANSWER_ITEM: &str = "msg_baton_";
/// Prefix of a sibling's name that is an item id. Siblings without it are call ids.
pub(super) const BY_ITEM: &str = "item:";

/// Relevant members of an item, each the inside of its literal.
#[derive(Default)]
pub(super) struct ResponsesItem {
    /// Kind of the item. Messages count as text.
    pub(super) part: TurnPartKind,
    pub(super) id: Option<Span>,
    /// Id of the call that the item makes or answers.
    pub(super) call_id: Option<Span>,
    /// Whether the item is only a reference.
    pub(super) reference: bool,
    /// Whether the item contains encrypted reasoning.
    pub(super) encrypted: bool,
}

impl ResponsesItem {
    /// Parses the item at this turn.
    pub(super) fn from_turn(view: &View, turn: usize) -> Self {
        Self::read(view.text_of(turn), view.turns[turn].span)
    }

    pub(super) fn read(text: &[u8], whole: Span) -> Self {
        Self::of_members(&ElementMembers::read(text, whole, false))
    }

    pub(super) fn of_members(found: &ElementMembers<'_>) -> Self {
        let (call_id, reference) = (found.call_id(), found.is_reference());
        let part = match found.kind() {
            _ if reference => TurnPartKind::Other,
            b"message" => TurnPartKind::Text,
            // Codex states the goal of its session as a result without a call.
            b"function_call_output" if call_id.is_none() => TurnPartKind::Other,
            _ => found.item().kind,
        };
        Self {
            part,
            id: found.literal(b"id"),
            call_id,
            reference,
            encrypted: found.literal(b"encrypted_content").is_some(),
        }
    }
}
