//! A reply as a response object.

use serde_json::{Value, json};

use super::memory::Stored;
use super::{binding, items, output, stream, tools};
use crate::strict::dialect::Rendered;
use crate::strict::exchange::made_up_id;
use crate::strict::fields::{list, text};
use crate::strict::model::Seen;
use crate::strict::reply::{Reply, Stop};
use crate::strict::usage::{self, Usage};

pub(super) fn render(seen: &Seen, reply: &Reply, usage: &Usage) -> Rendered {
    let output = output::items(seen, reply);
    let ending = Ending::of(reply);
    let usage = usage_object(usage, usage::thoughts(reply));
    let response = object(seen, &ending, &output, &usage);
    keep(seen, &response, &output);
    if seen.stream() {
        return Rendered::stream(stream::events(seen, reply, &output, &ending, &response));
    }
    if response["background"] == true {
        return Rendered::json(&object(seen, &Ending::QUEUED, &[], &Value::Null));
    }
    Rendered::json(&response)
}

/// How a response ends, or that it has not ended.
pub(super) struct Ending {
    pub(super) status: &'static str,
    /// `incomplete_details.reason`.
    reason: Option<String>,
    /// `error.code` and `error.message`.
    error: Option<(String, String)>,
}

impl Ending {
    pub(super) const OPEN: Ending = Ending {
        status: "in_progress",
        reason: None,
        error: None,
    };
    const QUEUED: Ending = Ending {
        status: "queued",
        ..Ending::OPEN
    };

    fn of(reply: &Reply) -> Self {
        let incomplete = |reason: &str| Ending {
            status: "incomplete",
            reason: Some(reason.to_owned()),
            error: None,
        };
        match &reply.stop {
            Stop::MaxTokens => incomplete("max_output_tokens"),
            Stop::ContentFilter => incomplete("content_filter"),
            Stop::Word(word) if word == "failed" => Ending::failed("server_error", "Failed by the script."),
            Stop::Word(reason) => incomplete(reason),
            Stop::Natural | Stop::Refusal | Stop::PauseTurn => Ending {
                status: "completed",
                ..Ending::OPEN
            },
        }
    }

    pub(super) fn failed(code: &str, message: &str) -> Self {
        Ending {
            status: "failed",
            reason: None,
            error: Some((code.to_owned(), message.to_owned())),
        }
    }
}

/// The response object, which says the request's own fields again.
pub(super) fn object(seen: &Seen, ending: &Ending, output: &[Value], usage: &Value) -> Value {
    let body = &seen.body;
    let said = |key: &str, default: Value| match body.get(key) {
        Some(value) if !value.is_null() => value.clone(),
        _ => default,
    };
    let done = ending.status == "completed";
    let error = ending.error.as_ref();
    let reason = ending.reason.as_ref();
    let mut response = json!({
        "id": id(seen), "object": "response", "created_at": seen.received, "status": ending.status,
        "completed_at": done.then_some(seen.received), "background": said("background", json!(false)),
        "error": error.map(|(code, message)| json!({"code": code, "message": message})),
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "instructions": said("instructions", Value::Null),
        "max_output_tokens": said("max_output_tokens", Value::Null), "model": text(body, "model"),
        "output": output, "parallel_tool_calls": said("parallel_tool_calls", json!(true)),
        "previous_response_id": said("previous_response_id", Value::Null),
        "prompt_cache_key": said("prompt_cache_key", Value::Null),
        "reasoning": said("reasoning", json!({"effort": null, "summary": null})), "service_tier": "default",
        "store": said("store", json!(true)), "temperature": said("temperature", json!(1.0)),
        "text": echoed_text(said("text", json!({}))),
        "tool_choice": said("tool_choice", json!("auto")), "tools": echoed_tools(body),
        "top_p": said("top_p", json!(1.0)), "truncation": said("truncation", json!("disabled")), "usage": usage,
        "metadata": said("metadata", json!({})),
    });
    if let Some(conversation) = items::conversation(body) {
        response["conversation"] = json!({"id": conversation});
    }
    let moved = if done { binding::moved(seen) } else { Vec::new() };
    let removed = moved
        .into_iter()
        .map(|id| json!({"id": id, "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}));
    let removed: Vec<Value> = removed.collect();
    if !removed.is_empty() {
        response["input_transformations"] = Value::Array(removed);
    }
    response
}

/// The id of the response to a request.
pub(super) fn id(seen: &Seen) -> String {
    made_up_id("resp_", seen, 0)
}

/// The form of the text as it was asked for; plain text where that was not said.
fn echoed_text(mut text: Value) -> Value {
    if text.get("format").is_none_or(Value::is_null) {
        text["format"] = json!({"type": "text"});
    }
    text
}

/// Tools as they are, but `strict` is said where the request left it to the API.
fn echoed_tools(body: &Value) -> Vec<Value> {
    let mut tools = list(body, "tools").to_vec();
    for tool in &mut tools {
        if text(tool, "type") == "function" && tool.get("strict").is_none_or(Value::is_null) {
            tool["strict"] = json!(
                tool.get("parameters")
                    .is_some_and(|schema| tools::loose(schema).is_none())
            );
        }
    }
    tools
}

pub(super) fn usage_object(usage: &Usage, thoughts: usize) -> Value {
    json!({
        "input_tokens": usage.prompt(),
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": thoughts.min(usage.output)},
        "total_tokens": usage.prompt() + usage.output,
    })
}

/// Stores what the request wants stored.
fn keep(seen: &Seen, response: &Value, output: &[Value]) {
    let input = stored_input(seen);
    if let Some(conversation) = items::conversation(&seen.body) {
        let new = input.iter().chain(output).cloned().collect();
        seen.memory.converse(conversation, new);
    }
    if response["store"] == true {
        let stored = Stored {
            body: response.clone(),
            transcript: seen
                .recalled
                .iter()
                .chain(&input)
                .chain(output)
                .cloned()
                .collect(),
            input,
        };
        seen.memory.store(id(seen), stored);
    }
}

/// The request's own items with an id each; references are resolved.
fn stored_input(seen: &Seen) -> Vec<Value> {
    let mut own = items::whole(seen).split_off(seen.recalled.len());
    for (n, item) in own.iter_mut().enumerate() {
        if text(item, "id").is_empty() {
            let prefix = match items::kind(item) {
                "message" => "msg_",
                "function_call" => "fc_",
                "custom_tool_call" => "ctc_",
                "reasoning" => "rs_",
                _ => "item_",
            };
            // Slots far beyond those of the output's own ids.
            item["id"] = json!(made_up_id(prefix, seen, 10_000 + n));
        }
    }
    own
}
