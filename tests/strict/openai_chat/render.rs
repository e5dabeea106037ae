//! A reply as a completion, or as a stream of chunks.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{Received, RenderedBody, derived_id};
use crate::fields::text;
use crate::reply::{CallStyle, Part, Reply, Stop, pieces};
use crate::usage::Usage;

pub(super) fn render(request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
    let frame = Frame::new(request);
    let choices = request.body.get("n").and_then(Value::as_u64).unwrap_or(1).max(1);
    let mut usage = *usage;
    usage.output *= usize::try_from(choices).unwrap_or(1);
    if request.stream() {
        return RenderedBody::stream(stream(request, reply, &usage, &frame, choices));
    }
    let choices: Vec<Value> = (0..choices).map(|index| choice(request, reply, index)).collect();
    let mut body = frame.object("chat.completion", choices);
    body["usage"] = usage_object(&usage);
    RenderedBody::json(&body)
}

/// One server-sent event.
pub(super) fn event(data: &Value) -> Bytes {
    format!("data: {data}\n\n").into()
}

/// What every chunk of one reply has in common.
struct Frame {
    id: String,
    created: u64,
    model: String,
}

impl Frame {
    fn new(request: &Received) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Frame {
            id: derived_id("chatcmpl-", request, 0),
            created: now.as_secs(),
            model: text(&request.body, "model").to_owned(),
        }
    }

    fn object(&self, kind: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": kind, "created": self.created, "model": self.model,
            "service_tier": "default", "system_fingerprint": "fp_strict", "choices": choices,
        })
    }
}

fn usage_object(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt(), "completion_tokens": usage.output,
        "total_tokens": usage.prompt() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

fn finish_reason(reply: &Reply) -> &str {
    match &reply.stop {
        Stop::MaxTokens => "length",
        Stop::ContentFilter => "content_filter",
        Stop::Word(word) => word,
        Stop::Natural if reply.calls() => "tool_calls",
        _ => "stop",
    }
}

fn call_id(given: Option<&String>, request: &Received, choice: u64, at: usize) -> String {
    // Each choice has calls of its own, so that no two of them share an id.
    let slot = at + 1000 * usize::try_from(choice).unwrap_or(0);
    given
        .cloned()
        .unwrap_or_else(|| derived_id("call_", request, slot))
}

fn choice(request: &Received, reply: &Reply, index: u64) -> Value {
    let (mut content, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for (at, part) in reply.parts.iter().enumerate() {
        match part {
            Part::Text(text) => content.push_str(text),
            Part::Thinking(text) => thought.push_str(text),
            Part::Call { id, name, arguments } => {
                let id = call_id(id.as_ref(), request, index, at);
                let function = json!({"name": name, "arguments": arguments.text()});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            Part::Redacted | Part::Block(_) => {}
        }
    }
    let refused = reply.stop == Stop::Refusal;
    let mut message = json!({"role": "assistant", "content": null, "refusal": null, "annotations": []});
    if refused {
        message["refusal"] = json!(content);
    } else if !content.is_empty() || calls.is_empty() {
        message["content"] = json!(content);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    if reply.delivery.reasoning && !thought.is_empty() {
        message["reasoning_content"] = json!(thought);
    }
    json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish_reason(reply)})
}

fn stream(request: &Received, reply: &Reply, usage: &Usage, frame: &Frame, choices: u64) -> Vec<Bytes> {
    let include = request
        .body
        .get("stream_options")
        .and_then(|options| options.get("include_usage"));
    let with_usage = include.and_then(Value::as_bool).unwrap_or(false);
    let chunk = |choices: Vec<Value>, usage: Value| {
        let mut chunk = frame.object("chat.completion.chunk", choices);
        if with_usage {
            chunk["usage"] = usage;
        }
        event(&chunk)
    };
    let per_choice: Vec<Vec<Value>> = (0..choices).map(|index| deltas(request, reply, index)).collect();
    let longest = per_choice.iter().map(Vec::len).max().unwrap_or(0);
    let mut events = Vec::new();
    // Choices interleave, as those of the real API do.
    for step in 0..=longest {
        for (index, deltas) in per_choice.iter().enumerate() {
            let (delta, finish) = match deltas.get(step) {
                Some(delta) => (delta.clone(), Value::Null),
                None if step == deltas.len() => (json!({}), json!(finish_reason(reply))),
                None => continue,
            };
            let choice = json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish});
            events.push(chunk(vec![choice], Value::Null));
        }
    }
    if with_usage {
        events.push(chunk(Vec::new(), usage_object(usage)));
    }
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

fn deltas(request: &Received, reply: &Reply, index: u64) -> Vec<Value> {
    let size = reply.delivery.delta;
    let says = reply.parts.iter().any(|part| matches!(part, Part::Text(_)));
    let content = if says { json!("") } else { Value::Null };
    let mut out = vec![json!({"role": "assistant", "content": content, "refusal": null})];
    let words = if reply.stop == Stop::Refusal {
        "refusal"
    } else {
        "content"
    };
    let mut calls = 0;
    for (at, part) in reply.parts.iter().enumerate() {
        match part {
            Part::Text(text) => {
                out.extend(pieces(text, size).into_iter().map(|piece| json!({words: piece})));
            }
            Part::Thinking(text) if reply.delivery.reasoning => {
                out.extend(
                    pieces(text, size)
                        .into_iter()
                        .map(|piece| json!({"reasoning_content": piece})),
                );
            }
            Part::Call { id, name, arguments } => {
                let id = call_id(id.as_ref(), request, index, at);
                let style = reply.delivery.call_style;
                for call in call_deltas(calls, &id, name, &arguments.text(), style, size) {
                    out.push(json!({"tool_calls": [call]}));
                }
                calls += 1;
            }
            _ => {}
        }
    }
    out
}

fn call_deltas(n: usize, id: &str, name: &str, arguments: &str, style: CallStyle, size: usize) -> Vec<Value> {
    let start = |name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"index": n, "id": id, "type": "function", "function": function})
    };
    let mut out = match style {
        CallStyle::OneChunk => return vec![start(name, arguments)],
        CallStyle::Standard => vec![start(name, "")],
        CallStyle::SplitName => {
            let half = name
                .char_indices()
                .nth(name.chars().count() / 2)
                .map_or(0, |(at, _)| at);
            let (head, tail) = name.split_at(half);
            let rest = json!({"index": n, "function": {"name": tail}});
            vec![start(head, ""), rest]
        }
        CallStyle::IdFirst => {
            let named = json!({"index": n, "function": {"name": name, "arguments": ""}});
            vec![json!({"index": n, "id": id, "type": "function"}), named]
        }
    };
    for piece in pieces(arguments, size) {
        out.push(json!({"index": n, "function": {"arguments": piece}}));
    }
    out
}
