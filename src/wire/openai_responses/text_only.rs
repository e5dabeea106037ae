//! Requests to the Responses API that ask for a text alone.

use super::OpenaiResponses;
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::members::{Members, bounded, exactly, other_choice};
use crate::wire::view::{Choice, View};
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// What a request without tools and history cannot have.
const WITH_TOOLS: [&str; 5] = [
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "previous_response_id",
    "max_tool_calls",
];

/// What other models may not know.
const OF_MODEL: [&str; 2] = ["reasoning", "include"];

impl TextRequests for OpenaiResponses {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = Members::of(view, exactly);
        let mut edits = bound(&members, how.max_tokens, how.forbids_calls);
        if let Some(choice) = other_choice(view, how) {
            let named = if choice == Choice::None {
                r#""none""#
            } else {
                r#""auto""#
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
        edits.extend(bound(&members, lone.max_tokens, false));
        let mut gone = WITH_TOOLS.to_vec();
        if let Some(model) = lone.model {
            gone.extend(OF_MODEL);
            if members.get("model").is_some() {
                edits.push(members.set("model", &json::quote(model)));
            }
        }
        edits.extend(members.without(&gone));
        edits
    }
}

/// `adds`: where the request has no bound it gets one. Codex's own server takes none.
fn bound(members: &Members<'_>, most: u64, adds: bool) -> Vec<Edit> {
    let own = members.get("max_output_tokens");
    if own.is_none() && !adds {
        return Vec::new();
    }
    let bound = bounded(members.number(own), most);
    let edit = bound.map(|tokens| members.set("max_output_tokens", &tokens));
    edit.into_iter().collect()
}
