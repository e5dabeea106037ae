//! OpenAI Chat Completions (`/v1/chat/completions`) and its many compatible servers.
//!
//! API: <https://platform.openai.com/docs/api-reference/chat>.

use self::answer::ChatDialect;
use crate::record::WireId;
use crate::wire::facts::{Wire, WireFunctions};
use crate::wire::members::TextRules;
use crate::wire::own_text;
use crate::wire::sibling_calls::among_calls;

mod answer;
mod calls;
mod chunk;
mod compose;
mod pairs;
mod request;
mod turns;

#[cfg(test)]
mod tests;

pub static WIRE: Wire = Wire {
    drops_blank_text: false,
    absent_content: Some("null"),
    calls_are_last: true,
    companions: request::companions,
    text: TextRules {
        with_tools: &[
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "functions",
            "function_call",
            "prediction",
        ],
        of_model: &["reasoning_effort", "reasoning", "thinking", "verbosity"],
        // The newer name comes first.
        bounds: &[&["max_completion_tokens"], &["max_tokens"]],
        always_bounds: false,
        choice: Some((&["tool_choice"], [r#""none""#, r#""auto""#])),
        ..TextRules::DEFAULT
    },
    ..Wire::new(
        WireId::OpenaiChat,
        "openai",
        WireFunctions {
            dialect: |view| Box::new(ChatDialect::new(view)),
            read: request::read,
            carry_over: own_text::user_message,
            text_inside: request::text_inside,
            content: turns::content,
            bound: turns::bound,
            hidden_call: pairs::hidden_call,
            put_beside: |view, besides| among_calls(view, besides, pairs::result),
            put_between: pairs::put_between,
            ask_again: compose::ask_again,
            compose: compose::compose,
            stream_opening: compose::stream_opening,
        },
    )
};
