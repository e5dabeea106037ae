use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use pretty_assertions::assert_eq;

use super::*;
use crate::strict::complaint::{Findings, Rule};
use crate::strict::dialect::Endpoint;
use crate::strict::usage::Usage;

/// What an agent and its proxy make of one reply.
#[derive(Debug, PartialEq)]
enum Did {
    Call,
    Handoff(String),
    Both,
    Text(String),
}

/// An agent that lists one tool of its own and, if `handoff`, the handoff, and does what is asked for.
struct Agent {
    wire: Wire,
    handoff: bool,
    messages: Vec<Value>,
    number: usize,
    complaints: Vec<(Rule, String)>,
}

impl Agent {
    fn new(wire: Wire, handoff: bool, prompt: &str) -> Self {
        let messages = vec![json!({"role": "user", "content": prompt})];
        Agent {
            wire,
            handoff,
            messages,
            number: 0,
            complaints: Vec::new(),
        }
    }

    fn request(&mut self) -> Seen {
        self.number += 1;
        let path =
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        let mut tools = vec![("read_file", path)];
        if self.handoff {
            tools.push((HANDOFF, json!({"type": "object"})));
        }
        let tools: Vec<Value> = tools
            .into_iter()
            .map(|(name, schema)| match self.wire {
                Wire::Anthropic => json!({"name": name, "input_schema": schema}),
                Wire::OpenAiChat => {
                    json!({"type": "function", "function": {"name": name, "parameters": schema}})
                }
            })
            .collect();
        let body = json!({"model": "m", "max_tokens": 99, "tools": tools, "messages": self.messages});
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        Seen {
            number: self.number,
            wire: self.wire,
            endpoint: Endpoint::Generate,
            method: Method::POST,
            path: String::new(),
            headers,
            raw: Bytes::from(body.to_string()),
            body,
        }
    }

    /// One request; the history grows by the reply and the results of its calls.
    fn turn(&mut self) -> Did {
        let seen = self.request();
        let mut findings = Findings::new(&[]);
        seen.wire.dialect().check(&seen, &mut findings);
        self.complaints.extend(findings.list);
        let reply = Autopilot.reply(&seen);
        let rendered = seen.wire.dialect().render(&seen, &reply, &Usage::default());
        let body: Value = serde_json::from_slice(&rendered.events[0]).unwrap();
        let message = body.pointer("/choices/0/message").unwrap_or(&body);
        let content = message["content"].clone();
        let mut kept = json!({"role": "assistant", "content": content});
        if let Some(calls) = message.get("tool_calls") {
            kept["tool_calls"] = calls.clone();
        }
        self.messages.push(kept);
        let turn = seen
            .wire
            .dialect()
            .turns(&json!({"messages": self.messages}))
            .pop()
            .unwrap();
        self.answer(&turn);
        let prompt = turn
            .calls
            .iter()
            .find(|call| call.name == HANDOFF)
            .map(|call| &call.arguments["prompt"]);
        match (prompt, turn.calls.len()) {
            (None, 0) => Did::Text(turn.texts.concat()),
            (None, _) => Did::Call,
            (Some(prompt), 1) => Did::Handoff(prompt.as_str().unwrap().to_owned()),
            (Some(_), _) => Did::Both,
        }
    }

    fn answer(&mut self, turn: &Turn) {
        let ids = turn.calls.iter().map(|call| call.id.as_str());
        match self.wire {
            Wire::Anthropic => {
                let blocks: Vec<Value> = ids
                    .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "ok"}))
                    .collect();
                if !blocks.is_empty() {
                    self.messages.push(json!({"role": "user", "content": blocks}));
                }
            }
            Wire::OpenAiChat => {
                let results = ids.map(|id| json!({"role": "tool", "tool_call_id": id, "content": "ok"}));
                self.messages.extend(results);
            }
        }
    }

    /// Begins again with a carry-over prompt.
    fn hand_over(&mut self, prompt: &str) {
        self.messages = vec![json!({"role": "user", "content": prompt})];
    }
}

#[test]
fn tasks_are_chained_by_handoffs() {
    for wire in [Wire::Anthropic, Wire::OpenAiChat] {
        let mut agent = Agent::new(wire, true, "Please.\n#task 1/3 steps=2\nThanks.");
        for next in ["#task 2/3 steps=2", "#task 3/3 steps=2"] {
            assert_eq!([agent.turn(), agent.turn()], [Did::Call, Did::Call]);
            let Did::Handoff(prompt) = agent.turn() else {
                panic!("no handoff")
            };
            assert!(prompt.lines().any(|line| line == next), "{prompt}");
            agent.hand_over(&prompt);
        }
        assert_eq!([agent.turn(), agent.turn()], [Did::Call, Did::Call]);
        assert_eq!(agent.turn(), Did::Text("All 3 tasks done.".to_owned()));
        assert_eq!(agent.complaints, []);
    }
}

#[test]
fn without_the_handoff_everything_piles_up() {
    for wire in [Wire::Anthropic, Wire::OpenAiChat] {
        let mut agent = Agent::new(wire, false, "#task 1/3 steps=2");
        for _ in 0..6 {
            assert_eq!(agent.turn(), Did::Call);
        }
        assert_eq!(agent.turn(), Did::Text("All 3 tasks done.".to_owned()));
        assert_eq!(agent.messages.len(), 14);
        assert_eq!(agent.complaints, []);
    }
}

#[test]
fn mixed_calls_stand_beside_the_last_step() {
    let mut agent = Agent::new(Wire::Anthropic, true, "#task 1/2 steps=2 mixed");
    assert_eq!([agent.turn(), agent.turn()], [Did::Call, Did::Both]);
    assert!(matches!(agent.turn(), Did::Text(text) if text.contains("Task 1 is done")));
    assert_eq!(agent.complaints, []);
}

#[test]
fn a_refused_handoff_is_called_again_once() {
    let mut agent = Agent::new(
        Wire::OpenAiChat,
        true,
        "#task 1/2 steps=1 [refuse] tool=read_file",
    );
    assert_eq!(
        [agent.turn(), agent.turn()],
        [Did::Call, Did::Handoff(String::new())]
    );
    let Did::Handoff(prompt) = agent.turn() else {
        panic!("no handoff")
    };
    assert!(
        prompt.contains("#task 2/2 steps=1 refuse tool=read_file"),
        "{prompt}"
    );
    assert!(matches!(agent.turn(), Did::Text(text) if text.contains("refused")));
    assert_eq!(agent.complaints, []);
}

#[test]
fn the_last_directive_counts_and_none_is_an_echo() {
    let mut agent = Agent::new(Wire::Anthropic, true, "#task 1/1 steps=1");
    assert_eq!(agent.turn(), Did::Call);
    agent.messages.pop();
    agent.messages.pop();
    agent
        .messages
        .push(json!({"role": "user", "content": "#task 1/1 steps=0"}));
    assert_eq!(agent.turn(), Did::Text("All 1 tasks done.".to_owned()));
    let mut plain = Agent::new(
        Wire::Anthropic,
        true,
        "Hello, #task in the middle of a line is none.",
    );
    assert!(matches!(plain.turn(), Did::Text(text) if text.starts_with("I saw 1 messages in ")));
}

#[test]
fn arguments_fit_the_schema() {
    let schema = json!({
        "properties": {
            "path": {"type": "string"}, "command": {"type": "array"}, "limit": {"type": ["integer", "null"]},
            "mode": {"enum": ["fast", "slow"]}, "deep": {"type": "object", "required": ["url"]},
            "optional": {"type": "string"}, "force": {"type": "boolean"},
        },
        "required": ["path", "command", "limit", "mode", "deep", "force", "note"],
    });
    let tool = Offered {
        name: "t".to_owned(),
        schema,
    };
    let expected = json!({
        "path": "src/lib.rs", "command": ["echo", "step 2"], "limit": 2, "mode": "fast",
        "deep": {"url": "http://127.0.0.1/"}, "force": false, "note": "note 2",
    });
    assert_eq!(arguments(&tool, 2), expected);
    let bare = Offered {
        name: "bash".to_owned(),
        schema: Value::Null,
    };
    assert_eq!(arguments(&bare, 2), json!({"command": "echo step 2"}));
}
