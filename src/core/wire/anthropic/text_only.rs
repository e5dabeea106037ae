//! Requests to Anthropic that ask for a text alone.

use super::Anthropic;
use crate::text::splice::Edit;
use crate::wire::members::{TranscriptMembers, bounded, exactly};
use crate::wire::view::View;
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// Members that are invalid without tools and history.
const WITH_TOOLS: [&str; 5] = ["tools", "tool_choice", "mcp_servers", "container", "thread"];

/// Members that other models may not support.
const OF_MODEL: [&str; 3] = ["thinking", "output_config", "speed"];

impl TextRequests for Anthropic {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits: Vec<Edit> = bound(&members, how.max_tokens).into_iter().collect();
        edits.extend(members.tool_choice(how, r#"{"type":"none"}"#, r#"{"type":"auto"}"#));
        edits
    }

    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        edits.extend(bound(&members, lone.max_tokens));
        edits.extend(members.without_tools(&WITH_TOOLS, &OF_MODEL, lone.model));
        edits
    }

    fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        TranscriptMembers::of(view, exactly).without_tools(&[], &OF_MODEL, Some(model))
    }
}

/// `max_tokens` must be above what the model may think.
fn bound(members: &TranscriptMembers<'_>, most: u64) -> Option<Edit> {
    let thinks = members.number(members.get_in("thinking", "budget_tokens"));
    let own = members.number(members.get("max_tokens"));
    let bound = bounded(own, most + thinks.unwrap_or_default());
    bound.map(|tokens| members.set("max_tokens", &tokens))
}
