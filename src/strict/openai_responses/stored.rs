//! What the provider keeps, and gives out or forgets when asked: responses, their input, conversations; and
//! compaction, which makes a short transcript of a long one.

use http::Method;
use serde_json::{Value, json};

use super::binding::Prefix;
use super::items::{self, kind};
use super::render::usage_object;
use super::{OpenAiResponses, text};
use crate::strict::dialect::{Dialect, Endpoint};
use crate::strict::exchange::made_up_id;
use crate::strict::model::Seen;
use crate::strict::usage::Usage;

/// Answers everything that asks for no reply of the model.
pub(super) fn answer(seen: &Seen, usage: &Usage) -> (u16, Value) {
    if seen.endpoint == Endpoint::Compact {
        return (200, compact(seen, usage));
    }
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    // Azure keeps this API in a folder.
    let path = path.trim_start_matches("/openai").trim_start_matches("/v1/");
    let segments: Vec<&str> = path.split('/').collect();
    match segments[..] {
        ["conversations"] => (200, open_conversation(seen)),
        ["responses", id] if seen.method == Method::DELETE => delete(seen, id),
        ["responses", id] | ["responses", id, "cancel"] => found(seen, id, |stored| stored.body),
        ["responses", id, "input_items"] => found(seen, id, |stored| listed(stored.input, query)),
        _ => missing(seen),
    }
}

/// All user messages, and one item that stands for the rest.
fn compact(seen: &Seen, usage: &Usage) -> Value {
    let whole = items::whole(seen);
    let users = whole
        .iter()
        .filter(|item| kind(item) == "message" && text(item, "role") == "user");
    let mut output: Vec<Value> = users
        .enumerate()
        .map(|(n, item)| {
            let content = match &item["content"] {
                Value::String(said) => json!([{"type": "input_text", "text": said}]),
                parts => parts.clone(),
            };
            let id = made_up_id("msg_", seen, 20_000 + n);
            json!({"id": id, "type": "message", "status": "completed", "role": "user", "content": content})
        })
        .collect();
    let encrypted = Prefix::whole(seen).stamp();
    let id = made_up_id("cmp_", seen, 0);
    output.push(json!({"id": id, "type": "compaction", "encrypted_content": encrypted}));
    let usage = Usage { output: 1, ..*usage };
    json!({
        "id": made_up_id("resp_", seen, 0), "object": "response.compaction", "created_at": seen.received,
        "output": output, "usage": usage_object(&usage, 0),
    })
}

fn open_conversation(seen: &Seen) -> Value {
    let id = made_up_id("conv_", seen, 0);
    let items = seen
        .body
        .get("items")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    seen.memory.converse(&id, items);
    let metadata = seen.body.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"id": id, "object": "conversation", "created_at": seen.received, "metadata": metadata})
}

fn delete(seen: &Seen, id: &str) -> (u16, Value) {
    if seen.memory.delete(id) {
        (200, json!({"id": id, "object": "response", "deleted": true}))
    } else {
        missing(seen)
    }
}

fn found(seen: &Seen, id: &str, show: impl FnOnce(super::memory::Stored) -> Value) -> (u16, Value) {
    seen.memory
        .response(id)
        .map_or_else(|| missing(seen), |stored| (200, show(stored)))
}

/// A list of items, the newest first unless asked otherwise.
fn listed(mut items: Vec<Value>, query: &str) -> Value {
    if !query.split('&').any(|pair| pair == "order=asc") {
        items.reverse();
    }
    let id = |item: Option<&Value>| item.map_or("", |item| text(item, "id")).to_owned();
    let (first, last) = (id(items.first()), id(items.last()));
    json!({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": false})
}

fn missing(seen: &Seen) -> (u16, Value) {
    let path = seen.path.split('?').next().unwrap_or("");
    let id = path
        .split('/')
        .find(|segment| segment.starts_with("resp_"))
        .unwrap_or(path);
    let message = format!("Response with id '{id}' not found.");
    (404, OpenAiResponses.error(404, &message))
}
