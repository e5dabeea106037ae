//! One test per rule: a correct conversation passes, and every single mistake in it is found.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::api::Wire;
use crate::complaint::Rule;

fn received(body: Value) -> Received {
    Received::for_test(Wire::Ollama, "/api/chat", body)
}

fn rules(body: Value) -> Vec<Rule> {
    received(body).broken_rules()
}

fn conversation() -> Value {
    let tool =
        json!({"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}});
    let call = |path: &str| json!({"function": {"name": "read_file", "arguments": {"path": path}}});
    json!({"model": "qwen3-coder", "tools": [tool], "messages": [
        {"role": "system", "content": "Be careful."},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_name": "read_file", "content": "fn a() {}"},
        {"role": "tool", "content": "fn b() {}"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Go on."},
    ]})
}

fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Vec<Rule> {
    let mut body = conversation();
    change(body["messages"].as_array_mut().unwrap());
    rules(body)
}

#[test]
fn a_correct_conversation_passes() {
    assert_eq!(changed(|_| {}), []);
    let turns = received(conversation()).turns();
    let calls: Vec<&String> = turns[2].calls.iter().map(|call| &call.id).collect();
    assert_eq!(calls, [&turns[3].results[0].id, &turns[4].results[0].id]);
}

#[test]
fn tool_messages_follow_their_calls() {
    assert_eq!(changed(|list| drop(list.remove(3))), [Rule::Unanswered]);
    assert_eq!(changed(|list| list.truncate(3)), [Rule::Unanswered]);
    assert_eq!(
        changed(|list| drop(list.remove(2))),
        [Rule::OrphanResult, Rule::OrphanResult]
    );
    assert_eq!(
        changed(|list| list[3]["tool_name"] = json!("other")),
        [Rule::OrphanResult, Rule::Unanswered]
    );
    let with_ids = changed(|list| {
        list[2]["tool_calls"][0]["id"] = json!("x");
        list[2]["tool_calls"][1]["id"] = json!("y");
        list[3]["tool_call_id"] = json!("y");
        list[4]["tool_call_id"] = json!("z");
    });
    assert_eq!(with_ids, [Rule::OrphanResult, Rule::Unanswered]);
}

#[test]
fn fields_have_their_types() {
    assert_eq!(
        changed(|list| list[2]["tool_calls"][0]["function"]["arguments"] = json!("{}")),
        [Rule::Required]
    );
    assert_eq!(changed(|list| list[1]["content"] = json!([])), [Rule::Required]);
    assert_eq!(changed(|list| list[1]["role"] = json!("developer")), [Rule::Role]);
    assert_eq!(
        changed(|list| list[5]["content"] = json!("")),
        [Rule::EmptyContent]
    );
    assert_eq!(
        changed(|list| {
            list[2]["tool_calls"][0]["function"]["name"] = json!("other");
            list[3]["tool_name"] = json!("other");
        }),
        [Rule::UnknownTool]
    );
    let mut body = conversation();
    body["tools"] = json!([body["tools"][0], body["tools"][0]]);
    body["model"] = json!("");
    assert_eq!(rules(body.clone()), [Rule::Required, Rule::RepeatedTool]);
    body["messages"] = json!([]);
    assert!(rules(body).contains(&Rule::NoMessages));
}
