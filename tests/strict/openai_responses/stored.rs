//! The endpoints of stored things (responses, their input items, conversations), and compaction, which shortens a
//! transcript.

use http::Method;
use serde_json::{Value, json};

use super::binding::ItemPrefix;
use super::response::usage_object;
use super::transcript::{self, kind};
use crate::api::Endpoint;
use crate::dialect::{Received, derived_id};
use crate::fields::text;
use crate::memory::StoredResponse;
use crate::openai_error;
use crate::usage::Usage;

/// Answers every request that does not ask the model for a reply.
pub(super) fn answer(request: &Received, usage: &Usage) -> (u16, Value) {
    if request.endpoint == Endpoint::Compact {
        return (200, compact(request, usage));
    }
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    // Azure serves this API under a prefix.
    let path = path.trim_start_matches("/openai").trim_start_matches("/v1/");
    let segments: Vec<&str> = path.split('/').collect();
    match segments[..] {
        ["conversations"] => (200, open_conversation(request)),
        ["responses", id] if request.method == Method::DELETE => delete(request, id),
        ["responses", id] | ["responses", id, "cancel"] => found(request, id, |stored| stored.body),
        ["responses", id, "input_items"] => found(request, id, |stored| listed(stored.input, query)),
        _ => missing(request),
    }
}

/// All user messages, and one compaction item that replaces the rest.
fn compact(request: &Received, usage: &Usage) -> Value {
    let whole = transcript::all(request);
    let users = whole
        .iter()
        .filter(|item| kind(item) == "message" && text(item, "role") == "user");
    let mut output: Vec<Value> = users
        .enumerate()
        .map(|(n, item)| {
            let content = match &item["content"] {
                Value::String(string) => json!([{"type": "input_text", "text": string}]),
                parts => parts.clone(),
            };
            let id = derived_id("msg_", request, 20_000 + n);
            json!({"id": id, "type": "message", "status": "completed", "role": "user", "content": content})
        })
        .collect();
    let encrypted = ItemPrefix::whole(request).seal();
    let id = derived_id("cmp_", request, 0);
    output.push(json!({"id": id, "type": "compaction", "encrypted_content": encrypted}));
    let usage = Usage { output: 1, ..*usage };
    json!({
        "id": derived_id("resp_", request, 0), "object": "response.compaction", "created_at": request.received,
        "output": output, "usage": usage_object(&usage, 0),
    })
}

fn open_conversation(request: &Received) -> Value {
    let id = derived_id("conv_", request, 0);
    let items = request
        .body
        .get("items")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    request.memory.append_to_conversation(&id, items);
    let metadata = request.body.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"id": id, "object": "conversation", "created_at": request.received, "metadata": metadata})
}

fn delete(request: &Received, id: &str) -> (u16, Value) {
    if request.memory.delete(id) {
        (200, json!({"id": id, "object": "response", "deleted": true}))
    } else {
        missing(request)
    }
}

fn found(request: &Received, id: &str, show: impl FnOnce(StoredResponse) -> Value) -> (u16, Value) {
    request
        .memory
        .response(id)
        .map_or_else(|| missing(request), |stored| (200, show(stored)))
}

/// A list of items, newest first unless requested otherwise.
fn listed(mut items: Vec<Value>, query: &str) -> Value {
    if !query.split('&').any(|pair| pair == "order=asc") {
        items.reverse();
    }
    let id = |item: Option<&Value>| item.map_or("", |item| text(item, "id")).to_owned();
    let (first, last) = (id(items.first()), id(items.last()));
    json!({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": false})
}

fn missing(request: &Received) -> (u16, Value) {
    let path = request.path.split('?').next().unwrap_or("");
    let id = path
        .split('/')
        .find(|segment| segment.starts_with("resp_"))
        .unwrap_or(path);
    let message = format!("Response with id '{id}' not found.");
    (404, openai_error::body(404, &message))
}
