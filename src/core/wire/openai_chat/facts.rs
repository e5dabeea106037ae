//! What of this wire is a value: its facts, the rules of requests that ask only for text, and its errors.

use super::{OpenaiChat, request};
use crate::record::WireId;
use crate::wire::error::{Errors, OwnError};
use crate::wire::facts::WireFacts;
use crate::wire::members::{TextRules, exactly};
use crate::wire::{Wire, openai};

static FACTS: WireFacts = WireFacts {
    drops_blank_text: false,
    absent_content: Some("null"),
    calls_are_last: true,
    companions: request::companions,
    ..WireFacts::of(WireId::OpenaiChat, "openai", RULES)
};

impl Wire for OpenaiChat {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}

impl Errors for OpenaiChat {
    fn error_body(&self, error: OwnError<'_>) -> String {
        openai::error_body(error)
    }
}

/// The bound of the output, newer name first.
const BOUNDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

const RULES: TextRules = TextRules {
    named: exactly,
    with_tools: &[
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
        "prediction",
    ],
    for_model: None,
    of_model: &["reasoning_effort", "reasoning", "thinking", "verbosity"],
    bound: |members, most, adds| members.bound(&BOUNDS, most, adds),
    bounds_lone: true,
    choice: |members, choice| members.tool_choice(choice),
};
