//! Requests to the Responses API that ask only for text.

use crate::wire::members::{TextRules, exactly};

pub(super) const RULES: TextRules = TextRules {
    named: exactly,
    with_tools: &[
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "previous_response_id",
        "max_tool_calls",
    ],
    for_model: None,
    of_model: &["reasoning", "include"],
    bound: |members, most, adds| members.bound(&["max_output_tokens"], most, adds),
    // Codex's own server takes none.
    bounds_lone: false,
    choice: |members, choice| members.tool_choice(choice),
};
