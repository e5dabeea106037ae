//! Goals in transcripts as Claude Code 2.1.331 and Codex 0.169.0 send them.

use serde_json::{Value, json};

use super::*;

const GOAL: &str = "The parser tests pass.";

fn set() -> Value {
    json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\n# Environment\n</system-reminder>"},
        {"type": "text", "text": "<command-name>/goal</command-name>\n            <command-message>goal</command-message>\n            <command-args>The parser tests pass.</command-args>\n"},
        {"type": "text", "text": "<local-command-stdout>Goal set: The parser tests pass.</local-command-stdout>\n"},
        {"type": "text", "text": "A session-scoped Stop hook is now active with condition: \"The parser tests pass.\". Briefly acknowledge the goal, then immediately start (or continue) working toward it."},
    ]})
}

fn says(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [{"type": "text", "text": text}]})
}

fn feedback() -> Value {
    let text = "<system-reminder>\nThe text below is the output of a hook, not a message from the user.\nStop hook feedback:\n[The parser tests pass.]: no test output\n</system-reminder>";
    json!({"role": "user", "content": text})
}

fn claude(messages: &[Value]) -> SessionGoal {
    let read = view("anthropic", json!({"messages": messages}).to_string());
    Transcript::from_view(&read).goal(&[])
}

fn active(goal: &str) -> SessionGoal {
    SessionGoal::Active(goal.to_owned())
}

#[test]
fn claude_codes_goal_lasts_until_a_user_speaks_after_a_finished_answer() {
    let start = [set(), says("assistant", "I will start.")];
    let with = |more: &[Value]| claude(&[&start[..], more].concat());
    assert_eq!(with(&[]), active(GOAL));
    assert_eq!(
        with(&[feedback(), says("assistant", "I did more.")]),
        active(GOAL)
    );
    // The judge was satisfied: Claude Code writes nothing about it.
    assert_eq!(
        with(&[says("user", "Now say what changed.")]),
        SessionGoal::Dropped
    );
    // The goal was only paused.
    let paused = [says("user", "Go on."), says("assistant", "Yes."), feedback()];
    assert_eq!(with(&paused), active(GOAL));
    let stopped = [
        says("user", "[Request interrupted by user]"),
        says("user", "Use nom."),
    ];
    assert_eq!(with(&stopped[..1]), active(GOAL));
    let shell = says("user", "<task-notification>done</task-notification>");
    assert_eq!(with(&[shell]), active(GOAL));
}

#[test]
fn claude_codes_goal_is_replaced_and_cleared() {
    let cleared = says(
        "user",
        "<local-command-stdout>Goal cleared: The parser tests pass.</local-command-stdout>",
    );
    assert_eq!(
        claude(&[set(), says("assistant", "a"), cleared]),
        SessionGoal::Dropped
    );
    let next = says("user", "Goal set: The docs are right.");
    assert_eq!(
        claude(&[set(), says("assistant", "a"), next]),
        active("The docs are right.")
    );
    assert_eq!(
        claude(&[says("user", "What is /goal?")]),
        SessionGoal::Unmentioned
    );
}

fn codex(items: &[Value]) -> SessionGoal {
    let read = view("openai_responses", json!({"input": items}).to_string());
    Transcript::from_view(&read).goal(&[])
}

fn called(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"type": "function_call", "name": name, "arguments": arguments.to_string(), "call_id": id})
}

fn answered(id: &str, status: &str) -> Value {
    let output = json!({"goal": {"objective": GOAL, "status": status}, "remainingTokens": null});
    json!({"type": "function_call_output", "call_id": id, "output": output.to_string()})
}

#[test]
fn codex_states_its_goal_in_results() {
    let mut items = vec![
        called("a", "create_goal", &json!({"objective": GOAL})),
        answered("a", "active"),
    ];
    assert_eq!(codex(&items), active(GOAL));
    let stated = json!({"type": "function_call_output", "name": "goal_objective", "namespace": "agent",
        "output": "Make all tests pass."});
    items.push(stated);
    assert_eq!(codex(&items), active("Make all tests pass."));
    items.push(json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "Started."}]}));
    items.push(json!({"type": "message", "role": "user", "content": [{"type": "input_text",
        "text": "<codex_internal_context source=\"goal\">\nContinue working toward the active thread goal.\n</codex_internal_context>"}]}));
    items.push(json!({"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": "Now what?"}]}));
    assert_eq!(codex(&items), active("Make all tests pass."));
    items.extend([
        called("b", "update_goal", &json!({"status": "complete"})),
        answered("b", "complete"),
    ]);
    assert_eq!(codex(&items), SessionGoal::Dropped);
}
