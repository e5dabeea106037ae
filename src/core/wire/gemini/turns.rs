//! Content of Gemini turns, and signatures in it.

use super::part::{self, LOST_SIGNATURE, PartMembers};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{self, Role, Turn, TurnContent, TurnPart, TurnPartKind, View};

pub(super) fn content(view: &View, turn: Turn, text: &[u8]) -> TurnContent {
    let Some(parts) = json::get(text, turn.span, "parts") else {
        return TurnContent::default();
    };
    let mut all: Vec<_> = part::pieces(text, parts).into_iter().map(|p| p.part).collect();
    // A single object in place of the contents cannot be cut. An element parsed on its own, without a
    // request, is its whole body and is not affected.
    if view.list == turn.span && turn.span.end != view.body.len() {
        for part in &mut all {
            part.text = None;
        }
    }
    TurnContent {
        parts: all,
        list: (text[parts.start] == b'[').then_some(parts),
    }
}

/// Signatures are checked only in the current turn, which begins after the user's last content other than
/// function responses.
pub(super) fn bound(view: &View) -> bool {
    view.transcript_has(&["\"thoughtSignature\"", "\"thought_signature\""])
        && (current(view)..view.turns.len())
            .any(|t| view.content(t).parts.iter().any(|p| p.signature.is_some()))
}

/// The signature is bound to the prefix, but not the call or text that carries it.
pub(super) fn unbind(view: &View, turn: usize, part: &TurnPart) -> Vec<Edit> {
    let text = view.text_of(turn);
    let keys = ["thoughtSignature", "thought_signature"];
    let without = |key| view::without_member(text, part.span, key);
    keys.into_iter().filter_map(without).collect()
}

pub(super) fn unbound_call(call: &str) -> Option<String> {
    let text = call.as_bytes();
    // The first call of a step must be signed, and the agent's call after this one is not.
    let inside = part::piece(text, Span::new(0, text.len())).part.signature?;
    Some([&call[..inside.start], LOST_SIGNATURE, &call[inside.end..]].concat())
}

/// A call of the current turn needs a signature. Google documents a placeholder for a missing one.
pub(super) fn omit(view: &View, turn: usize, part: &TurnPart) -> Vec<Edit> {
    match part.signature.filter(|_| part.kind == TurnPartKind::Call) {
        Some(inside) => vec![Edit::replace(inside, LOST_SIGNATURE)],
        None => unbind(view, turn, part),
    }
}

/// Parts of a turn with the members that only this wire has.
pub(super) fn pieces(view: &View, turn: usize) -> Vec<PartMembers> {
    let text = view.text_of(turn);
    let turn = view.turns.get(turn);
    let parts = turn.and_then(|t| json::get(text, t.span, "parts"));
    parts.map_or(Vec::new(), |p| part::pieces(text, p))
}

/// First turn after the user's last content other than function responses.
pub(super) fn current(view: &View) -> usize {
    let has_text = |t: &usize| {
        let is_text = |p: &TurnPart| p.kind != TurnPartKind::Result;
        view.turns[*t].role == Role::User && view.content(*t).parts.iter().any(is_text)
    };
    (0..view.turns.len()).rev().find(has_text).map_or(0, |t| t + 1)
}
