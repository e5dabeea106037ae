//! The events of a streamed response.

use bytes::Bytes;
use serde_json::{Value, json};

use super::response::{ResponseStatus, object};
use crate::dialect::Received;
use crate::fields::{list, text};
use crate::reply::{Reply, pieces};

/// One server-sent event: its type first, its sequence number last.
pub(super) fn event(kind: &str, number: usize, fields: Value) -> Bytes {
    let mut data = json!({"type": kind});
    if let Value::Object(fields) = fields {
        for (key, value) in fields {
            data[key] = value;
        }
    }
    data["sequence_number"] = json!(number);
    format!("event: {kind}\ndata: {data}\n\n").into()
}

/// The event that ends a failed stream: `response.failed`, or `error` where `kind` is that word.
pub(super) fn error(request: &Received, at: usize, kind: &str, message: &str) -> Bytes {
    if kind == "error" {
        return event(
            "error",
            at,
            json!({"code": "server_error", "message": message, "param": null}),
        );
    }
    let failed = object(request, &ResponseStatus::failed(kind, message), &[], &Value::Null);
    event("response.failed", at, json!({"response": failed}))
}

/// All events of a stream.
pub(super) fn events(
    request: &Received,
    reply: &Reply,
    output: &[Value],
    ending: &ResponseStatus,
    response: &Value,
) -> Vec<Bytes> {
    let mut stream = EventWriter {
        events: Vec::new(),
        size: reply.delivery.delta,
    };
    let open = object(request, &ResponseStatus::OPEN, &[], &Value::Null);
    stream.push("response.created", json!({"response": open}));
    stream.push("response.in_progress", json!({"response": open}));
    for (index, item) in output.iter().enumerate() {
        stream.item(index, item);
    }
    stream.push(
        &format!("response.{}", ending.status),
        json!({"response": response}),
    );
    stream.events
}

/// The events so far.
struct EventWriter {
    events: Vec<Bytes>,
    /// Characters in a delta.
    size: usize,
}

impl EventWriter {
    fn push(&mut self, kind: &str, fields: Value) {
        self.events.push(event(kind, self.events.len(), fields));
    }

    fn item(&mut self, index: usize, item: &Value) {
        let mut start = item.clone();
        if start.get("status").is_some() {
            start["status"] = json!("in_progress");
        }
        for (key, empty) in [
            ("summary", json!([])),
            ("encrypted_content", json!("")),
            ("content", json!([])),
            ("arguments", json!("")),
            ("input", json!("")),
        ] {
            if start.get(key).is_some() {
                start[key] = empty;
            }
        }
        let kind = text(item, "type");
        let has_deltas = matches!(
            kind,
            "reasoning" | "message" | "function_call" | "custom_tool_call"
        );
        // A `Part::Block` has no deltas.
        let start = if has_deltas { &start } else { item };
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": start}),
        );
        match kind {
            "reasoning" => self.reasoning(index, item),
            "message" => self.message(index, item),
            "function_call" => self.arguments(index, item),
            "custom_tool_call" => self.input(index, item),
            _ => {}
        }
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
    }

    fn reasoning(&mut self, index: usize, item: &Value) {
        for (n, part) in list(item, "summary").iter().enumerate() {
            let place = json!({"item_id": item["id"], "output_index": index, "summary_index": n});
            let empty = json!({"type": "summary_text", "text": ""});
            self.push(
                "response.reasoning_summary_part.added",
                with(&place, "part", &empty),
            );
            let kind = "response.reasoning_summary_text.delta";
            for piece in pieces(text(part, "text"), self.size) {
                self.push(kind, with(&place, "delta", &json!(piece)));
            }
            let done = with(&place, "text", &part["text"]);
            self.push("response.reasoning_summary_text.done", done);
            self.push("response.reasoning_summary_part.done", with(&place, "part", part));
        }
    }

    fn message(&mut self, index: usize, item: &Value) {
        for (n, part) in list(item, "content").iter().enumerate() {
            let place = json!({"item_id": item["id"], "output_index": index, "content_index": n});
            let refused = text(part, "type") == "refusal";
            let (key, name) = if refused {
                ("refusal", "refusal")
            } else {
                ("text", "output_text")
            };
            let mut empty = part.clone();
            empty[key] = json!("");
            self.push("response.content_part.added", with(&place, "part", &empty));
            for piece in pieces(text(part, key), self.size) {
                let delta = with(&place, "delta", &json!(piece));
                self.push(&format!("response.{name}.delta"), with_logprobs(delta, refused));
            }
            let done = with(&place, key, &part[key]);
            self.push(&format!("response.{name}.done"), with_logprobs(done, refused));
            self.push("response.content_part.done", with(&place, "part", part));
        }
    }

    fn arguments(&mut self, index: usize, item: &Value) {
        let place = json!({"item_id": item["id"], "output_index": index});
        for piece in pieces(text(item, "arguments"), self.size) {
            let delta = with(&place, "delta", &json!(piece));
            self.push("response.function_call_arguments.delta", delta);
        }
        let done = with(
            &with(&place, "name", &item["name"]),
            "arguments",
            &item["arguments"],
        );
        self.push("response.function_call_arguments.done", done);
    }

    fn input(&mut self, index: usize, item: &Value) {
        let place = json!({"item_id": item["id"], "output_index": index});
        for piece in pieces(text(item, "input"), self.size) {
            let delta = with(&place, "delta", &json!(piece));
            self.push("response.custom_tool_call_input.delta", delta);
        }
        let done = with(&place, "input", &item["input"]);
        self.push("response.custom_tool_call_input.done", done);
    }
}

fn with(place: &Value, key: &str, value: &Value) -> Value {
    let mut out = place.clone();
    out[key] = value.clone();
    out
}

/// Text events have logprobs; refusals do not.
fn with_logprobs(fields: Value, refused: bool) -> Value {
    if refused {
        fields
    } else {
        with(&fields, "logprobs", &json!([]))
    }
}
