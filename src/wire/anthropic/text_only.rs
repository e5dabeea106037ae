//! Requests to Anthropic that ask for a text alone.

use super::Anthropic;
use crate::text::splice::Edit;
use crate::wire::members::{Members, bounded, exactly, other_choice};
use crate::wire::view::{Choice, View};
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// What a request without tools and history cannot have.
const WITH_TOOLS: [&str; 5] = ["tools", "tool_choice", "mcp_servers", "container", "thread"];

/// What other models may not know.
const OF_MODEL: [&str; 3] = ["thinking", "output_config", "speed"];

impl TextRequests for Anthropic {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = Members::of(view, exactly);
        let mut edits: Vec<Edit> = bound(&members, how.max_tokens).into_iter().collect();
        if let Some(choice) = other_choice(view, how) {
            let named = if choice == Choice::None {
                r#"{"type":"none"}"#
            } else {
                r#"{"type":"auto"}"#
            };
            edits.push(members.set("tool_choice", named));
        }
        edits
    }

    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let members = Members::of(view, exactly);
        let mut edits = vec![Edit::replace(
            view.list,
            format!("[{}]", self.user_text(lone.text)),
        )];
        edits.extend(bound(&members, lone.max_tokens));
        let mut gone = WITH_TOOLS.to_vec();
        if let Some(model) = lone.model {
            gone.extend(OF_MODEL);
            if members.get("model").is_some() {
                edits.push(members.set("model", &crate::text::json::quote(model)));
            }
        }
        edits.extend(members.without(&gone));
        edits
    }
}

/// `max_tokens` must be above what the model may think.
fn bound(members: &Members<'_>, most: u64) -> Option<Edit> {
    let thinks = members.number(members.get_in("thinking", "budget_tokens"));
    let own = members.number(members.get("max_tokens"));
    let bound = bounded(own, most + thinks.unwrap_or_default());
    bound.map(|tokens| members.set("max_tokens", &tokens))
}
