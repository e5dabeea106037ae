//! Requests to a chat server that ask for a text alone.

use super::OpenaiChat;
use crate::text::splice::Edit;
use crate::wire::members::{TranscriptMembers, bounded, exactly};
use crate::wire::view::View;
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// Members that are invalid without tools and history.
const WITH_TOOLS: [&str; 6] = [
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "prediction",
];

/// Members that other models may not support.
const OF_MODEL: [&str; 4] = ["reasoning_effort", "reasoning", "thinking", "verbosity"];

/// The bound of the output, newer name first.
const BOUNDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

impl TextRequests for OpenaiChat {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits = bound(&members, how.max_tokens, how.forbids_calls);
        edits.extend(members.tool_choice(how, r#""none""#, r#""auto""#));
        edits
    }

    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        edits.extend(bound(&members, lone.max_tokens, true));
        edits.extend(members.without_tools(&WITH_TOOLS, &OF_MODEL, lone.model));
        edits
    }

    fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        TranscriptMembers::of(view, exactly).without_tools(&[], &OF_MODEL, Some(model))
    }
}

/// The bound under the name that the request has it by. `adds`: where it has none it gets one.
fn bound(members: &TranscriptMembers<'_>, most: u64, adds: bool) -> Vec<Edit> {
    let named = BOUNDS.into_iter().find(|name| members.get(name).is_some());
    let own = named.and_then(|name| members.number(members.get(name)));
    let name = match named {
        Some(name) => name,
        None if adds => BOUNDS[0],
        None => return Vec::new(),
    };
    let bound = bounded(own, most).map(|tokens| members.set(name, &tokens));
    bound.into_iter().collect()
}
