//! An agent for the tests of the autopilot. It offers one tool and answers its calls, on any wire.

use http::HeaderValue;
use serde_json::{Value, json};

use super::super::{Autopilot, HANDOFF};
use crate::api::Wire;
use crate::complaint::Rule;
use crate::dialect::Received;
use crate::model::Model;
use crate::transcript::ToolCall;
use crate::usage::Usage;

pub(super) const WIRES: [Wire; 5] = [
    Wire::Anthropic,
    Wire::OpenAiChat,
    Wire::OpenAiResponses,
    Wire::Gemini,
    Wire::Ollama,
];

/// Next step for the agent and its proxy after a reply.
#[derive(Debug, PartialEq)]
pub(super) enum AutopilotOutcome {
    Call,
    Handoff(String),
    Both,
    Text(String),
}

pub(super) struct AutopilotAgent {
    wire: Wire,
    handoff: bool,
    pub(super) messages: Vec<Value>,
    last: Received,
    pub(super) complaints: Vec<(Rule, String)>,
}

impl AutopilotAgent {
    /// Starts a session. `handoff` tells whether the handoff is on offer as well.
    pub(super) fn new(wire: Wire, handoff: bool, prompt: &str) -> Self {
        let mut last = Received::for_test(wire, path(wire), Value::Null);
        last.number = 0;
        AutopilotAgent {
            wire,
            handoff,
            messages: vec![message(wire, prompt)],
            last,
            complaints: Vec::new(),
        }
    }

    fn request(&self) -> Received {
        let schema =
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        let mut tools = vec![("read_file", schema)];
        if self.handoff {
            tools.push((HANDOFF, json!({"type": "object"})));
        }
        let body = body(self.wire, &tools, &self.messages);
        let mut received = Received::for_test(self.wire, path(self.wire), body);
        let version = HeaderValue::from_static("2023-06-01");
        received.headers.insert("anthropic-version", version);
        received.number = self.last.number + 1;
        received.memory = self.last.memory.clone();
        received
    }

    /// Sends one request. The history grows by the reply and the results of its calls.
    pub(super) fn turn(&mut self) -> AutopilotOutcome {
        let received = self.request();
        self.complaints.extend(received.violations());
        let before = received.turns().len();
        let reply = Autopilot.reply(&received);
        let rendered = received.dialect.render(&received, &reply, &Usage::default());
        let reply: Value = serde_json::from_slice(&rendered.events[0]).unwrap();
        self.last = received;
        self.messages.extend(stored_messages(self.wire, &reply));
        let new = self.request().turns().split_off(before);
        let calls: Vec<ToolCall> = new.iter().flat_map(|turn| turn.calls.clone()).collect();
        self.messages.extend(answers(self.wire, &calls));
        let prompt = calls
            .iter()
            .find(|call| call.name == HANDOFF)
            .map(|call| &call.arguments["prompt"]);
        match (prompt, calls.len()) {
            (None, 0) => AutopilotOutcome::Text(new.iter().flat_map(|turn| turn.texts.clone()).collect()),
            (None, _) => AutopilotOutcome::Call,
            (Some(prompt), 1) => AutopilotOutcome::Handoff(prompt.as_str().unwrap().to_owned()),
            (Some(_), _) => AutopilotOutcome::Both,
        }
    }

    /// Starts over with a carry-over prompt.
    pub(super) fn hand_over(&mut self, prompt: &str) {
        self.messages = vec![message(self.wire, prompt)];
    }

    /// Adds a user message.
    pub(super) fn say(&mut self, text: &str) {
        self.messages.push(message(self.wire, text));
    }
}

fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "/v1/messages",
        Wire::OpenAiChat => "/v1/chat/completions",
        Wire::OpenAiResponses => "/v1/responses",
        Wire::Gemini => "/v1beta/models/gemini-4-argon:generateContent",
        Wire::Ollama => "/api/chat",
    }
}

fn message(wire: Wire, text: &str) -> Value {
    match wire {
        Wire::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
        _ => json!({"role": "user", "content": text}),
    }
}

fn body(wire: Wire, tools: &[(&str, Value)], messages: &[Value]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|(name, schema)| match wire {
            Wire::Anthropic => json!({"name": name, "input_schema": schema}),
            Wire::OpenAiChat | Wire::Ollama => {
                json!({"type": "function", "function": {"name": name, "parameters": schema}})
            }
            Wire::OpenAiResponses => {
                json!({"type": "function", "name": name, "parameters": schema, "strict": false})
            }
            Wire::Gemini => json!({"name": name, "parametersJsonSchema": schema}),
        })
        .collect();
    match wire {
        Wire::Gemini => {
            let thinking = json!({"thinkingConfig": {"includeThoughts": true}});
            json!({"contents": messages, "tools": [{"functionDeclarations": tools}], "generationConfig": thinking})
        }
        Wire::OpenAiResponses => json!({
            "model": "m", "tools": tools, "input": messages, "store": false,
            "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"},
        }),
        _ => json!({"model": "m", "max_tokens": 99, "tools": tools, "messages": messages, "stream": false}),
    }
}

/// Messages that an agent adds to its history for a reply.
fn stored_messages(wire: Wire, reply: &Value) -> Vec<Value> {
    match wire {
        Wire::Anthropic => vec![json!({"role": "assistant", "content": reply["content"]})],
        Wire::OpenAiChat => vec![reply["choices"][0]["message"].clone()],
        Wire::OpenAiResponses => reply["output"].as_array().unwrap().clone(),
        Wire::Gemini => vec![reply["candidates"][0]["content"].clone()],
        Wire::Ollama => vec![reply["message"].clone()],
    }
}

fn answers(wire: Wire, calls: &[ToolCall]) -> Vec<Value> {
    let each = |answer: &dyn Fn(&ToolCall) -> Value| calls.iter().map(answer).collect::<Vec<Value>>();
    let in_one = |key: &str, blocks: Vec<Value>| {
        let message = json!({"role": "user", key: blocks});
        if calls.is_empty() {
            Vec::new()
        } else {
            vec![message]
        }
    };
    match wire {
        Wire::Anthropic => {
            let block =
                |call: &ToolCall| json!({"type": "tool_result", "tool_use_id": call.id, "content": "ok"});
            in_one("content", each(&block))
        }
        Wire::OpenAiChat => each(&|call| json!({"role": "tool", "tool_call_id": call.id, "content": "ok"})),
        Wire::OpenAiResponses => {
            each(&|call| json!({"type": "function_call_output", "call_id": call.id, "output": "ok"}))
        }
        Wire::Gemini => {
            let response = |call: &ToolCall| {
                let output = json!({"output": "ok"});
                json!({"functionResponse": {"id": call.id, "name": call.name, "response": output}})
            };
            in_one("parts", each(&response))
        }
        Wire::Ollama => each(&|call| json!({"role": "tool", "tool_name": call.name, "content": "ok"})),
    }
}
