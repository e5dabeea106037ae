//! Formats a reply as a message, or as a stream of events.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::binding::{self, BlockPrefix};
use super::diagnostics;
use crate::dialect::{Received, RenderedBody, derived_id};
use crate::fields::text;
use crate::reply::{Arguments, Part, Reply, Stop, pieces};
use crate::usage::Usage;

pub(super) fn render(request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
    let blocks = blocks(request, reply);
    let verdicts = verdicts(request, &blocks);
    if request.body.get("thread").is_some_and(|thread| !thread.is_null()) {
        request.memory.hold_thread(derived_id("msg_", request, 0));
    }
    let diagnosis = diagnostics::of(request, usage.prompt() as u64);
    let diagnosed = |mut message: Value| {
        if let Some(diagnosis) = &diagnosis {
            message["diagnostics"] = diagnosis.clone();
        }
        message
    };
    let judged = |mut end: Value| {
        if let Some(verdicts) = &verdicts {
            end["safeguard_results"] = verdicts.clone();
        }
        end
    };
    if !request.stream() {
        let content: Vec<Value> = blocks.into_iter().map(|block| block.whole).collect();
        let message = judged(message(request, content, &stop_fields(reply), final_usage(usage)));
        return RenderedBody::json(&diagnosed(message));
    }
    let mut start_usage = final_usage(usage);
    start_usage["output_tokens"] = json!(usage.output.min(1));
    start_usage["cache_creation"] =
        json!({"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0});
    start_usage["service_tier"] = json!("standard");
    let unstopped = json!({"stop_reason": null, "stop_sequence": null, "stop_details": null});
    let start = diagnosed(message(request, Vec::new(), &unstopped, start_usage));
    let start = json!({"type": "message_start", "message": start});
    let mut events = vec![
        event("message_start", &start),
        event("ping", &json!({"type": "ping"})),
    ];
    for (index, block) in blocks.iter().enumerate() {
        block.stream(index, reply.delivery.delta, &mut events);
    }
    let end = judged(stop_fields(reply));
    let end = json!({"type": "message_delta", "delta": end, "usage": final_usage(usage)});
    events.push(event("message_delta", &end));
    events.push(event("message_stop", &json!({"type": "message_stop"})));
    RenderedBody::stream(events)
}

/// Formats a server-sent event.
pub(super) fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn message(request: &Received, content: Vec<Value>, stop: &Value, usage: Value) -> Value {
    let mut message = json!({
        "id": derived_id("msg_", request, 0), "type": "message", "role": "assistant",
        "model": text(&request.body, "model"), "content": content, "stop_reason": stop["stop_reason"],
        "stop_sequence": stop["stop_sequence"], "stop_details": stop["stop_details"], "usage": usage,
    });
    if let Some(transformations) = binding::input_transformations(request) {
        message["input_transformations"] = transformations;
    }
    message
}

fn final_usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output,
    })
}

fn stop_fields(reply: &Reply) -> Value {
    let reason = match &reply.stop {
        Stop::Natural if reply.calls() => "tool_use",
        Stop::Natural => "end_turn",
        Stop::MaxTokens => "max_tokens",
        Stop::Refusal | Stop::ContentFilter => "refusal",
        Stop::PauseTurn => "pause_turn",
        Stop::Word(word) => word,
    };
    let details = (reason == "refusal")
        .then(|| json!({"type": "refusal", "category": null, "explanation": "Refused by the script."}));
    json!({"stop_reason": reason, "stop_sequence": null, "stop_details": details})
}

/// What the safeguards that a request asks for say of each call.
fn verdicts(request: &Received, blocks: &[RenderedBlock]) -> Option<Value> {
    let asked = request.body.get("safeguards").and_then(Value::as_array)?;
    let calls = blocks
        .iter()
        .filter(|block| text(&block.whole, "type") == "tool_use");
    let fine = json!({"type": "evaluated", "outcome": "not_flagged"});
    let of_calls: Map<String, Value> = calls
        .map(|block| (text(&block.whole, "id").to_owned(), fine.clone()))
        .collect();
    let status = json!({"type": "available", "tool_uses": of_calls});
    let results = asked
        .iter()
        .map(|one| json!({"type": one["type"], "status": status}));
    Some(results.collect())
}

/// A content block of a message, and its arguments as they are streamed.
struct RenderedBlock {
    whole: Value,
    raw_arguments: Option<String>,
}

/// Blocks of the reply. Thinking is signed over the request and the blocks before it.
fn blocks(request: &Received, reply: &Reply) -> Vec<RenderedBlock> {
    let omitted = request
        .body
        .get("thinking")
        .is_some_and(|thinking| text(thinking, "display") == "omitted");
    let mut prefix = BlockPrefix::whole(&request.body);
    prefix.enter_role("assistant");
    let mut out = Vec::new();
    for (at, part) in reply.parts.iter().enumerate() {
        let (whole, raw_arguments) = match part {
            Part::Thinking(words) => {
                let words = if omitted { "" } else { words };
                let signature = prefix.sign(words);
                (
                    json!({"type": "thinking", "thinking": words, "signature": signature}),
                    None,
                )
            }
            Part::Redacted => (
                json!({"type": "redacted_thinking", "data": prefix.sign("")}),
                None,
            ),
            Part::Text(words) => (json!({"type": "text", "text": words}), None),
            Part::Call { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| derived_id("toolu_", request, at));
                (call(&id, name, arguments), Some(arguments.text()))
            }
            Part::Block(whole) => (whole.clone(), None),
        };
        if !matches!(part, Part::Thinking(_) | Part::Redacted) {
            prefix.push(&whole);
        }
        out.push(RenderedBlock { whole, raw_arguments });
    }
    out
}

fn call(id: &str, name: &str, arguments: &Arguments) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": arguments.value()})
}

impl RenderedBlock {
    fn stream(&self, index: usize, size: usize, events: &mut Vec<Bytes>) {
        let mut deltas = Vec::new();
        let start = match (text(&self.whole, "type"), &self.raw_arguments) {
            ("thinking", _) => {
                for piece in pieces(text(&self.whole, "thinking"), size) {
                    deltas.push(json!({"type": "thinking_delta", "thinking": piece}));
                }
                deltas.push(json!({"type": "signature_delta", "signature": self.whole["signature"]}));
                json!({"type": "thinking", "thinking": "", "signature": ""})
            }
            ("text", _) => {
                for piece in pieces(text(&self.whole, "text"), size) {
                    deltas.push(json!({"type": "text_delta", "text": piece}));
                }
                json!({"type": "text", "text": ""})
            }
            (_, Some(arguments)) => {
                deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
                for piece in pieces(arguments, size) {
                    deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
                }
                let mut start = self.whole.clone();
                start["input"] = json!({});
                start
            }
            _ => self.whole.clone(),
        };
        let start = json!({"type": "content_block_start", "index": index, "content_block": start});
        events.push(event("content_block_start", &start));
        for delta in deltas {
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            events.push(event("content_block_delta", &delta));
        }
        events.push(event(
            "content_block_stop",
            &json!({"type": "content_block_stop", "index": index}),
        ));
    }
}
