//! A reply as a response body: whole, or as a stream of events.

use serde_json::{Value, json};

use super::response::{ResponseStatus, id, object, usage_object};
use super::{output, stream, transcript};
use crate::dialect::{Received, RenderedBody, derived_id};
use crate::fields::text;
use crate::memory::StoredResponse;
use crate::reply::Reply;
use crate::usage::{self, Usage};

pub(super) fn render(request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
    let output = output::items(request, reply);
    let ending = ResponseStatus::from_reply(reply);
    let usage = usage_object(usage, usage::thoughts(reply));
    let response = object(request, &ending, &output, &usage);
    store(request, &response, &output);
    if request.stream() {
        return RenderedBody::stream(stream::events(request, reply, &output, &ending, &response));
    }
    if response["background"] == true {
        return RenderedBody::json(&object(request, &ResponseStatus::QUEUED, &[], &Value::Null));
    }
    RenderedBody::json(&response)
}

/// Stores the response where the request asks for it, and appends to its conversation.
fn store(request: &Received, response: &Value, output: &[Value]) {
    let input = stored_input(request);
    if let Some(conversation) = transcript::conversation(&request.body) {
        let new = input.iter().chain(output).cloned().collect();
        request.memory.append_to_conversation(conversation, new);
    }
    if response["store"] == true {
        let stored = StoredResponse {
            body: response.clone(),
            transcript: request
                .stored_history
                .iter()
                .chain(&input)
                .chain(output)
                .cloned()
                .collect(),
            input,
        };
        request.memory.store(id(request), stored);
    }
}

/// The request's own items with an id each; references are resolved.
fn stored_input(request: &Received) -> Vec<Value> {
    let mut own = transcript::all(request).split_off(request.stored_history.len());
    for (n, item) in own.iter_mut().enumerate() {
        if text(item, "id").is_empty() {
            let prefix = match transcript::kind(item) {
                "message" => "msg_",
                "function_call" => "fc_",
                "custom_tool_call" => "ctc_",
                "reasoning" => "rs_",
                _ => "item_",
            };
            // Slots far above those of the output items' ids.
            item["id"] = json!(derived_id(prefix, request, 10_000 + n));
        }
    }
    own
}
