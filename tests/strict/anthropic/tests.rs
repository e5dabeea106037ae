//! A test per rule: a correct conversation passes, and every single mistake in it is found.

use http::HeaderValue;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::api::{Endpoint, Wire};
use crate::complaint::Rule;
use crate::reply::Part;

mod context;
mod version;

fn received(body: Value) -> Received {
    let mut received = Received::for_test(Wire::Anthropic, "/v1/messages", body);
    let version = HeaderValue::from_static("2023-06-01");
    received.headers.insert("anthropic-version", version);
    received
}

fn rules(body: Value) -> Vec<Rule> {
    received(body).broken_rules()
}

fn request(messages: Value) -> Value {
    let tool = json!({"name": "read_file", "input_schema": {"type": "object"}});
    json!({
        "model": "claude-opus-5-5", "max_tokens": 4096, "system": "Be careful.",
        "tools": [tool], "messages": messages,
    })
}

/// Content of the provider's response to `body`.
fn answer(body: &Value, reply: &Reply) -> Value {
    let rendered = Anthropic.render(&received(body.clone()), reply, &Usage::default());
    let message: Value = serde_json::from_slice(&rendered.events[0]).unwrap();
    message["content"].clone()
}

fn push(body: &mut Value, role: &str, content: Value) {
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": role, "content": content}));
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "fn main() {}"})
}

/// A conversation of three turns with thinking and calls, created by the provider itself.
fn conversation() -> Value {
    let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
    for step in 0..3 {
        let reply = Reply::new()
            .thinking(format!("Thought {step}."))
            .say("Looking.")
            .call_as(format!("toolu_{step}"), "read_file", json!({"line": step}));
        let content = answer(&body, &reply);
        push(&mut body, "assistant", content);
        push(&mut body, "user", json!([result(&format!("toolu_{step}"))]));
    }
    body
}

#[test]
fn a_correct_conversation_passes() {
    assert_eq!(received(conversation()).violations(), []);
}

#[test]
fn equivalent_forms_of_a_conversation_pass() {
    let mut body = conversation();
    body["system"] = json!([{"type": "text", "text": "Be careful.", "cache_control": {"type": "ephemeral"}}]);
    body["tools"][0] =
        json!({"input_schema": {"type": "object"}, "name": "read_file", "cache_control": null});
    body["messages"][0]["content"] = json!([{"text": "Fix it.", "type": "text"}]);
    body["messages"][2]["content"][0]["content"] = json!([{"type": "text", "text": "fn main() {}"}]);
    body["messages"][1]["content"][1]["citations"] = Value::Null;
    for (key, value) in [("max_tokens", json!(1)), ("tool_choice", json!({"type": "none"}))] {
        body[key] = value;
    }
    assert_eq!(received(body).violations(), []);
}

#[test]
fn consecutive_messages_of_one_role_are_merged() {
    let mut body = conversation();
    let messages = body["messages"].as_array_mut().unwrap();
    let text = messages[1]["content"].as_array_mut().unwrap().split_off(1);
    messages.insert(2, json!({"role": "assistant", "content": text}));
    assert_eq!(received(body).violations(), []);
}

#[test]
fn thinking_is_bound_to_everything_before_it() {
    let changes: [(&str, Value); 6] = [
        ("/system", json!("Be careless.")),
        ("/tools/0/name", json!("read_files")),
        ("/messages/0/content", json!("Fix it!")),
        ("/messages/1/content/1/text", json!("Looking!")),
        ("/messages/1/content/2/input", json!({"line": 0.0})),
        ("/messages/2/content/0/content", json!("fn main() { }")),
    ];
    for (place, value) in changes {
        let mut body = conversation();
        *body.pointer_mut(place).unwrap() = value;
        let list = received(body).violations();
        let (_, message) = list.iter().find(|(rule, _)| *rule == Rule::Binding).expect(place);
        assert!(
            message.contains("Invalid `signature` in `thinking` block"),
            "{message}"
        );
        assert!(
            message.contains("The block is bound to a different conversation"),
            "{message}"
        );
    }
}

#[test]
fn a_missing_or_added_message_breaks_the_binding_of_later_thinking() {
    let mut body = conversation();
    body["messages"].as_array_mut().unwrap().drain(1..3);
    assert_eq!(rules(body), [Rule::Binding, Rule::Binding]);

    let mut body = conversation();
    let extra = json!({"role": "system", "content": "Hurry."});
    body["messages"].as_array_mut().unwrap().insert(5, extra);
    let list = received(body).violations();
    assert_eq!(list.len(), 1);
    assert!(list[0].1.starts_with("messages.6.content.0: "), "{}", list[0].1);
}

#[test]
fn changed_or_foreign_thinking_is_refused() {
    let mut body = conversation();
    body["messages"][5]["content"][0]["thinking"] = json!("Another thought.");
    assert_eq!(rules(body), [Rule::Binding]);
    let mut body = conversation();
    body["messages"][5]["content"][0]["signature"] = json!("c2lnLTE=");
    assert_eq!(rules(body), [Rule::ForeignThinking]);
}

/// The request with the beta that lets it choose the handling of thinking with a different prefix.
fn controlled(mut body: Value) -> Received {
    body["thinking"] =
        json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    let mut received = received(body);
    let betas = HeaderValue::from_static("context-1m, thinking-binding-controls-2026-08-01");
    received.headers.insert("anthropic-beta", betas);
    received
}

#[test]
fn thinking_after_another_prefix_is_dropped_and_reported_where_requested() {
    let mut body = conversation();
    body["messages"][2]["content"][0]["content"] = json!("cleared");
    let list = received(body.clone()).violations();
    assert!(list[0].1.contains("`anthropic-beta` header"), "{}", list[0].1);
    let controlled_body = controlled(body);
    assert_eq!(controlled_body.violations(), []);
    let rendered = Anthropic.render(&controlled_body, &Reply::text("On."), &Usage::default());
    let message: Value = serde_json::from_slice(&rendered.events[0]).unwrap();
    let dropped =
        |path: &str| json!({"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"});
    let both = json!([dropped("messages.3.content.0"), dropped("messages.5.content.0")]);
    assert_eq!(message["input_transformations"], both);
    // A modified block is refused even then, and the setting requires its beta.
    let mut forged = conversation();
    forged["messages"][5]["content"][0]["signature"] = json!("c2lnLTE=");
    assert_eq!(controlled(forged).broken_rules(), [Rule::ForeignThinking]);
    let mut without = controlled(conversation());
    without.headers.remove("anthropic-beta");
    assert_eq!(without.broken_rules(), [Rule::Required]);
}

#[test]
fn thinking_may_be_removed_at_either_end_but_not_in_the_middle() {
    for removed in [vec![1], vec![1, 3], vec![5], vec![3, 5], vec![1, 3, 5]] {
        let mut body = conversation();
        for at in &removed {
            body["messages"][at]["content"].as_array_mut().unwrap().remove(0);
        }
        assert_eq!(received(body).violations(), [], "{removed:?}");
    }
    let mut body = conversation();
    body["messages"][3]["content"].as_array_mut().unwrap().remove(0);
    let list = received(body).violations();
    assert_eq!(list.len(), 1);
    assert!(list[0].1.contains("is missing"), "{}", list[0].1);
}

#[test]
fn thinking_that_was_removed_stays_out() {
    let mut body = conversation();
    let removed = body["messages"][5]["content"].as_array_mut().unwrap().remove(0);
    let content = answer(&body, &Reply::new().thinking("Later.").say("Done."));
    push(&mut body, "assistant", content);
    push(&mut body, "user", json!("Go on."));
    assert_eq!(received(body.clone()).violations(), []);
    body["messages"][5]["content"]
        .as_array_mut()
        .unwrap()
        .insert(0, removed);
    assert_eq!(rules(body), [Rule::Binding]);
}

#[test]
fn redacted_thinking_is_bound_too() {
    let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
    let content = answer(&body, &Reply::new().part(Part::Redacted).say("Done."));
    push(&mut body, "assistant", content);
    push(&mut body, "user", json!("Go on."));
    assert_eq!(received(body.clone()).violations(), []);
    body["messages"][0]["content"] = json!("Fix that.");
    assert_eq!(rules(body), [Rule::Binding]);
}

#[test]
fn top_level_fields_and_tools_are_checked() {
    let hello = || request(json!([{"role": "user", "content": "Hello."}]));
    let mut bare = received(hello());
    bare.headers.clear();
    assert_eq!(bare.violations()[0].0, Rule::Required);

    let mut body = hello();
    body.as_object_mut().unwrap().remove("max_tokens");
    assert_eq!(rules(body.clone()), [Rule::Required]);
    let mut count = received(body);
    count.endpoint = Endpoint::CountTokens;
    assert_eq!(count.violations(), [], "a count needs no max_tokens");

    let mut body = hello();
    body["tools"] = json!([body["tools"][0], body["tools"][0]]);
    assert_eq!(rules(body), [Rule::RepeatedTool]);

    let mut body = hello();
    body["tool_choice"] = json!({"type": "any"});
    assert_eq!(rules(body.clone()), []);
    body["thinking"] = json!({"type": "adaptive"});
    assert_eq!(rules(body), [Rule::ForcedChoice]);

    let mut body = hello();
    body.as_object_mut().unwrap().remove("tools");
    body["tool_choice"] = json!({"type": "none"});
    assert_eq!(rules(body), [Rule::ChoiceWithoutTools]);

    let mut body = hello();
    body["thinking"] = json!({"type": "enabled", "budget_tokens": body["max_tokens"]});
    assert_eq!(rules(body), [Rule::ThinkingRoom]);
}

#[test]
fn more_than_four_cache_marks_are_refused() {
    let mark = json!({"type": "ephemeral"});
    let block = json!({"type": "text", "text": "a", "cache_control": mark});
    let mut body = request(json!([{"role": "user", "content": [block, block, block]}]));
    body["tools"][0]["cache_control"] = mark.clone();
    assert_eq!(rules(body.clone()), []);
    body["system"] = json!([block]);
    assert_eq!(rules(body), [Rule::CacheMarks]);
}

#[test]
fn messages_have_a_known_role_and_content() {
    let user = |content: Value| request(json!([{"role": "user", "content": content}]));
    assert_eq!(rules(request(json!([]))), [Rule::NoMessages]);
    assert_eq!(rules(user(json!([]))), [Rule::EmptyContent]);
    assert_eq!(rules(user(json!(""))), [Rule::EmptyContent]);
    assert_eq!(rules(user(json!(" \n"))), [Rule::BlankText]);
    assert_eq!(
        rules(user(json!([{"type": "text", "text": ""}]))),
        [Rule::BlankText]
    );
    assert_eq!(
        rules(user(json!([{"type": "text", "text": "\n\t"}]))),
        [Rule::BlankText]
    );
    assert_eq!(rules(user(json!([{"type": "texts"}]))), [Rule::BlockType]);
    assert_eq!(
        rules(request(json!([{"role": "system", "content": "x"}]))),
        [Rule::FirstRole]
    );
    let odd = json!([{"role": "user", "content": "x"}, {"role": "tool", "content": "x"}]);
    assert_eq!(rules(request(odd)), [Rule::Role]);
}

#[test]
fn the_last_message_is_not_the_assistants() {
    let mut body = request(json!([{"role": "user", "content": "Hello."}]));
    push(&mut body, "assistant", json!("Hel"));
    assert_eq!(rules(body.clone()), [Rule::Prefill]);
    let paused = json!([{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}]);
    body["messages"][1]["content"] = paused;
    assert_eq!(rules(body), [], "a paused turn is sent back as it is");
}

#[test]
fn an_assistant_turn_does_not_end_in_thinking() {
    let mut body = request(json!([{"role": "user", "content": "Hello."}]));
    let content = answer(&body, &Reply::new().say("Hm.").thinking("Thought."));
    push(&mut body, "assistant", content);
    push(&mut body, "user", json!("Go on."));
    assert_eq!(rules(body), [Rule::EndsInThinking]);
}

#[test]
fn calls_and_results_belong_together() {
    let history = |assistant: Value, user: Value| {
        let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
        push(&mut body, "assistant", assistant);
        push(&mut body, "user", user);
        body
    };
    let text = json!({"type": "text", "text": "And now?"});
    let both = json!([call("a"), call("b")]);
    assert_eq!(
        rules(history(both.clone(), json!([result("b"), result("a"), text]))),
        []
    );
    assert_eq!(
        rules(history(both.clone(), json!([result("a"), text]))),
        [Rule::Unanswered]
    );
    assert_eq!(
        rules(history(both.clone(), json!("Never mind."))),
        [Rule::Unanswered]
    );
    let unknown = json!([result("a"), result("b"), result("c")]);
    assert_eq!(rules(history(both.clone(), unknown)), [Rule::OrphanResult]);
    let late = json!([result("a"), text, result("b")]);
    assert_eq!(rules(history(both.clone(), late)), [Rule::ResultOrder]);
    let twice = json!([result("a"), result("b"), result("a")]);
    assert_eq!(rules(history(both, twice)), [Rule::RepeatedResult]);
    assert_eq!(
        rules(history(json!([call("a"), call("a")]), json!([result("a")]))),
        [Rule::RepeatedCall]
    );

    let mut odd = call("a");
    odd["name"] = json!("write_file");
    assert_eq!(
        rules(history(json!([odd]), json!([result("a")]))),
        [Rule::UnknownTool]
    );
}

#[test]
fn results_may_come_in_two_messages_but_not_after_a_system_message() {
    let messages = json!([
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": [call("a"), call("b")]},
        {"role": "user", "content": [result("a")]},
        {"role": "user", "content": [result("b")]},
        {"role": "system", "content": "The date has changed."},
    ]);
    let mut body = request(messages);
    assert_eq!(rules(body.clone()), []);
    let list = body["messages"].as_array_mut().unwrap();
    list.swap(2, 4);
    assert_eq!(
        rules(body),
        [Rule::Unanswered, Rule::OrphanResult, Rule::OrphanResult]
    );
}

#[test]
fn ids_are_unique_over_the_whole_conversation() {
    let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
    for _ in 0..2 {
        push(&mut body, "assistant", json!([call("a")]));
        push(&mut body, "user", json!([result("a")]));
    }
    assert_eq!(rules(body), [Rule::RepeatedCall]);
}
