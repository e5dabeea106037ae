use pretty_assertions::assert_eq;

use http::HeaderValue;

use super::*;
use crate::api::Wire;
use crate::complaint::Rule;
use crate::transcript::ToolCall;
use crate::usage::Usage;

/// Next step for the agent and its proxy after a reply.
#[derive(Debug, PartialEq)]
enum AutopilotOutcome {
    Call,
    Handoff(String),
    Both,
    Text(String),
}

/// An agent of the Messages API that offers one tool and answers its calls.
struct AutopilotAgent {
    /// Whether the handoff is on offer as well.
    handoff: bool,
    messages: Vec<Value>,
    last: Received,
    complaints: Vec<(Rule, String)>,
}

fn received(body: Value) -> Received {
    let mut received = Received::for_test(Wire::Anthropic, "/v1/messages", body);
    let version = HeaderValue::from_static("2023-06-01");
    received.headers.insert("anthropic-version", version);
    received
}

impl AutopilotAgent {
    fn new(handoff: bool, prompt: &str) -> Self {
        let mut last = received(Value::Null);
        last.number = 0;
        let mut agent = AutopilotAgent {
            handoff,
            messages: Vec::new(),
            last,
            complaints: Vec::new(),
        };
        agent.say(prompt);
        agent
    }

    fn say(&mut self, text: &str) {
        self.messages.push(json!({"role": "user", "content": text}));
    }

    fn request(&self) -> Received {
        let schema =
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        let mut tools = vec![json!({"name": "read_file", "input_schema": schema})];
        if self.handoff {
            tools.push(json!({"name": HANDOFF, "input_schema": {"type": "object"}}));
        }
        let mut request = received(json!({
            "model": "m", "max_tokens": 99, "tools": tools, "messages": self.messages, "stream": false,
        }));
        request.number = self.last.number + 1;
        request.memory = self.last.memory.clone();
        request
    }

    /// Sends one request. The history grows by the reply and the results of its calls.
    fn turn(&mut self) -> AutopilotOutcome {
        let request = self.request();
        self.complaints.extend(request.violations());
        let before = request.turns().len();
        let reply = Autopilot.reply(&request);
        let rendered = request.dialect.render(&request, &reply, &Usage::default());
        let reply: Value = serde_json::from_slice(&rendered.events[0]).unwrap();
        self.last = request;
        self.messages
            .push(json!({"role": "assistant", "content": reply["content"]}));
        let new = self.request().turns().split_off(before);
        let calls: Vec<ToolCall> = new.iter().flat_map(|turn| turn.calls.clone()).collect();
        let result =
            |call: &ToolCall| json!({"type": "tool_result", "tool_use_id": call.id, "content": "ok"});
        if !calls.is_empty() {
            let results: Vec<Value> = calls.iter().map(result).collect();
            self.messages.push(json!({"role": "user", "content": results}));
        }
        let handoff = calls.iter().find(|call| call.name == HANDOFF);
        match (handoff, calls.len()) {
            (None, 0) => AutopilotOutcome::Text(new.iter().flat_map(|turn| turn.texts.clone()).collect()),
            (None, _) => AutopilotOutcome::Call,
            (Some(call), 1) => {
                AutopilotOutcome::Handoff(call.arguments["prompt"].as_str().unwrap().to_owned())
            }
            (Some(_), _) => AutopilotOutcome::Both,
        }
    }
}

#[test]
fn tasks_are_chained_by_handoffs() {
    let mut agent = AutopilotAgent::new(true, "Please.\n#task 1/3 steps=2\nThanks.");
    for next in ["#task 2/3 steps=2", "#task 3/3 steps=2"] {
        assert_eq!(
            [agent.turn(), agent.turn()],
            [AutopilotOutcome::Call, AutopilotOutcome::Call]
        );
        let AutopilotOutcome::Handoff(prompt) = agent.turn() else {
            panic!("no handoff")
        };
        assert!(prompt.lines().any(|line| line == next), "{prompt}");
        agent.messages.clear();
        agent.say(&prompt);
    }
    assert_eq!(
        [agent.turn(), agent.turn()],
        [AutopilotOutcome::Call, AutopilotOutcome::Call]
    );
    assert_eq!(
        agent.turn(),
        AutopilotOutcome::Text("All 3 tasks done.".to_owned())
    );
    assert_eq!(agent.complaints, []);
}

#[test]
fn a_document_is_written_where_its_headings_are_requested() {
    let request =
        "Write it, with these headings:\n\n## Goal\nWhat.\n\n## Decisions\nWhy.\n\n## Next steps\nNumbered.";
    let mut agent = AutopilotAgent::new(true, request);
    assert!(
        matches!(agent.turn(), AutopilotOutcome::Text(text) if text.starts_with("## Goal\n") && text.contains("## Decisions"))
    );
    assert_eq!(agent.complaints, []);
}

#[test]
fn without_the_handoff_all_tasks_run_in_one_context() {
    let mut agent = AutopilotAgent::new(false, "#task 1/3 steps=2");
    for _ in 0..6 {
        assert_eq!(agent.turn(), AutopilotOutcome::Call);
    }
    assert_eq!(
        agent.turn(),
        AutopilotOutcome::Text("All 3 tasks done.".to_owned())
    );
    assert_eq!(agent.messages.len(), 14);
    assert_eq!(agent.complaints, []);
}

#[test]
fn mixed_calls_the_handoff_beside_the_last_step() {
    let mut agent = AutopilotAgent::new(true, "#task 1/2 steps=2 mixed");
    assert_eq!(
        [agent.turn(), agent.turn()],
        [AutopilotOutcome::Call, AutopilotOutcome::Both]
    );
    assert!(matches!(agent.turn(), AutopilotOutcome::Text(text) if text.contains("Task 1 is done")));
    assert_eq!(agent.complaints, []);
}

#[test]
fn a_refused_handoff_is_called_again_once() {
    let mut agent = AutopilotAgent::new(true, "#task 1/2 steps=1 [refuse] tool=read_file");
    assert_eq!(
        [agent.turn(), agent.turn()],
        [AutopilotOutcome::Call, AutopilotOutcome::Handoff(String::new())]
    );
    let AutopilotOutcome::Handoff(prompt) = agent.turn() else {
        panic!("no handoff")
    };
    assert!(
        prompt.contains("#task 2/2 steps=1 refuse tool=read_file"),
        "{prompt}"
    );
    assert!(matches!(agent.turn(), AutopilotOutcome::Text(text) if text.contains("refused")));
    assert_eq!(agent.complaints, []);
}

#[test]
fn the_last_directive_counts_and_without_one_the_reply_describes_the_request() {
    let mut agent = AutopilotAgent::new(true, "#task 1/1 steps=1");
    assert_eq!(agent.turn(), AutopilotOutcome::Call);
    agent.messages.pop();
    agent.messages.pop();
    agent.say("#task 1/1 steps=0");
    assert_eq!(
        agent.turn(),
        AutopilotOutcome::Text("All 1 tasks done.".to_owned())
    );
    let mut plain = AutopilotAgent::new(true, "Hello, #task in the middle of a line is no directive.");
    assert!(matches!(plain.turn(), AutopilotOutcome::Text(text) if text.starts_with("I saw 1 messages in ")));
}

#[test]
fn arguments_fit_the_schema() {
    let schema = json!({
        "properties": {
            "path": {"type": "string"}, "command": {"type": "array"}, "commands": {"type": "array"},
            "limit": {"type": ["integer", "null"]},
            "mode": {"enum": ["fast", "slow"]}, "deep": {"type": "object", "required": ["url"]},
            "optional": {"type": "string"}, "force": {"type": "boolean"},
        },
        "required": ["path", "command", "commands", "limit", "mode", "deep", "force", "note"],
    });
    let tool = ToolDefinition {
        name: "t".to_owned(),
        schema,
    };
    let expected = json!({
        "path": "src/lib.rs", "command": ["echo", "step 2"], "commands": ["echo step 2"], "limit": 2, "mode": "fast",
        "deep": {"url": "http://127.0.0.1/"}, "force": false, "note": "note 2",
    });
    assert_eq!(arguments(&tool, 2), expected);
    let bare = ToolDefinition {
        name: "bash".to_owned(),
        schema: Value::Null,
    };
    assert_eq!(arguments(&bare, 2), json!({"command": "echo step 2"}));
}
