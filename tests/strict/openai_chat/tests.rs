//! One test per rule: a correct conversation passes, and every single mistake in it is found.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::api::Wire;
use crate::complaint::Rule;

fn received(body: Value) -> Received {
    Received::for_test(Wire::OpenAiChat, "/v1/chat/completions", body)
}

fn rules(body: Value) -> Vec<Rule> {
    received(body).broken_rules()
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

#[test]
fn a_choice_without_tools_is_refused() {
    let mut body = request(json!([{"role": "user", "content": "a"}]));
    body["tool_choice"] = json!("none");
    assert_eq!(rules(body.clone()), []);
    body.as_object_mut().unwrap().remove("tools");
    assert_eq!(rules(body), [Rule::ChoiceWithoutTools]);
}

fn request(messages: Value) -> Value {
    json!({"model": "gpt-6-astra", "tools": [tool("read_file")], "messages": messages})
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": "{}"}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "fn main() {}"})
}

fn conversation() -> Value {
    request(json!([
        {"role": "system", "content": "Be careful."},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        result("b"),
        result("a"),
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Go on."},
    ]))
}

fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Vec<Rule> {
    let mut body = conversation();
    change(body["messages"].as_array_mut().unwrap());
    rules(body)
}

#[test]
fn a_correct_conversation_passes() {
    assert_eq!(rules(conversation()), []);
    assert_eq!(
        changed(|list| drop(list[2].as_object_mut().unwrap().remove("content"))),
        []
    );
}

#[test]
fn calls_and_results_belong_together() {
    assert_eq!(changed(|list| drop(list.remove(3))), [Rule::Unanswered]);
    assert_eq!(changed(|list| list.truncate(3)), [Rule::Unanswered]);
    assert_eq!(
        changed(|list| drop(list.remove(2))),
        [Rule::OrphanResult, Rule::OrphanResult]
    );
    assert_eq!(
        changed(|list| list.insert(5, result("a"))),
        [Rule::RepeatedResult]
    );
    assert_eq!(changed(|list| list.insert(5, result("c"))), [Rule::OrphanResult]);
    let between = json!({"role": "user", "content": "Wait."});
    assert_eq!(
        changed(|list| list.insert(4, between)),
        [Rule::Unanswered, Rule::OrphanResult]
    );
    assert_eq!(
        changed(|list| list[2]["tool_calls"][1]["id"] = json!("a"))[0],
        Rule::RepeatedCall
    );
    let other = json!("write_file");
    assert_eq!(
        changed(|list| list[2]["tool_calls"][1]["function"]["name"] = other),
        [Rule::UnknownTool]
    );
    let value = json!({});
    assert_eq!(
        changed(|list| list[2]["tool_calls"][1]["function"]["arguments"] = value),
        [Rule::Required]
    );
}

#[test]
fn messages_have_a_known_role_and_content() {
    assert_eq!(rules(request(json!([]))), [Rule::NoMessages]);
    assert_eq!(changed(|list| list[6]["role"] = json!("human")), [Rule::Role]);
    assert_eq!(
        changed(|list| list[6]["content"] = Value::Null),
        [Rule::EmptyContent]
    );
    assert_eq!(
        changed(|list| list[5]["content"] = Value::Null),
        [Rule::EmptyContent]
    );
    assert_eq!(
        changed(|list| list[5]["content"] = json!("")),
        [Rule::EmptyContent]
    );
    assert_eq!(
        changed(|list| list[6]["content"] = json!([])),
        [Rule::EmptyContent]
    );
    assert_eq!(changed(|list| list[6]["content"] = json!(7)), [Rule::Required]);
    assert_eq!(
        changed(|list| list[1]["content"][0]["type"] = json!("tool_result")),
        [Rule::BlockType]
    );
}

#[test]
fn top_level_fields_and_tools_are_checked() {
    let mut body = conversation();
    body["tools"] = json!([tool("read_file"), tool("read_file")]);
    assert_eq!(rules(body), [Rule::RepeatedTool]);
    let mut body = conversation();
    body["tools"] = (0..128)
        .map(|n| tool(&format!("tool_{n}")))
        .chain([tool("read_file")])
        .collect();
    assert_eq!(rules(body.clone()), [Rule::TooManyTools]);
    body["tools"].as_array_mut().unwrap().remove(0);
    assert_eq!(rules(body.clone()), []);
    body.as_object_mut().unwrap().remove("model");
    assert_eq!(rules(body), [Rule::Required]);
}
