//! Requests to a chat server that ask only for text.

use super::OpenaiChat;
use crate::text::splice::Edit;
use crate::wire::TextRequests;
use crate::wire::members::{TextRules, TranscriptMembers, bounded, exactly};

/// The bound of the output, newer name first.
const BOUNDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

impl TextRequests for OpenaiChat {
    fn rules(&self) -> &'static TextRules {
        &TextRules {
            named: exactly,
            with_tools: &[
                "tools",
                "tool_choice",
                "parallel_tool_calls",
                "functions",
                "function_call",
                "prediction",
            ],
            of_model: &["reasoning_effort", "reasoning", "thinking", "verbosity"],
            bound,
            bounds_lone: true,
            choice: |members, choice| members.tool_choice(choice),
        }
    }
}

/// The bound under the name that the request has it by.
fn bound(members: &TranscriptMembers<'_>, most: u64, adds: bool) -> Option<Edit> {
    let named = BOUNDS.into_iter().find(|name| members.get(name).is_some());
    let own = named.and_then(|name| members.number(members.get(name)));
    let name = named.or(adds.then_some(BOUNDS[0]))?;
    bounded(own, most).map(|tokens| members.set(name, &tokens))
}
