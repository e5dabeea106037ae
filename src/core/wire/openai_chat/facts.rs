//! Facts of this wire.

use super::answer::ChatDialect;
use super::{OpenaiChat, request};
use crate::record::WireId;
use crate::wire::Wire;
use crate::wire::facts::WireFacts;
use crate::wire::members::TextRules;

static FACTS: WireFacts = WireFacts {
    drops_blank_text: false,
    absent_content: Some("null"),
    calls_are_last: true,
    companions: request::companions,
    text: TextRules {
        with_tools: &[
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "functions",
            "function_call",
            "prediction",
        ],
        of_model: &["reasoning_effort", "reasoning", "thinking", "verbosity"],
        // The newer name comes first.
        bounds: &[&["max_completion_tokens"], &["max_tokens"]],
        always_bounds: false,
        choice: Some((&["tool_choice"], [r#""none""#, r#""auto""#])),
        ..TextRules::DEFAULT
    },
    ..WireFacts::new(WireId::OpenaiChat, "openai", |view| {
        Box::new(ChatDialect::new(view))
    })
};

impl Wire for OpenaiChat {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}
