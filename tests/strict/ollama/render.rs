//! A reply as a chat response, or as a stream of JSON lines.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{Received, RenderedBody, derived_id};
use crate::fields::text;
use crate::reply::{Arguments, Part, Reply, Stop, pieces};
use crate::usage::Usage;

/// The creation date of every reply: the API writes one, and no client reads it.
const CREATED: &str = "2026-11-21T10:00:00Z";

pub(super) fn render(request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
    if !request.stream() {
        return RenderedBody::json(&ended(request, &whole(request, reply), reply, usage));
    }
    let mut events: Vec<Bytes> = Vec::new();
    let mut calls = 0;
    for (at, part) in reply.parts.iter().enumerate() {
        for message in messages(request, part, at, &mut calls, reply.delivery.delta) {
            events.push(line(&chunk(request, &message)));
        }
    }
    let last = json!({"role": "assistant", "content": ""});
    events.push(line(&ended(request, &last, reply, usage)));
    RenderedBody {
        content_type: Some("application/x-ndjson"),
        ..RenderedBody::stream(events)
    }
}

/// One line of a stream.
pub(super) fn line(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

/// A chunk that is not the last.
pub(super) fn chunk(request: &Received, message: &Value) -> Value {
    json!({
        "model": text(&request.body, "model"), "created_at": CREATED, "message": message, "done": false,
    })
}

fn ended(request: &Received, message: &Value, reply: &Reply, usage: &Usage) -> Value {
    let reason = match &reply.stop {
        Stop::MaxTokens => "length",
        Stop::Word(word) => word,
        _ => "stop",
    };
    json!({
        "model": text(&request.body, "model"), "created_at": CREATED, "message": message, "done": true,
        "done_reason": reason, "total_duration": 9, "load_duration": 1, "prompt_eval_count": usage.prompt(),
        "prompt_eval_duration": 4, "eval_count": usage.output, "eval_duration": 4,
    })
}

fn call(
    request: &Received,
    at: usize,
    index: usize,
    id: Option<&String>,
    name: &str,
    arguments: &Arguments,
) -> Value {
    let id = id.cloned().unwrap_or_else(|| derived_id("call_", request, at));
    let function = json!({"index": index, "name": name, "arguments": arguments.value()});
    if id.is_empty() {
        return json!({"function": function});
    }
    json!({"id": id, "function": function})
}

/// The messages by which one part is streamed.
fn messages(request: &Received, part: &Part, at: usize, calls: &mut usize, size: usize) -> Vec<Value> {
    let member = |key: &str, text: &str| {
        let pieces = pieces(text, size).into_iter();
        pieces
            .map(|piece| {
                let mut message = json!({"role": "assistant", "content": ""});
                message[key] = json!(piece);
                message
            })
            .collect()
    };
    match part {
        Part::Thinking(text) => member("thinking", text),
        Part::Text(text) => member("content", text),
        Part::Call { id, name, arguments } => {
            let call = call(request, at, *calls, id.as_ref(), name, arguments);
            *calls += 1;
            vec![json!({"role": "assistant", "content": "", "tool_calls": [call]})]
        }
        Part::Block(message) => vec![message.clone()],
        Part::Redacted => Vec::new(),
    }
}

fn whole(request: &Received, reply: &Reply) -> Value {
    let (mut content, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for (at, part) in reply.parts.iter().enumerate() {
        match part {
            Part::Thinking(text) => thought.push_str(text),
            Part::Text(text) => content.push_str(text),
            Part::Call { id, name, arguments } => {
                calls.push(call(request, at, calls.len(), id.as_ref(), name, arguments));
            }
            Part::Block(_) | Part::Redacted => {}
        }
    }
    let mut message = json!({"role": "assistant", "content": content});
    if !thought.is_empty() {
        message["thinking"] = json!(thought);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}
