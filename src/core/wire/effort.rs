//! The requested thinking effort: besides the model, a provider's cache depends on it.

use memchr::memmem;

use super::view::View;
use crate::text::{Span, json};

/// Members that state it, of all wires.
const KEYS: [&str; 6] = [
    "\"effort\"",
    "\"reasoning_effort\"",
    "\"thinking\"",
    "\"thinkingConfig\"",
    "\"thinking_config\"",
    "\"think\"",
];

/// Bytes of one statement: settings are short, and a tool's schema may use these words, too.
const MOST_BYTES: usize = 120;

impl View {
    /// The settings of effort and thinking, as they are written; empty where there are none. It is looked for next to the
    /// turns only.
    pub fn effort(&self) -> String {
        let beside = [
            Span::new(0, self.list.start),
            Span::new(self.list.end, self.body.len()),
        ];
        let mut found = String::new();
        for (key, span) in KEYS.iter().flat_map(|key| beside.map(|span| (key, span))) {
            let text = self.text(span);
            for at in memmem::find_iter(text, key) {
                if let Some(value) = value_after(text, at + key.len()) {
                    found.push_str(&String::from_utf8_lossy(value));
                    found.push(' ');
                }
            }
        }
        found.trim_end().to_owned()
    }
}

/// The short value of a key that ends here. Of a string that has the word, no colon follows.
fn value_after(text: &[u8], key_end: usize) -> Option<&[u8]> {
    let colon = json::blank(text, key_end);
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let start = json::blank(text, colon + 1);
    let end = json::value_end(text, start).ok()?;
    Some(&text[start..end]).filter(|value| value.len() <= MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    fn effort(id: WireId, body: Value) -> String {
        let body = body.to_string();
        wire(id).read(&body.into(), Operation::Generate).unwrap().effort()
    }

    #[test]
    fn every_wires_settings_are_found_beside_the_turns() {
        let turns = json!([{"role": "user", "content": "the \"effort\": 3 of it"}]);
        let contents = json!([{"role": "user", "parts": [{"text": "x"}]}]);
        let rows = [
            (
                WireId::Anthropic,
                json!({"model": "m", "max_tokens": 9, "messages": turns, "output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}}),
                "\"high\" {\"type\":\"adaptive\"}",
            ),
            (
                WireId::OpenaiChat,
                json!({"model": "m", "messages": turns, "reasoning_effort": "low"}),
                "\"low\"",
            ),
            (
                WireId::OpenaiResponses,
                json!({"model": "m", "input": turns, "reasoning": {"effort": "medium"}}),
                "\"medium\"",
            ),
            (
                WireId::Gemini,
                json!({"contents": contents, "generationConfig": {"thinkingConfig": {"thinkingBudget": 5}}}),
                "{\"thinkingBudget\":5}",
            ),
            (
                WireId::Ollama,
                json!({"model": "m", "messages": turns, "think": true}),
                "true",
            ),
            (WireId::OpenaiChat, json!({"model": "m", "messages": turns}), ""),
        ];
        for (id, body, wanted) in rows {
            assert_eq!(effort(id, body), wanted, "{id:?}");
        }
    }
}
