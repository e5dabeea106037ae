use pretty_assertions::assert_eq;

use super::*;
use crate::api::Wire;

#[path = "autopilot_agent.rs"]
mod agent;

use agent::{AutopilotAgent, AutopilotOutcome, WIRES};

#[test]
fn tasks_are_chained_by_handoffs() {
    for wire in WIRES {
        let mut agent = AutopilotAgent::new(wire, true, "Please.\n#task 1/3 steps=2\nThanks.");
        for next in ["#task 2/3 steps=2", "#task 3/3 steps=2"] {
            assert_eq!(
                [agent.turn(), agent.turn()],
                [AutopilotOutcome::Call, AutopilotOutcome::Call]
            );
            let AutopilotOutcome::Handoff(prompt) = agent.turn() else {
                panic!("no handoff")
            };
            assert!(prompt.lines().any(|line| line == next), "{prompt}");
            agent.hand_over(&prompt);
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
}

#[test]
fn a_document_is_written_where_its_headings_are_requested() {
    for wire in WIRES {
        let request = "Write it, with these headings:\n\n## Goal\nWhat.\n\n## Decisions\nWhy.\n\n## Next steps\nNumbered.";
        let mut agent = AutopilotAgent::new(wire, true, request);
        assert!(
            matches!(agent.turn(), AutopilotOutcome::Text(text) if text.starts_with("## Goal\n") && text.contains("## Decisions"))
        );
        assert_eq!(agent.complaints, []);
    }
}

#[test]
fn without_the_handoff_all_tasks_run_in_one_context() {
    for wire in WIRES {
        let mut agent = AutopilotAgent::new(wire, false, "#task 1/3 steps=2");
        for _ in 0..6 {
            assert_eq!(agent.turn(), AutopilotOutcome::Call);
        }
        assert_eq!(
            agent.turn(),
            AutopilotOutcome::Text("All 3 tasks done.".to_owned())
        );
        let messages = if wire == Wire::OpenAiResponses { 27 } else { 14 };
        assert_eq!(agent.messages.len(), messages, "{wire}");
        assert_eq!(agent.complaints, []);
    }
}

#[test]
fn mixed_calls_the_handoff_beside_the_last_step() {
    for wire in WIRES {
        let mut agent = AutopilotAgent::new(wire, true, "#task 1/2 steps=2 mixed");
        assert_eq!(
            [agent.turn(), agent.turn()],
            [AutopilotOutcome::Call, AutopilotOutcome::Both]
        );
        assert!(matches!(agent.turn(), AutopilotOutcome::Text(text) if text.contains("Task 1 is done")));
        assert_eq!(agent.complaints, []);
    }
}

#[test]
fn a_refused_handoff_is_called_again_once() {
    for wire in WIRES {
        let mut agent = AutopilotAgent::new(wire, true, "#task 1/2 steps=1 [refuse] tool=read_file");
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
}

#[test]
fn the_last_directive_counts_and_without_one_the_reply_describes_the_request() {
    let mut agent = AutopilotAgent::new(Wire::Anthropic, true, "#task 1/1 steps=1");
    assert_eq!(agent.turn(), AutopilotOutcome::Call);
    agent.messages.pop();
    agent.messages.pop();
    agent.say("#task 1/1 steps=0");
    assert_eq!(
        agent.turn(),
        AutopilotOutcome::Text("All 1 tasks done.".to_owned())
    );
    let mut plain = AutopilotAgent::new(
        Wire::Anthropic,
        true,
        "Hello, #task in the middle of a line is no directive.",
    );
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
