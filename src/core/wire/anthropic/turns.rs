//! What a message of Anthropic's is made of, and what in it is signed.

use super::Anthropic;
use crate::text::json::InvalidJson;
use crate::text::{Span, json};
use crate::wire::view::{Role, TurnContent, TurnPart, TurnPartKind, View};
use crate::wire::{Turns, own_text};

impl Turns for Anthropic {
    /// One walk, down to the members of each block: after a cut it is made over everything that is kept.
    fn content(&self, view: &View, turn: usize) -> TurnContent {
        let text = view.text_of(turn);
        let mut found = TurnContent::default();
        let Some(turn) = view.turns.get(turn) else {
            return found;
        };
        let walked = json::object(text, turn.span.start, |key, at| {
            if key.of(text) != b"content" {
                return json::value_end(text, at);
            }
            let (content, end) = content(text, at)?;
            found = content;
            Ok(end)
        });
        walked.map_or_else(|_| TurnContent::default(), |_| found)
    }

    fn ends_at_next_user(&self, view: &View, turn: usize) -> bool {
        let whole = view.turns[turn].span;
        json::get_string(view.text_of(turn), whole, "clear_at").is_some_and(|at| at == "next_user_message")
    }

    fn compacted_changes(&self, view: &View, part: &TurnPart) -> Option<String> {
        let changes = json::get(&view.body, part.span, "tool_changes")?;
        let some = !json::elements(&view.body, changes).is_empty();
        some.then(|| format!(r#"{{"role":"system","content":{}}}"#, view.str(changes)))
    }

    fn own_part(&self, text: &str) -> Option<String> {
        Some(own_text::block(text))
    }

    /// Signed thinking in an assistant turn binds its prefix. The search for the words comes first: it is cheap,
    /// and most histories without thinking hold neither.
    fn bound(&self, view: &View) -> bool {
        let thinks = |turn: usize| {
            let parts = self.content(view, turn).parts;
            parts.iter().any(|p| p.kind == TurnPartKind::Thinking)
        };
        view.transcript_has(&["\"thinking\"", "\"redacted_thinking\""])
            && (0..view.turns.len()).any(|i| view.turns[i].role == Role::Assistant && thinks(i))
    }
}

/// What a message's content at `at` is made of, and where it ends.
fn content(text: &[u8], at: usize) -> Result<(TurnContent, usize), InvalidJson> {
    let mut parts = Vec::new();
    if text.get(at) != Some(&b'[') {
        let end = json::value_end(text, at)?;
        let span = Span::new(at, end);
        parts.extend((text[at] == b'"').then(|| TurnPart::literal(span)));
        return Ok((TurnContent { parts, list: None }, end));
    }
    let end = json::array(text, at, |at| {
        let part = part(text, at)?;
        let end = part.span.end;
        parts.push(part);
        Ok(end)
    })?;
    let list = Some(Span::new(at, end));
    Ok((TurnContent { parts, list }, end))
}

fn part(text: &[u8], at: usize) -> Result<TurnPart, InvalidJson> {
    let mut part = TurnPart::new(Span::new(at, at), TurnPartKind::Other);
    if text.get(at) != Some(&b'{') {
        part.span.end = json::value_end(text, at)?;
        return Ok(part);
    }
    let (mut own, mut answered) = (None, None);
    part.span.end = json::object(text, at, |key, at| {
        let end = json::value_end(text, at)?;
        let value = Span::new(at, end);
        match key.of(text) {
            b"type" => part.kind = kind(value.of(text)),
            b"text" if text[at] == b'"' => part.text = Some(value.inner()),
            b"id" if text[at] == b'"' => own = Some(value.inner()),
            b"tool_use_id" if text[at] == b'"' => answered = Some(value.inner()),
            _ => {}
        }
        Ok(end)
    })?;
    part.id = match part.kind {
        TurnPartKind::Call => own,
        TurnPartKind::Result => answered,
        _ => None,
    };
    Ok(part)
}

fn kind(literal: &[u8]) -> TurnPartKind {
    match literal {
        b"\"text\"" => TurnPartKind::Text,
        b"\"tool_use\"" => TurnPartKind::Call,
        b"\"tool_result\"" => TurnPartKind::Result,
        b"\"thinking\"" | b"\"redacted_thinking\"" => TurnPartKind::Thinking,
        b"\"tool_addition\"" | b"\"tool_removal\"" => TurnPartKind::ToolChange,
        b"\"compaction\"" => TurnPartKind::Compaction,
        _ => TurnPartKind::Other,
    }
}
