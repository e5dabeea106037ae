//! Facts of this wire.

use super::Ollama;
use super::answer::OllamaDialect;
use crate::record::WireId;
use crate::wire::facts::WireFacts;
use crate::wire::members::TextRules;
use crate::wire::{Framing, Wire};

static FACTS: WireFacts = WireFacts {
    framing: Framing::Lines,
    // Ollama has no API keys.
    key_variables: &[],
    error_body: |error| serde_json::json!({ "error": error.message }).to_string(),
    absent_content: Some(r#""""#),
    has_call_ids: false,
    calls_are_last: true,
    // There is no setting for the tool choice, so the caller has to ignore calls.
    text: TextRules {
        with_tools: &["tools"],
        of_model: &["think"],
        // A negative value means no limit.
        bounds: &[&["options", "num_predict"]],
        ..TextRules::DEFAULT
    },
    ..WireFacts::new(WireId::Ollama, "ollama", |view| {
        Box::new(OllamaDialect::new(view))
    })
};

impl Wire for Ollama {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
