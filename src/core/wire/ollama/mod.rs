//! Ollama's native chat (`/api/chat`): one JSON value per line, arguments as objects, and ids that may be
//! missing.
//!
//! API: <https://github.com/ollama/ollama/blob/main/docs/api.md>. Ollama's other chat paths implement the
//! APIs of other providers.

use self::answer::OllamaDialect;
use crate::record::WireId;
use crate::wire::facts::{Wire, WireFunctions};
use crate::wire::members::TextRules;
use crate::wire::sibling_calls::among_calls;
use crate::wire::{Framing, own_text};

mod answer;
mod compose;
mod pairs;
mod request;
mod turns;

#[cfg(test)]
mod tests;

pub static WIRE: Wire = Wire {
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
    ..Wire::new(
        WireId::Ollama,
        "ollama",
        WireFunctions {
            dialect: |view| Box::new(OllamaDialect::new(view)),
            read: request::read,
            // Blocks of a preamble are a list, which this API does not have.
            carry_over: |_, prompt| own_text::user_message(&[], prompt),
            text_inside: own_text::in_string,
            content: turns::content,
            // Thinking is plain text here.
            bound: |_| false,
            hidden_call: pairs::hidden_call,
            // Only calls count as parts, because text and calls are separate members.
            put_beside: |view, besides| among_calls(view, besides, pairs::result),
            put_between: pairs::put_between,
            ask_again: compose::ask_again,
            compose: compose::compose,
            stream_opening: compose::stream_opening,
        },
    )
};
