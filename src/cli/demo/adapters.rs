//! Adapters by which the scripted agent speaks each wire, one row each. Without streaming: a reply in one piece shows the
//! same cut.

use serde_json::{Value, json};

use super::script::{DemoLength, PREAMBLE, SYSTEM, TOOLS, wish};
use baton_core::record::WireId;
use baton_core::transcript::{TranscriptPartKind, TranscriptTurn};
use baton_core::wire::Role;

/// How the agent speaks one wire.
pub(super) struct Adapter {
    /// The wire.
    pub(super) wire: WireId,
    pub(super) path: &'static str,
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The history at the start.
    pub(super) opening: fn(DemoLength) -> Vec<Value>,
    /// The request body for a history.
    pub(super) body: fn(&[Value]) -> Value,
    /// Reads a reply: the messages that it adds to the history.
    pub(super) reply: fn(&Value) -> Option<Vec<Value>>,
    /// Appends the calls' results to the history.
    pub(super) results: fn(&[(AgentCall, String)]) -> Vec<Value>,
}

/// A tool call for the agent. On some wires calls have no id.
pub(super) struct AgentCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// The calls in the messages of a reply.
pub(super) fn calls(messages: &[Value]) -> Vec<AgentCall> {
    let each = messages.iter().flat_map(|message| {
        let message = message.to_string();
        let parts = TranscriptTurn::alone(message.as_bytes(), Role::Assistant).parts();
        let calls = parts.into_iter().filter_map(|part| match part.kind {
            TranscriptPartKind::Call(call) => Some(AgentCall {
                id: call.id.map(|id| id.get().into_owned()),
                name: call.name?.get().into_owned(),
                arguments: serde_json::from_str(&call.arguments?.get()).unwrap_or_default(),
            }),
            _ => None,
        });
        calls.collect::<Vec<_>>()
    });
    each.collect()
}

/// The wires that the agent can speak.
pub(super) const ADAPTERS: &[Adapter] = &[
    Adapter {
        wire: WireId::Anthropic,
        path: "/v1/messages",
        headers: &[("anthropic-version", "2023-06-01"), ("x-api-key", "sk-demo")],
        opening: |script| {
            let blocks = opening_texts(script).map(|text| json!({"type": "text", "text": text}));
            vec![json!({"role": "user", "content": blocks})]
        },
        body: |history| {
            json!({
                "model": "claude-demo", "max_tokens": 8192, "thinking": {"type": "enabled", "budget_tokens": 4096},
                "system": SYSTEM, "tools": tools("input_schema"), "messages": history,
            })
        },
        reply: |reply| {
            let content = reply.get("content")?;
            Some(vec![json!({"role": "assistant", "content": content})])
        },
        results: |results| {
            let block = |(call, text): &(AgentCall, String)| json!({"type": "tool_result", "tool_use_id": call.id, "content": text});
            let blocks: Vec<_> = results.iter().map(block).collect();
            vec![json!({"role": "user", "content": blocks})]
        },
    },
    Adapter {
        wire: WireId::OpenaiChat,
        path: "/v1/chat/completions",
        headers: &[("authorization", "Bearer sk-demo")],
        opening: messages,
        body: |history| json!({"model": "gpt-demo", "messages": history, "tools": functions()}),
        reply: |reply| Some(vec![reply.pointer("/choices/0/message")?.clone()]),
        results: |results| {
            let message = |(call, text): &(AgentCall, String)| json!({"role": "tool", "tool_call_id": call.id, "content": text});
            results.iter().map(message).collect()
        },
    },
    Adapter {
        wire: WireId::OpenaiResponses,
        path: "/v1/responses",
        headers: &[("authorization", "Bearer sk-demo")],
        opening: |script| messages(script).split_off(1),
        body: |history| {
            let tools = tools("parameters").into_iter().map(|mut tool| {
                tool["type"] = json!("function");
                tool["strict"] = json!(false);
                tool
            });
            json!({
                "model": "gpt-demo", "instructions": SYSTEM, "input": history, "tools": tools.collect::<Vec<_>>(),
                "store": false, "include": ["reasoning.encrypted_content"],
            })
        },
        reply: |reply| reply.get("output")?.as_array().cloned(),
        results: |results| {
            let item = |(call, text): &(AgentCall, String)| json!({"type": "function_call_output", "call_id": call.id, "output": text});
            results.iter().map(item).collect()
        },
    },
    Adapter {
        wire: WireId::Gemini,
        path: "/v1beta/models/gemini-demo:generateContent",
        headers: &[("x-goog-api-key", "sk-demo")],
        opening: |script| {
            let parts = opening_texts(script).map(|text| json!({"text": text}));
            vec![json!({"role": "user", "parts": parts})]
        },
        body: |history| {
            json!({
                "systemInstruction": {"parts": [{"text": SYSTEM}]}, "contents": history,
                "tools": [{"functionDeclarations": tools("parametersJsonSchema")}],
            })
        },
        reply: |reply| Some(vec![reply.pointer("/candidates/0/content")?.clone()]),
        results: |results| {
            let part = |(call, text): &(AgentCall, String)| {
                let mut response = json!({"name": call.name, "response": {"output": text}});
                if let Some(id) = &call.id {
                    response["id"] = json!(id);
                }
                json!({"functionResponse": response})
            };
            let parts: Vec<_> = results.iter().map(part).collect();
            vec![json!({"role": "user", "parts": parts})]
        },
    },
    Adapter {
        wire: WireId::Ollama,
        path: "/api/chat",
        headers: &[],
        opening: messages,
        body: |history| json!({"model": "demo", "stream": false, "messages": history, "tools": functions()}),
        reply: |reply| Some(vec![reply.get("message")?.clone()]),
        results: |results| {
            let message = |(call, text): &(AgentCall, String)| json!({"role": "tool", "tool_name": call.name, "content": text});
            results.iter().map(message).collect()
        },
    },
];

/// The harness's preamble and the person's words.
fn opening_texts(script: DemoLength) -> [String; 2] {
    [PREAMBLE.to_owned(), wish(script)]
}

/// Messages of their own, after the system prompt.
fn messages(script: DemoLength) -> Vec<Value> {
    let [preamble, wish] = opening_texts(script).map(|text| json!({"role": "user", "content": text}));
    vec![json!({"role": "system", "content": SYSTEM}), preamble, wish]
}

/// The tools, with their schemas under the wire's own member name.
fn tools(schema: &str) -> Vec<Value> {
    let tool = |(name, text, keys): &(&str, &str, &[&str])| {
        let properties: serde_json::Map<_, _> = keys
            .iter()
            .map(|key| ((*key).to_owned(), json!({"type": "string"})))
            .collect();
        let arguments = json!({"type": "object", "properties": properties, "required": keys});
        json!({"name": name, "description": text, schema: arguments})
    };
    TOOLS.iter().map(tool).collect()
}

fn functions() -> Vec<Value> {
    let function = |tool| json!({"type": "function", "function": tool});
    tools("parameters").into_iter().map(function).collect()
}
