//! Items, one by one: what each is, its text, and by which ids it is known.

use crate::text::Span;
use crate::wire::parts::ElementMembers;
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
}

impl ResponsesItem {
    /// The item that is this turn.
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
