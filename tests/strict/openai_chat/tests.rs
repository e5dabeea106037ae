//! One test per rule: a correct conversation passes, and every single mistake in it is found.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::api::Wire;
use crate::complaint::Rule;
use crate::reply::{CallStyle, Stop};

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

/// The chunks of a stream, without `[DONE]`, which must be the last event.
fn chunks(extra: Value, reply: &Reply) -> Vec<Value> {
    let mut body = conversation();
    body["stream"] = json!(true);
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    let rendered = OpenAiChat.render(
        &received(body),
        reply,
        &Usage {
            input: 5,
            output: 2,
            ..Usage::default()
        },
    );
    let whole = String::from_utf8(rendered.events.concat()).unwrap();
    let data: Vec<&str> = whole
        .split_terminator("\n\n")
        .map(|e| e.strip_prefix("data: ").unwrap())
        .collect();
    let (done, chunks) = data.split_last().unwrap();
    assert_eq!(*done, "[DONE]");
    chunks
        .iter()
        .map(|chunk| serde_json::from_str(chunk).unwrap())
        .collect()
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["delta"].clone())
        .collect()
}

fn call_delta(fields: Value) -> Value {
    json!({"tool_calls": [fields]})
}

#[test]
fn a_stream_has_the_events_of_the_api_in_order() {
    let reply = Reply::new()
        .say("Grüße!")
        .call_as("c", "read_file", json!({"p": 1}))
        .deltas(4);
    let list = chunks(json!({"stream_options": {"include_usage": true}}), &reply);
    let start = json!({"name": "read_file", "arguments": ""});
    let expected = [
        json!({"role": "assistant", "content": "", "refusal": null}),
        json!({"content": "Grüß"}),
        json!({"content": "e!"}),
        call_delta(json!({"index": 0, "id": "c", "type": "function", "function": start})),
        call_delta(json!({"index": 0, "function": {"arguments": "{\"p\""}})),
        call_delta(json!({"index": 0, "function": {"arguments": ":1}"}})),
        json!({}),
    ];
    assert_eq!(deltas(&list)[..7], expected);
    assert_eq!(list[6]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(list[0]["usage"], Value::Null);
    assert_eq!(list[7]["choices"], json!([]));
    assert_eq!(list[7]["usage"]["total_tokens"], 7);
    let ids: Vec<&Value> = list.iter().map(|chunk| &chunk["id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn usage_is_sent_only_when_requested() {
    let list = chunks(json!({}), &Reply::text("Hi."));
    assert!(list.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(list.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[test]
fn calls_can_be_streamed_in_other_styles() {
    let spelled = |style| {
        let reply = Reply::new()
            .call_as("c", "read_file", json!({"p": 1}))
            .call_style(style);
        let list = chunks(json!({}), &reply);
        let list = deltas(&list);
        list[1..list.len() - 1]
            .iter()
            .map(|delta| delta["tool_calls"][0].clone())
            .collect::<Vec<_>>()
    };
    let one = spelled(CallStyle::OneChunk);
    assert_eq!(one.len(), 1);
    assert_eq!(
        one[0]["function"],
        json!({"name": "read_file", "arguments": "{\"p\":1}"})
    );
    let split = spelled(CallStyle::SplitName);
    assert_eq!(
        [&split[0]["function"]["name"], &split[1]["function"]["name"]],
        ["read", "_file"]
    );
    let id_first = spelled(CallStyle::IdFirst);
    assert_eq!(id_first[0], json!({"index": 0, "id": "c", "type": "function"}));
    assert_eq!(id_first[1]["function"]["name"], "read_file");
}

#[test]
fn choices_interleave_and_share_no_call_id() {
    let list = chunks(json!({"n": 2}), &Reply::text("Hi.").call("read_file", json!({})));
    let order: Vec<u64> = list
        .iter()
        .map(|chunk| chunk["choices"][0]["index"].as_u64().unwrap())
        .collect();
    assert_eq!(order, [0, 1].repeat(order.len() / 2));
    let mut ids: Vec<&Value> = list
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0/id"))
        .collect();
    assert_eq!(ids.len(), 2);
    ids.dedup();
    assert_eq!(ids.len(), 2);
}

#[test]
fn reasoning_is_shown_only_when_requested() {
    let reply = Reply::new().thinking("Hm.").say("Hi.");
    let shown = |reply: &Reply| {
        chunks(json!({}), reply)
            .iter()
            .any(|c| c.to_string().contains("reasoning_content"))
    };
    assert!(!shown(&reply));
    assert!(shown(&reply.reasoning()));
}

#[test]
fn a_completion_in_one_piece_says_the_same() {
    let whole = |reply: &Reply| {
        let rendered = OpenAiChat.render(&received(conversation()), reply, &Usage::default());
        serde_json::from_slice::<Value>(&rendered.events[0]).unwrap()["choices"][0].clone()
    };
    let choice = whole(&Reply::new().raw_call("read_file", "{broken"));
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"]["arguments"],
        "{broken"
    );
    let cut = whole(&Reply::text("Hi").stop(Stop::MaxTokens));
    assert_eq!(
        (cut["finish_reason"].clone(), cut["message"]["content"].clone()),
        (json!("length"), json!("Hi"))
    );
    assert_eq!(
        whole(&Reply::text("No.").stop(Stop::Refusal))["message"]["refusal"],
        "No."
    );
}
