//! Requests to the Responses API that ask for a text alone.

use super::OpenaiResponses;
use crate::text::splice::Edit;
use crate::wire::members::{TranscriptMembers, bounded, exactly};
use crate::wire::view::View;
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// Members that are invalid without tools and history.
const WITH_TOOLS: [&str; 5] = [
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "previous_response_id",
    "max_tool_calls",
];

/// Members that other models may not support.
const OF_MODEL: [&str; 2] = ["reasoning", "include"];

impl TextRequests for OpenaiResponses {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits = bound(&members, how.max_tokens, how.forbids_calls);
        edits.extend(members.tool_choice(how, r#""none""#, r#""auto""#));
        edits
    }

    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        edits.extend(bound(&members, lone.max_tokens, false));
        edits.extend(members.without_tools(&WITH_TOOLS, &OF_MODEL, lone.model));
        edits
    }

    fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        TranscriptMembers::of(view, exactly).without_tools(&[], &OF_MODEL, Some(model))
    }
}

/// `adds`: where the request has no bound it gets one. Codex's own server takes none.
fn bound(members: &TranscriptMembers<'_>, most: u64, adds: bool) -> Vec<Edit> {
    let own = members.get("max_output_tokens");
    if own.is_none() && !adds {
        return Vec::new();
    }
    let bound = bounded(members.number(own), most);
    let edit = bound.map(|tokens| members.set("max_output_tokens", &tokens));
    edit.into_iter().collect()
}
