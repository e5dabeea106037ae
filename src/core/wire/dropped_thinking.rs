//! Thinking that a provider dropped from a request without an error, as its answer reports in `input_transformations`.
//!
//! Anthropic: `{type: "thinking_dropped", path, reason: prefix_binding_mismatch | model_binding_mismatch}`, with the
//! beta `thinking-binding-controls-2026-08-01`. OpenAI Responses: `{type: "reasoning", action: "removed", reason:
//! prefix_mismatch | model_mismatch | …}`.

use crate::text::{Span, json};

/// Types of an entry that says that thinking was dropped.
const TYPES: [&str; 2] = ["thinking_dropped", "reasoning"];

/// Reasons that report a changed prefix of the thinking.
const PREFIX: [&str; 2] = ["prefix_binding_mismatch", "prefix_mismatch"];

/// By design: reasoning of an earlier turn.
const TURN_BOUNDARY: &str = "turn_boundary";

/// How many blocks of thinking were dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedThinking {
    /// Because their prefix changed.
    pub prefix: u32,
    /// For another reason, mostly because the model changed.
    pub other: u32,
}

impl DroppedThinking {
    /// What this list of transformations reports.
    pub(super) fn read(text: &[u8], list: Span) -> Self {
        let mut dropped = Self::default();
        for [kind, reason] in json::pick_each(text, list, ["type", "reason"]) {
            let string =
                |span: Option<Span>| span.and_then(|span| json::string(text, span)).unwrap_or_default();
            let (kind, reason) = (string(kind), string(reason));
            if !TYPES.contains(&&*kind) || reason == TURN_BOUNDARY {
                continue;
            }
            match PREFIX.contains(&&*reason) {
                true => dropped.prefix += 1,
                false => dropped.other += 1,
            }
        }
        dropped
    }

    /// The same of the member `input_transformations` of an object, where it has one.
    pub(super) fn of_member(text: &[u8], object: Span) -> Option<Self> {
        let list = json::get(text, object, "input_transformations")?;
        (text.get(list.start) == Some(&b'[')).then(|| Self::read(text, list))
    }

    pub fn total(self) -> u32 {
        self.prefix.saturating_add(self.other)
    }

    /// All of them; `None` where there was none.
    pub fn some(self) -> Option<u32> {
        Some(self.total()).filter(|total| *total > 0)
    }

    /// Adds those of another answer.
    pub fn add(&mut self, other: Self) {
        self.prefix = self.prefix.saturating_add(other.prefix);
        self.other = self.other.saturating_add(other.other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_counted_by_reason() {
        let list = br#"{"input_transformations": [
            {"type":"thinking_dropped","path":"messages.1.content.0","reason":"prefix_binding_mismatch"},
            {"type":"thinking_dropped","path":"messages.3.content.0","reason":"model_binding_mismatch"},
            {"type":"thinking_dropped","path":null,"reason":null},
            {"type":"thinking_mismatch_allowed","path":"messages.5.content.0","reason":"prefix_binding_mismatch"},
            {"id":"rs_1","type":"reasoning","action":"removed","reason":"prefix_mismatch"},
            {"id":"rs_2","type":"reasoning","action":"removed","reason":"turn_boundary"}, 7]}"#;
        let found = DroppedThinking::of_member(list, Span::new(0, list.len()));
        assert_eq!(found, Some(DroppedThinking { prefix: 2, other: 2 }));
        for none in ["{}", r#"{"input_transformations":null}"#] {
            assert_eq!(
                DroppedThinking::of_member(none.as_bytes(), Span::new(0, none.len())),
                None
            );
        }
    }
}
