//! OpenAI Responses (`/v1/responses`, `…/compact`, `…/input_tokens`).
//!
//! API: <https://platform.openai.com/docs/api-reference/responses>.
//!
//! Every item is a turn, including calls, results and the sentinel.

use self::answer::ResponsesDialect;
use crate::record::WireId;
use crate::text::json;
use crate::wire::facts::{ItemRules, TurnRules, Wire, WireFunctions};
use crate::wire::members::TextRules;
use crate::wire::view::ToolShape;

mod answer;
mod compose;
mod event;
mod item;
mod own_message;
mod pairs;
mod repair;
mod request;
mod response_object;
mod turns;

pub static WIRE: Wire = Wire {
    // The API silently drops reasoning with a different prefix. It refuses reasoning that it cannot decrypt,
    // because that was created for another account or by another server.
    thinking_refusals: &[
        &["invalid_encrypted_content"],
        &["encrypted content", "could not be verified"],
    ],
    turns: TurnRules {
        message: turns::message,
        unbind: turns::unbind,
        omit: turns::unbind,
        unbound_call: turns::unbound_call,
        repairs: repair::lone_reasoning,
        mend_before_aside: pairs::mend_before_aside,
        ..TurnRules::NONE
    },
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
    error_event,
    // States `strict`, because the API would otherwise try strict mode and make `reason` required.
    tool_shape: |_, _| {
        ToolShape::new([
            r#"{"type":"function","name":""#,
            r#"","description":"#,
            r#","parameters":"#,
            r#","strict":false}"#,
        ])
    },
    text: TextRules {
        with_tools: &[
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "previous_response_id",
            "max_tool_calls",
        ],
        of_model: &["reasoning", "include"],
        bounds: &[&["max_output_tokens"]],
        always_bounds: false,
        // Codex' own server accepts no output limit.
        bounds_lone: false,
        choice: Some((&["tool_choice"], [r#""none""#, r#""auto""#])),
        ..TextRules::DEFAULT
    },
    ..Wire::new(
        WireId::OpenaiResponses,
        "openai",
        WireFunctions {
            dialect: |view| Box::new(ResponsesDialect::new(view)),
            read: request::read,
            carry_over: request::carry_over,
            // The text always becomes a message item. A transcript that is a single string was made a list before.
            text_inside: |_, _| None,
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

/// The event has the code and the message at the top level.
fn error_event(body: &str) -> String {
    let text = body.as_bytes();
    let error = json::get(text, json::root(text), "error");
    let member = |key: &str| error.and_then(|error| json::get_string(text, error, key));
    let code = member("code").or(member("type")).unwrap_or("server_error".into());
    let message = member("message").unwrap_or(body.into());
    let (code, message) = (json::quote(&code), json::quote(&message));
    // The number has no place in the order: nothing follows, and only clients that resume a stream skip events by their
    // numbers, whose responses are relayed.
    format!(
        "event: error\ndata: {{\"type\":\"error\",\"sequence_number\":0,\"code\":{code},\"message\":{message},\"param\":null}}\n\n"
    )
}

#[cfg(test)]
mod tests;
