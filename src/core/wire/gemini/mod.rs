//! Gemini generateContent (`:generateContent`, `:streamGenerateContent`, `:countTokens`), including requests
//! inside the envelopes of Code Assist.
//!
//! API: <https://ai.google.dev/api/generate-content>.
//!
//! Model and streaming are part of the path, so the caller sets `facts.model` and `facts.stream`.

use self::answer::GeminiDialect;
use self::request::text_part;
use super::view::TurnPart;
use crate::record::WireId;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::error::{KeyHeader, ProxyError};
use crate::wire::facts::{TurnRules, Wire, WireFunctions};
use crate::wire::fingerprints;
use crate::wire::members::TextRules;
use crate::wire::view::{ToolList, ToolShape, View};
use memchr::memmem;
use serde_json::json;

mod answer;
mod chunk;
mod compose;
mod pairs;
mod part;
mod request;
mod streamed_call;
mod turns;
mod usage;

#[cfg(test)]
mod tests;

/// Parses a list of parts, or a single part in its place.
pub(super) fn parts(text: &[u8], parts: Span) -> Vec<TurnPart> {
    let pieces = part::pieces(text, parts).into_iter();
    pieces.map(|piece| piece.part).collect()
}

pub static WIRE: Wire = Wire {
    header: KeyHeader::plain("x-goog-api-key"),
    key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    error_body,
    has_call_ids: false,
    // Errors of the Gemini API and Vertex about a signature. They do not check the prefix, but refuse
    // signatures of another model or service. A missing signature is handled separately.
    thinking_refusals: &[
        &["Corrupted thought signature"],
        &["Thought signature is not valid"],
        &["Invalid thought signature"],
    ],
    turns: TurnRules {
        message: fingerprints::message,
        unbind: turns::unbind,
        omit: turns::omit,
        own_part: |text| Some(text_part(text)),
        unbound_call: turns::unbound_call,
        repairs: pairs::repairs,
        ..TurnRules::NONE
    },
    tool_shape,
    text: TextRules {
        named: part::is,
        with_tools: &["tools", "toolConfig", "cachedContent"],
        for_model: Some(for_model),
        bounds: &[&["generationConfig", "maxOutputTokens"]],
        // Thinking counts as output.
        thinks: &["generationConfig", "thinkingConfig", "thinkingBudget"],
        choice: Some((
            &["toolConfig", "functionCallingConfig"],
            [r#"{"mode":"NONE"}"#, r#"{"mode":"AUTO"}"#],
        )),
        ..TextRules::DEFAULT
    },
    ..Wire::new(
        WireId::Gemini,
        "gcp.gemini",
        WireFunctions {
            dialect: |view| Box::new(GeminiDialect::new(view)),
            read: request::read,
            carry_over: request::carry_over,
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
    // Status names of Google's APIs.
    let name = match error.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": error.status, "message": error.message, "status": name}}).to_string()
}

fn tool_shape(view: &View, tools: &ToolList) -> ToolShape {
    let before = view.body.get(..tools.end).unwrap_or_default();
    let snake = memmem::find(before, b"\"parameters_json_schema\"").is_some();
    let schema = match (tools.old_style, snake) {
        (true, _) => r#","parameters":"#,
        (false, true) => r#","parameters_json_schema":"#,
        (false, false) => r#","parametersJsonSchema":"#,
    };
    ToolShape {
        around: [r#"{"name":""#, r#"","description":"#, schema, "}"],
        openapi: tools.old_style,
    }
}

/// The model is part of the path, or next to the envelope.
fn for_model(view: &View, model: &str) -> Vec<Edit> {
    let named = json::get(&view.body, json::root(&view.body), "model");
    let named = named.map(|named| Edit::replace(named, json::quote(model)));
    let thinks = view.member(&["generationConfig", "thinkingConfig"]);
    let thinks = thinks.map(|thinks| Edit::replace(thinks, "{}"));
    named.into_iter().chain(thinks).collect()
}
