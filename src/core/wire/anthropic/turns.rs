//! Content of Anthropic messages, and signatures in it.

use crate::text::json;
use crate::wire::parts;
use crate::wire::view::{Role, Turn, TurnContent, TurnPart, TurnPartKind, View};

/// Classifies each block by its type.
///
/// A single walk reads down to the members of the blocks, because after a cut it covers all remaining
/// turns.
pub(super) fn content(_view: &View, turn: Turn, text: &[u8]) -> TurnContent {
    parts::content_of(text, turn.span).edited(|part| {
        if matches!(part.kind, TurnPartKind::Text | TurnPartKind::Other) {
            let is_text = part.name.is_some_and(|kind| kind.of(text) == b"text");
            part.kind = if is_text {
                TurnPartKind::Text
            } else {
                TurnPartKind::Other
            };
        }
    })
}

/// Signed thinking in an assistant turn binds its prefix. The byte search comes first, because it is
/// cheap and most histories without thinking do not contain these words.
pub(super) fn bound(view: &View) -> bool {
    let thinks = |turn: usize| {
        let parts = view.content(turn).parts;
        parts.iter().any(|p| p.kind == TurnPartKind::Thinking)
    };
    view.transcript_has(&["\"thinking\"", "\"redacted_thinking\""])
        && (0..view.turns.len()).any(|i| view.turns[i].role == Role::Assistant && thinks(i))
}

pub(super) fn ends_at_next_user(view: &View, turn: usize) -> bool {
    let whole = view.turns[turn].span;
    json::get_string(view.text_of(turn), whole, "clear_at").is_some_and(|at| at == "next_user_message")
}

pub(super) fn compacted_changes(view: &View, part: &TurnPart) -> Option<String> {
    let changes = json::get(&view.body, part.span, "tool_changes")?;
    let some = !json::elements(&view.body, changes).is_empty();
    some.then(|| format!(r#"{{"role":"system","content":{}}}"#, view.str(changes)))
}
