//! The response object, at its start, at its end and where it failed.

use serde_json::{Value, json};

use super::{binding, tools, transcript};
use crate::dialect::{Received, derived_id};
use crate::fields::{list, text};
use crate::reply::{Reply, Stop};
use crate::usage::Usage;

/// How a response ends, or that it has not ended.
pub(super) struct ResponseStatus {
    pub(super) status: &'static str,
    /// `incomplete_details.reason`.
    reason: Option<String>,
    /// `error.code` and `error.message`.
    error: Option<(String, String)>,
}

impl ResponseStatus {
    pub(super) const OPEN: ResponseStatus = ResponseStatus {
        status: "in_progress",
        reason: None,
        error: None,
    };
    pub(super) const QUEUED: ResponseStatus = ResponseStatus {
        status: "queued",
        ..ResponseStatus::OPEN
    };

    pub(super) fn from_reply(reply: &Reply) -> Self {
        let incomplete = |reason: &str| ResponseStatus {
            status: "incomplete",
            reason: Some(reason.to_owned()),
            error: None,
        };
        match &reply.stop {
            Stop::MaxTokens => incomplete("max_output_tokens"),
            Stop::ContentFilter => incomplete("content_filter"),
            Stop::Word(word) if word == "failed" => {
                ResponseStatus::failed("server_error", "Failed by the script.")
            }
            Stop::Word(reason) => incomplete(reason),
            Stop::Natural | Stop::Refusal | Stop::PauseTurn => ResponseStatus {
                status: "completed",
                ..ResponseStatus::OPEN
            },
        }
    }

    pub(super) fn failed(code: &str, message: &str) -> Self {
        ResponseStatus {
            status: "failed",
            reason: None,
            error: Some((code.to_owned(), message.to_owned())),
        }
    }
}

/// The response object, which repeats the request's own fields.
pub(super) fn object(request: &Received, ending: &ResponseStatus, output: &[Value], usage: &Value) -> Value {
    let body = &request.body;
    let repeated = |key: &str, default: Value| match body.get(key) {
        Some(value) if !value.is_null() => value.clone(),
        _ => default,
    };
    let done = ending.status == "completed";
    let error = ending.error.as_ref();
    let reason = ending.reason.as_ref();
    let mut response = json!({
        "id": id(request), "object": "response", "created_at": request.received, "status": ending.status,
        "completed_at": done.then_some(request.received), "background": repeated("background", json!(false)),
        "error": error.map(|(code, message)| json!({"code": code, "message": message})),
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "instructions": repeated("instructions", Value::Null),
        "max_output_tokens": repeated("max_output_tokens", Value::Null), "model": text(body, "model"),
        "output": output, "parallel_tool_calls": repeated("parallel_tool_calls", json!(true)),
        "previous_response_id": repeated("previous_response_id", Value::Null),
        "prompt_cache_key": repeated("prompt_cache_key", Value::Null),
        "reasoning": repeated("reasoning", json!({"effort": null, "summary": null})), "service_tier": "default",
        "store": repeated("store", json!(true)), "temperature": repeated("temperature", json!(1.0)),
        "text": echoed_text(repeated("text", json!({}))),
        "tool_choice": repeated("tool_choice", json!("auto")), "tools": echoed_tools(body),
        "top_p": repeated("top_p", json!(1.0)), "truncation": repeated("truncation", json!("disabled")), "usage": usage,
        "metadata": repeated("metadata", json!({})),
    });
    if let Some(conversation) = transcript::conversation(body) {
        response["conversation"] = json!({"id": conversation});
    }
    let mismatched = if done {
        binding::prefix_mismatches(request)
    } else {
        Vec::new()
    };
    let removed = mismatched
        .into_iter()
        .map(|id| json!({"id": id, "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}));
    let removed: Vec<Value> = removed.collect();
    if !removed.is_empty() {
        response["input_transformations"] = Value::Array(removed);
    }
    response
}

/// The id of the response to a request.
pub(super) fn id(request: &Received) -> String {
    derived_id("resp_", request, 0)
}

/// The text format that was requested; plain text by default.
fn echoed_text(mut text: Value) -> Value {
    if text.get("format").is_none_or(Value::is_null) {
        text["format"] = json!({"type": "text"});
    }
    text
}

/// The request's tools, with `strict` filled in where the request left it out.
fn echoed_tools(body: &Value) -> Vec<Value> {
    let mut tools = list(body, "tools").to_vec();
    for tool in &mut tools {
        if text(tool, "type") == "function" && tool.get("strict").is_none_or(Value::is_null) {
            tool["strict"] = json!(
                tool.get("parameters")
                    .is_some_and(|schema| tools::why_not_strict(schema).is_none())
            );
        }
    }
    tools
}

/// The usage object; `thoughts` are the reasoning tokens.
pub(super) fn usage_object(usage: &Usage, thoughts: usize) -> Value {
    json!({
        "input_tokens": usage.prompt(),
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": thoughts.min(usage.output)},
        "total_tokens": usage.prompt() + usage.output,
    })
}
