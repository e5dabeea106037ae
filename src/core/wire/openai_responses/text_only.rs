//! Requests to the Responses API that ask only for text.

use super::OpenaiResponses;
use crate::text::splice::Edit;
use crate::wire::TextRequests;
use crate::wire::members::{TextRules, TranscriptMembers, bounded, exactly};

impl TextRequests for OpenaiResponses {
    fn rules(&self) -> &'static TextRules {
        &TextRules {
            named: exactly,
            with_tools: &[
                "tools",
                "tool_choice",
                "parallel_tool_calls",
                "previous_response_id",
                "max_tool_calls",
            ],
            of_model: &["reasoning", "include"],
            bound,
            // Codex's own server takes none.
            bounds_lone: false,
            choice: |members, choice| members.tool_choice(choice),
        }
    }
}

fn bound(members: &TranscriptMembers<'_>, most: u64, adds: bool) -> Option<Edit> {
    let own = members.get("max_output_tokens");
    if own.is_none() && !adds {
        return None;
    }
    bounded(members.number(own), most).map(|tokens| members.set("max_output_tokens", &tokens))
}
