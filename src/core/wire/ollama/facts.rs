//! What of this wire is a value: its facts, the rules of requests that ask only for text, and its errors.

use serde_json::json;

use super::Ollama;
use crate::record::WireId;
use crate::text::splice::Edit;
use crate::wire::error::{Errors, OwnError};
use crate::wire::facts::WireFacts;
use crate::wire::members::{TextRules, TranscriptMembers, bounded, exactly};
use crate::wire::{Framing, Wire};

static FACTS: WireFacts = WireFacts {
    framing: Framing::Lines,
    // It knows no keys.
    key_variables: &[],
    absent_content: Some(r#""""#),
    has_call_ids: false,
    calls_are_last: true,
    ..WireFacts::of(WireId::Ollama, "ollama", RULES)
};

impl Wire for Ollama {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}

impl Errors for Ollama {
    fn error_body(&self, error: OwnError<'_>) -> String {
        json!({ "error": error.message }).to_string()
    }
}

const RULES: TextRules = TextRules {
    named: exactly,
    with_tools: &["tools"],
    for_model: None,
    of_model: &["think"],
    bound,
    bounds_lone: true,
    choice: |_, _| None,
};

/// A negative `num_predict` is no bound.
fn bound(members: &TranscriptMembers<'_>, most: u64, _adds: bool) -> Option<Edit> {
    let own = members.number(members.get_in("options", "num_predict"));
    bounded(own, most).map(|tokens| members.set_in("options", "num_predict", &tokens))
}
