//! Requests to Anthropic that ask only for text.

use crate::text::splice::Edit;
use crate::wire::members::{TextRules, TranscriptMembers, bounded, exactly};
use crate::wire::view::ToolChoice;

pub(super) const RULES: TextRules = TextRules {
    named: exactly,
    with_tools: &["tools", "tool_choice", "mcp_servers", "container", "thread"],
    for_model: None,
    of_model: &["thinking", "output_config", "speed"],
    bound,
    bounds_lone: true,
    choice,
};

/// `max_tokens` must be above what the model may think.
fn bound(members: &TranscriptMembers<'_>, most: u64, _adds: bool) -> Option<Edit> {
    let thinks = members.number(members.get_in("thinking", "budget_tokens"));
    let own = members.number(members.get("max_tokens"));
    let bound = bounded(own, most + thinks.unwrap_or_default());
    bound.map(|tokens| members.set("max_tokens", &tokens))
}

fn choice(members: &TranscriptMembers<'_>, choice: ToolChoice) -> Option<Edit> {
    let kind = if choice == ToolChoice::None {
        "none"
    } else {
        "auto"
    };
    Some(members.set("tool_choice", &format!(r#"{{"type":"{kind}"}}"#)))
}
