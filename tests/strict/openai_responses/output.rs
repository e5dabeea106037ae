//! A reply as output items.

use serde_json::{Value, json};

use super::binding::ItemPrefix;
use super::transcript;
use crate::dialect::{Received, derived_id};
use crate::fields::{list, text};
use crate::memory::ProducedItem;
use crate::reply::{Arguments, Part, Reply, Stop};

/// The reply's items; the encrypted content of reasoning covers the request and the items before it.
pub(super) fn items(request: &Received, reply: &Reply) -> Vec<Value> {
    let mut prefix = ItemPrefix::whole(request);
    let tools = transcript::tools(request);
    let (mut out, mut produced) = (Vec::<Value>::new(), Vec::<(String, ProducedItem)>::new());
    let mut reasoning = None;
    for (at, part) in reply.parts.iter().enumerate() {
        let mut known = ProducedItem::default();
        let item = match part {
            Part::Thinking(words) => {
                known.encrypted = Some(prefix.seal());
                thought(request, at, Some(words), &prefix.seal())
            }
            Part::Redacted => {
                known.encrypted = Some(prefix.seal());
                thought(request, at, None, &prefix.seal())
            }
            Part::Text(words) => message(request, reply, at, words),
            Part::Call { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| derived_id("call_", request, at));
                let tool = tools.iter().find(|tool| text(&tool.tool, "name") == name);
                call(request, at, &id, name, arguments, tool)
            }
            Part::Block(whole) => whole.clone(),
        };
        let id = text(&item, "id").to_owned();
        known.reasoning.clone_from(&reasoning);
        if let Some((_, before)) = produced.last_mut() {
            before.next = Some(id.clone());
        }
        if known.encrypted.is_some() {
            reasoning = Some(id.clone());
            known.reasoning = None;
        }
        produced.push((id, known));
        prefix.push(&item);
        out.push(item);
    }
    request.memory.record_produced(produced);
    if reply.stop == Stop::MaxTokens
        && let Some(last) = out.last_mut().filter(|last| last.get("status").is_some())
    {
        last["status"] = json!("incomplete");
    }
    out
}

fn thought(request: &Received, at: usize, words: Option<&String>, encrypted: &str) -> Value {
    let include = request
        .body
        .pointer("/reasoning/summary")
        .is_some_and(|summary| !summary.is_null());
    let summary = words
        .filter(|_| include)
        .map(|words| json!({"type": "summary_text", "text": words}));
    let summary: Vec<Value> = summary.into_iter().collect();
    let mut item = json!({"id": derived_id("rs_", request, at), "type": "reasoning", "summary": summary});
    let included = list(&request.body, "include");
    if included
        .iter()
        .any(|included| included == "reasoning.encrypted_content")
    {
        item["encrypted_content"] = json!(encrypted);
    }
    item
}

fn message(request: &Received, reply: &Reply, at: usize, words: &str) -> Value {
    let calls_follow = reply.parts[at..]
        .iter()
        .any(|part| matches!(part, Part::Call { .. }));
    let content = if reply.stop == Stop::Refusal {
        json!({"type": "refusal", "refusal": words})
    } else {
        json!({"type": "output_text", "annotations": [], "logprobs": [], "text": words})
    };
    json!({
        "id": derived_id("msg_", request, at), "type": "message", "status": "completed", "role": "assistant",
        "phase": if calls_follow { "commentary" } else { "final_answer" }, "content": [content],
    })
}

fn call(
    request: &Received,
    at: usize,
    call_id: &str,
    name: &str,
    arguments: &Arguments,
    tool: Option<&transcript::ListedTool>,
) -> Value {
    if tool.is_some_and(|tool| text(&tool.tool, "type") == "custom") {
        let input = match arguments {
            Arguments::Value(Value::String(input)) => input.clone(),
            other => other.text(),
        };
        return json!({
            "id": derived_id("ctc_", request, at), "type": "custom_tool_call", "status": "completed",
            "call_id": call_id, "name": name, "input": input,
        });
    }
    let mut item = json!({
        "id": derived_id("fc_", request, at), "type": "function_call", "status": "completed", "call_id": call_id,
        "name": name, "arguments": arguments.text(),
    });
    if let Some(namespace) = tool.and_then(|tool| tool.namespace.as_ref()) {
        item["namespace"] = json!(namespace);
    }
    item
}
