//! Fingerprints of the strings in a transcript, which recognize them when the transcript comes back in
//! another form.

use std::collections::HashSet;
use std::ops::Range;

use crate::agents::wordings;
use crate::text::{Span, json};
use crate::wire::view::{TurnPart, TurnPartKind, View};

/// Number of bytes of JSON that are searched for the first line of a string.
const LINE_BYTES: usize = 4096;
/// Maximum length of a line in characters. Further characters do not count.
const LINE_CHARS: usize = 200;
/// Maximum number of remembered strings of a transcript, newest first.
const MAX_TEXTS: usize = 4096;

/// Fingerprints of the first lines in these turns, newest turn first.
///
/// The text of user, model and tools is covered.
pub fn texts(view: &View, turns: Range<usize>) -> Vec<u32> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    let end = turns.end.min(view.turns.len());
    // Newest first, so that the limit drops the oldest.
    for turn in (turns.start.min(end)..end).rev() {
        for part in view.content(turn).parts {
            for text in texts_of(&view.body, &part) {
                out.extend(fingerprint(text.of(&view.body)).filter(|print| seen.insert(*print)));
            }
        }
        if out.len() >= MAX_TEXTS {
            break;
        }
    }
    out.truncate(MAX_TEXTS);
    out
}

/// Fingerprint of the messages that an agent moves from request to request.
fn moved() -> Option<u32> {
    fingerprint(wordings::MOVED.as_bytes())
}

/// Whether a message that an agent moves is among these.
pub(super) fn has_moved(prints: &[u32]) -> bool {
    moved().is_some_and(|moved| prints.contains(&moved))
}

/// Whether these fingerprints, newest first, belong to the strings right before a turn.
///
/// Messages that an agent moves from request to request are not compared.
pub(super) fn are_before(view: &View, turn: usize, prints: &[u32]) -> bool {
    let moved = moved();
    let mut expected = prints.iter().filter(|print| moved != Some(**print)).peekable();
    // Without any fingerprint, nothing is proved.
    if expected.peek().is_none() {
        return false;
    }
    let mut seen: HashSet<u32> = moved.into_iter().collect();
    for turn in (0..turn).rev() {
        for part in view.content(turn).parts {
            for text in texts_of(&view.body, &part) {
                let new = fingerprint(text.of(&view.body)).filter(|print| seen.insert(*print));
                let Some(print) = new else { continue };
                match expected.next() {
                    Some(next) if *next == print => {}
                    next => return next.is_none(),
                }
            }
        }
    }
    expected.next().is_none()
}

/// Insides of a part's string literals. Calls and reasoning have their own sections, which are not evidence.
fn texts_of(body: &[u8], part: &TurnPart) -> Vec<Span> {
    match (part.kind, part.text) {
        (TurnPartKind::Call | TurnPartKind::Thinking | TurnPartKind::ToolChange, _) => Vec::new(),
        (_, Some(text)) => vec![text],
        (_, None) => {
            let mut all = values(body, part.span);
            // A cache breakpoint moves from request to request.
            let breakpoint = json::get(body, part.span, "cache_control").unwrap_or_default();
            all.retain(|text| part.id != Some(*text) && !breakpoint.holds(text.start));
            all
        }
    }
}

/// Insides of all strings in a value, except keys.
fn values(body: &[u8], span: Span) -> Vec<Span> {
    let mut all = Vec::new();
    let mut at = span.start;
    while let Some(hit) = memchr::memchr(b'"', &body[at..span.end]) {
        let start = at + hit;
        let Ok(end) = json::string_end(body, start) else {
            break;
        };
        if body.get(json::blank(body, end)) != Some(&b':') {
            all.push(Span::new(start, end).inner());
        }
        at = end.min(span.end);
    }
    all
}

/// Fingerprint of the first non-blank line; `None` if there is none.
///
/// FNV-1a distinguishes strings that nobody crafted to collide.
pub(super) fn fingerprint(raw: &[u8]) -> Option<u32> {
    let text = json::unescape(&raw[..raw.len().min(LINE_BYTES)]);
    let line = text.lines().map(str::trim).find(|l| !l.is_empty())?;
    let chars = line.chars().take(LINE_CHARS);
    Some(chars.fold(0x811c_9dc5, |hash: u32, c| {
        (hash ^ u32::from(c)).wrapping_mul(0x0100_0193)
    }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::wire::{Operation, WIRES};

    /// A long task of calls. Their ids and arguments do not count, and displace no other string.
    #[test]
    fn the_texts_of_a_long_task_are_all_remembered() {
        let wire = WIRES.iter().find(|w| w.id().name() == "anthropic").unwrap();
        let mut messages = vec![json!({"role": "user", "content": "The first words."})];
        for n in 0..1500 {
            let input = json!({"path": format!("p{n}"), "find": format!("f{n}"), "with": format!("w{n}")});
            let call =
                json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "edit", "input": input});
            let content = [json!({"type": "text", "text": format!("Said {n}.")}), call];
            messages.push(json!({"role": "assistant", "content": content}));
            let shown = json!([{"type": "text", "text": format!("Shown {n}.")}]);
            let id = format!("toolu_{n}");
            let cached = json!({"type": "ephemeral"});
            let result =
                json!({"type": "tool_result", "tool_use_id": id, "content": shown, "cache_control": cached});
            messages.push(json!({"role": "user", "content": [result]}));
        }
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        let view = wire.read(&Bytes::from(body), Operation::Generate).unwrap();
        let known = texts(&view, 0..view.turns.len());
        for text in ["The first words.", "Said 0.", "Shown 0.", "Shown 1499."] {
            assert!(known.contains(&fingerprint(text.as_bytes()).unwrap()), "{text}");
        }
        for other in ["toolu_7", "tool_use_id", "p7", "ephemeral"] {
            assert!(
                !known.contains(&fingerprint(other.as_bytes()).unwrap()),
                "{other}"
            );
        }
    }
}
