//! What of this wire is a value: its facts, the rules of requests that ask only for text, and its errors.

use serde_json::json;

use super::Anthropic;
use crate::record::WireId;
use crate::text::splice::Edit;
use crate::wire::Wire;
use crate::wire::error::{Errors, KeyHeader, OwnError};
use crate::wire::facts::{WireFacts, Wordings};
use crate::wire::members::{TextRules, TranscriptMembers, bounded, exactly};
use crate::wire::view::ToolChoice;

/// The error's wording for signed thinking.
const UNBOUND_THINKING: Wordings = &[&["thinking", "signature", "bound to a different conversation"]];

static FACTS: WireFacts = WireFacts {
    header: KeyHeader::plain("x-api-key"),
    key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
    prefix_mismatches: UNBOUND_THINKING,
    thinking_refusals: UNBOUND_THINKING,
    holding_members: &["thread"],
    // How much the agent could clear (beta `context-hint-2026-04-09`): the provider may refuse a request for that, and
    // the agent clears and asks again. No agent could clear for a later leg.
    first_leg_members: &["context_hint"],
    ..WireFacts::of(WireId::Anthropic, "anthropic", RULES)
};

impl Wire for Anthropic {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}

impl Errors for Anthropic {
    fn error_body(&self, error: OwnError<'_>) -> String {
        json!({
            "type": "error", "error": {"type": kind(error.status), "message": error.message},
        })
        .to_string()
    }

    fn error_event(&self, body: &str) -> String {
        format!("event: error\ndata: {body}\n\n")
    }
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

const RULES: TextRules = TextRules {
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
