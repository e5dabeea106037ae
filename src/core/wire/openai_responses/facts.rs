//! What of this wire is a value: its facts, the rules of requests that ask only for text, and its errors.

use super::{OpenaiResponses, answer, pairs, repair, request, turns};
use crate::record::WireId;
use crate::text::json;
use crate::wire::error::{Errors, OwnError};
use crate::wire::facts::{ItemRules, WireFacts};
use crate::wire::members::{TextRules, exactly};
use crate::wire::{Wire, openai};

static FACTS: WireFacts = WireFacts {
    // Reasoning with another prefix is dropped without an error. What cannot be decrypted, since it was made for another
    // account or by another server, is refused.
    thinking_refusals: &[
        &["invalid_encrypted_content"],
        &["encrypted content", "could not be verified"],
    ],
    items: Some(ItemRules {
        around_string: [r#"{"type":"message","role":"user","content":"#, "}"],
        repair: repair::after_cut,
        previous: request::previous,
        bound: pairs::bound,
        find: pairs::find_items,
        refers: turns::refers,
        filler: turns::filler,
        own_items: turns::own_items,
        lone_result: pairs::output,
        put_by_results: pairs::put_by_results,
        shaped_for: answer::shaped_for,
    }),
    ..WireFacts::of(WireId::OpenaiResponses, "openai", RULES)
};

impl Wire for OpenaiResponses {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}

impl Errors for OpenaiResponses {
    fn error_body(&self, error: OwnError<'_>) -> String {
        openai::error_body(error)
    }

    /// Its code and its message are at the event's top.
    fn error_event(&self, body: &str) -> String {
        let text = body.as_bytes();
        let error = json::whole(text)
            .ok()
            .and_then(|whole| json::get(text, whole, "error"));
        let member = |key: &str| error.and_then(|error| json::get_string(text, error, key));
        let code = member("code").or(member("type")).unwrap_or("server_error".into());
        let message = member("message").unwrap_or(body.into());
        let (code, message) = (json::quote(&code), json::quote(&message));
        format!(
            "event: error\ndata: {{\"type\":\"error\",\"sequence_number\":0,\"code\":{code},\"message\":{message},\"param\":null}}\n\n"
        )
    }
}

const RULES: TextRules = TextRules {
    named: exactly,
    with_tools: &[
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "previous_response_id",
        "max_tool_calls",
    ],
    for_model: None,
    of_model: &["reasoning", "include"],
    bound: |members, most, adds| members.bound(&["max_output_tokens"], most, adds),
    // Codex's own server takes none.
    bounds_lone: false,
    choice: |members, choice| members.tool_choice(choice),
};
