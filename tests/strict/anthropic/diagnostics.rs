//! Cache diagnosis: the difference between a request and the earlier one that it names by its response.

use serde_json::{Value, json};

use super::transcript::{as_blocks, canonical_form};
use crate::canonical;
use crate::dialect::{Received, derived_id};
use crate::fields::{list, text};

/// Value of `diagnostics` in the response, if the request asks for it. `prompt` is the number of input
/// tokens.
pub(super) fn of(request: &Received, prompt: u64) -> Option<Value> {
    let wanted = request
        .body
        .get("diagnostics")
        .filter(|wanted| !wanted.is_null())?;
    let id = derived_id("msg_", request, 0);
    request
        .memory
        .hold_request(id, json!({"body": request.body, "prompt": prompt}));
    let previous = text(wanted, "previous_message_id");
    if previous.is_empty() {
        return Some(Value::Null);
    }
    let Some(earlier) = request.memory.request(previous) else {
        return Some(json!({"cache_miss_reason": {"type": "previous_message_not_found"}}));
    };
    let reason = difference(&earlier["body"], &request.body)?;
    let missed = &earlier["prompt"];
    Some(json!({"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": missed}}))
}

/// First part of the prompt that differs from an earlier request.
fn difference(earlier: &Value, now: &Value) -> Option<&'static str> {
    let model = |body: &Value| [text(body, "model").to_owned(), text(body, "speed").to_owned()];
    let system = |body: &Value| canonical_texts(&as_blocks(body.get("system")));
    let tools = |body: &Value| canonical_texts(list(body, "tools"));
    if model(earlier) != model(now) {
        return Some("model_changed");
    }
    if system(earlier) != system(now) {
        return Some("system_changed");
    }
    if tools(earlier) != tools(now) {
        return Some("tools_changed");
    }
    (!messages(now).starts_with(&messages(earlier))).then_some("messages_changed")
}

fn canonical_texts(blocks: &[Value]) -> Vec<String> {
    blocks
        .iter()
        .map(|block| canonical::text(&canonical_form(block)))
        .collect()
}

fn messages(body: &Value) -> Vec<(String, Vec<String>)> {
    let message = |message: &Value| {
        let blocks = as_blocks(message.get("content"));
        (text(message, "role").to_owned(), canonical_texts(&blocks))
    };
    list(body, "messages").iter().map(message).collect()
}
