//! A reply as output items.

use serde_json::{Value, json};

use super::binding::Prefix;
use super::items;
use super::memory::Made;
use crate::strict::exchange::made_up_id;
use crate::strict::fields::{list, text};
use crate::strict::model::Seen;
use crate::strict::reply::{Arguments, Part, Reply, Stop};

/// The reply's items; reasoning is stamped over the request and the items before it.
pub(super) fn items(seen: &Seen, reply: &Reply) -> Vec<Value> {
    let mut prefix = Prefix::whole(seen);
    let tools = items::tools(seen);
    let (mut out, mut made) = (Vec::<Value>::new(), Vec::<(String, Made)>::new());
    let mut reasoning = None;
    for (at, part) in reply.parts.iter().enumerate() {
        let mut known = Made::default();
        let item = match part {
            Part::Thinking(said) => {
                known.stamp = Some(prefix.stamp());
                thought(seen, at, Some(said), &prefix.stamp())
            }
            Part::Redacted => {
                known.stamp = Some(prefix.stamp());
                thought(seen, at, None, &prefix.stamp())
            }
            Part::Text(said) => message(seen, reply, at, said),
            Part::Call { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| made_up_id("call_", seen, at));
                let tool = tools.iter().find(|tool| text(&tool.tool, "name") == name);
                call(seen, at, &id, name, arguments, tool)
            }
            Part::Block(whole) => whole.clone(),
        };
        let id = text(&item, "id").to_owned();
        known.reasoning.clone_from(&reasoning);
        if let Some((_, before)) = made.last_mut() {
            before.next = Some(id.clone());
        }
        if known.stamp.is_some() {
            reasoning = Some(id.clone());
            known.reasoning = None;
        }
        made.push((id, known));
        prefix.push(&item);
        out.push(item);
    }
    seen.memory.note(made);
    if reply.stop == Stop::MaxTokens
        && let Some(last) = out.last_mut().filter(|last| last.get("status").is_some())
    {
        last["status"] = json!("incomplete");
    }
    out
}

fn thought(seen: &Seen, at: usize, said: Option<&String>, stamp: &str) -> Value {
    let asked = seen
        .body
        .pointer("/reasoning/summary")
        .is_some_and(|summary| !summary.is_null());
    let summary = said
        .filter(|_| asked)
        .map(|said| json!({"type": "summary_text", "text": said}));
    let summary: Vec<Value> = summary.into_iter().collect();
    let mut item = json!({"id": made_up_id("rs_", seen, at), "type": "reasoning", "summary": summary});
    let included = list(&seen.body, "include");
    if included
        .iter()
        .any(|included| included == "reasoning.encrypted_content")
    {
        item["encrypted_content"] = json!(stamp);
    }
    item
}

fn message(seen: &Seen, reply: &Reply, at: usize, said: &str) -> Value {
    let calls_follow = reply.parts[at..]
        .iter()
        .any(|part| matches!(part, Part::Call { .. }));
    let content = if reply.stop == Stop::Refusal {
        json!({"type": "refusal", "refusal": said})
    } else {
        json!({"type": "output_text", "annotations": [], "logprobs": [], "text": said})
    };
    json!({
        "id": made_up_id("msg_", seen, at), "type": "message", "status": "completed", "role": "assistant",
        "phase": if calls_follow { "commentary" } else { "final_answer" }, "content": [content],
    })
}

fn call(
    seen: &Seen,
    at: usize,
    call_id: &str,
    name: &str,
    arguments: &Arguments,
    tool: Option<&items::Tool>,
) -> Value {
    if tool.is_some_and(|tool| text(&tool.tool, "type") == "custom") {
        let input = match arguments {
            Arguments::Value(Value::String(input)) => input.clone(),
            other => other.text(),
        };
        return json!({
            "id": made_up_id("ctc_", seen, at), "type": "custom_tool_call", "status": "completed",
            "call_id": call_id, "name": name, "input": input,
        });
    }
    let mut item = json!({
        "id": made_up_id("fc_", seen, at), "type": "function_call", "status": "completed", "call_id": call_id,
        "name": name, "arguments": arguments.text(),
    });
    if let Some(namespace) = tool.and_then(|tool| tool.namespace.as_ref()) {
        item["namespace"] = json!(namespace);
    }
    item
}
