//! Anthropic Messages (`/v1/messages`, `/v1/messages/count_tokens`). API: <https://docs.anthropic.com/en/api/messages>.

use self::answer::AnthropicDialect;
use crate::record::WireId;
use crate::wire::error::{KeyHeader, ProxyError};
use crate::wire::facts::{TurnRules, Wire, WireFunctions, Wordings};
use crate::wire::members::TextRules;
use crate::wire::own_text;
use crate::wire::view::ToolShape;
use serde_json::json;

mod answer;
mod compose;
mod pairs;
mod request;
mod turns;
mod usage;

/// Wording of the error for signed thinking.
const UNBOUND_THINKING: Wordings = &[&["thinking", "signature", "bound to a different conversation"]];

pub static WIRE: Wire = Wire {
    header: KeyHeader::plain("x-api-key"),
    key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
    error_body,
    error_event: |body| format!("event: error\ndata: {body}\n\n"),
    prefix_mismatches: UNBOUND_THINKING,
    thinking_refusals: UNBOUND_THINKING,
    holding_members: &["thread"],
    // How much history the agent could clear (beta `context-hint-2026-04-09`). The provider may refuse a
    // request so that the agent clears history and retries. An agent cannot do that for a later leg.
    first_leg_members: &["context_hint"],
    turns: TurnRules {
        ends_at_next_user: turns::ends_at_next_user,
        compacted_changes: turns::compacted_changes,
        own_part: |text| Some(own_text::block(text)),
        ..TurnRules::NONE
    },
    tool_shape: |_, _| ToolShape::new([r#"{"name":""#, r#"","description":"#, r#","input_schema":"#, "}"]),
    text: TextRules {
        with_tools: &["tools", "tool_choice", "mcp_servers", "container", "thread"],
        of_model: &["thinking", "output_config", "speed"],
        bounds: &[&["max_tokens"]],
        // The limit must exceed the thinking budget.
        thinks: &["thinking", "budget_tokens"],
        choice: Some((&["tool_choice"], [r#"{"type":"none"}"#, r#"{"type":"auto"}"#])),
        ..TextRules::DEFAULT
    },
    ..Wire::new(
        WireId::Anthropic,
        "anthropic",
        WireFunctions {
            dialect: |_| Box::new(AnthropicDialect::default()),
            read: request::read,
            carry_over: own_text::user_message,
            text_inside: request::text_inside,
            content: turns::content,
            bound: turns::bound,
            hidden_call: pairs::hidden_call,
            put_beside: pairs::put_beside,
            put_between: pairs::put_between,
            ask_again: compose::ask_again,
            compose: compose::compose,
            stream_opening: compose::stream_opening,
        },
    )
};

fn error_body(error: ProxyError<'_>) -> String {
    let kind = match error.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": error.message}}).to_string()
}
