//! The tool that the model sees: one name, one text, one schema, byte for byte the same in every request of
//! a conversation.

use std::sync::LazyLock;

use crate::text::json;

/// Its name.
pub const TOOL_NAME: &str = "session_handoff";

/// What the model reads about the tool, where the config does not say otherwise.
pub const DESCRIPTION: &str = "Hand this session over to a fresh context. Call it when a task is finished and the \
next one does not need the details above, or when the context is full of material that is no longer needed. \
Everything before the call is then dropped, and you go on at once with `prompt` as the only thing you know (system \
instructions and environment information stay). So write `prompt` for somebody who has seen nothing: the goal, what \
is done and decided and why, the files and commands that matter, what is open, and the next step. Call it alone, as \
the last thing of a turn; the user need not be asked. Do not call it between two steps of one task whose details you \
still need: what is not in `prompt` is gone for good.";

/// [`DESCRIPTION`] as the JSON string literal that goes into requests.
pub fn description() -> &'static str {
    static LITERAL: LazyLock<String> = LazyLock::new(|| json::quote(DESCRIPTION));
    &LITERAL
}

/// The arguments as JSON Schema.
pub const SCHEMA: &str = r#"{"type":"object","properties":{"prompt":{"type":"string","description":"Self-contained carry-over prompt: everything the next context has to know."},"reason":{"type":"string","description":"Why now, in a few words."}},"required":["prompt"],"additionalProperties":false}"#;

/// The arguments in the older OpenAPI style of Gemini's `parameters`.
pub const OPENAPI_SCHEMA: &str = r#"{"type":"OBJECT","properties":{"prompt":{"type":"STRING","description":"Self-contained carry-over prompt: everything the next context has to know."},"reason":{"type":"STRING","description":"Why now, in a few words."}},"required":["prompt"]}"#;
