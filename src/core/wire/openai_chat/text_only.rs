//! Requests to a chat server that ask only for text.

use crate::wire::members::{TextRules, exactly};

/// The bound of the output, newer name first.
const BOUNDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

pub(super) const RULES: TextRules = TextRules {
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
