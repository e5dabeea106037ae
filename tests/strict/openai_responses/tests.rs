//! One test per rule: a correct conversation passes, and every single mistake in it is found.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::api::Wire;

mod pairs;

fn tool(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}, "strict": false})
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "fn main() {}"})
}

/// A conversation with one provider: its memory, and how many requests it received.
#[derive(Default)]
struct Talk {
    memory: Arc<Memory>,
    number: usize,
}

impl Talk {
    fn received(&mut self, body: Value) -> Received {
        self.number += 1;
        let mut received = Received::for_test(Wire::OpenAiResponses, "/v1/responses", body);
        received.number = self.number;
        received.stored_history = OpenAiResponses::API.stored_history(&self.memory, &received.body);
        received.memory = Arc::clone(&self.memory);
        received
    }

    fn found(&mut self, body: Value) -> Vec<(Rule, String)> {
        self.received(body).violations()
    }

    fn rules(&mut self, body: Value) -> Vec<Rule> {
        self.found(body).into_iter().map(|(rule, _)| rule).collect()
    }

    /// The response that answers `body`.
    fn answer(&mut self, body: Value, reply: &Reply) -> Value {
        let rendered = OpenAiResponses::API.render(&self.received(body), reply, &Usage::default());
        serde_json::from_slice(&rendered.events[0]).unwrap()
    }
}

fn request(input: Value) -> Value {
    json!({
        "model": "gpt-6-astra", "instructions": "Be careful.", "tools": [tool("read_file")], "store": false,
        "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}, "input": input,
    })
}

fn working() -> Reply {
    Reply::new()
        .thinking("Look first.")
        .say("Looking.")
        .call_as("call_1", "read_file", json!({"path": "a"}))
}

/// A conversation of two steps: user, reasoning, message, call, output.
fn conversation(talk: &mut Talk) -> Value {
    let mut body = request(json!([user("Fix it.")]));
    let response = talk.answer(body.clone(), &working());
    let input = body["input"].as_array_mut().unwrap();
    input.extend(response["output"].as_array().unwrap().clone());
    input.push(output("call_1"));
    body
}

fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Vec<Rule> {
    let mut talk = Talk::default();
    let mut body = conversation(&mut talk);
    change(body["input"].as_array_mut().unwrap());
    talk.rules(body)
}

#[test]
fn a_correct_conversation_passes() {
    assert_eq!(changed(|_| {}), []);
    assert_eq!(
        Talk::default().rules(json!({"model": "m", "input": "Hello."})),
        []
    );
    // Clients may leave out the API's own bookkeeping.
    let bare = changed(|input| {
        for item in input.iter_mut().skip(2) {
            let fields = item.as_object_mut().unwrap();
            fields.retain(|key, _| !matches!(key.as_str(), "id" | "status" | "phase"));
        }
        input[0] = json!({"role": "user", "content": "Fix it."});
    });
    assert_eq!(bare, []);
}

#[test]
fn ids_have_the_format_of_the_api() {
    assert_eq!(changed(|input| input[0]["id"] = json!("user_1")), [Rule::ItemId]);
    assert_eq!(
        changed(|input| input[0]["id"] = json!(format!("msg_{}", "x".repeat(61)))),
        [Rule::ItemId]
    );
    assert_eq!(changed(|input| input[0]["id"] = json!("msg_é")), [Rule::ItemId]);
    assert_eq!(
        changed(|input| {
            input[0]["id"] = json!("msg_u");
            let again = input[0].clone();
            input.push(again);
        }),
        [Rule::RepeatedItem]
    );
}

#[test]
fn items_have_a_known_type_and_their_fields() {
    let with = |item: Value| changed(|input| input.push(item));
    assert_eq!(with(json!({"type": "tool_use"})), [Rule::BlockType]);
    assert_eq!(with(json!({"role": "tool", "content": "x"})), [Rule::Role]);
    assert_eq!(with(json!({"role": "user", "content": []})), [Rule::EmptyContent]);
    assert_eq!(
        with(json!({"role": "assistant", "content": ""})),
        [Rule::EmptyContent]
    );
    assert_eq!(with(json!({"role": "user"})), [Rule::Required]);
    let part = json!({"type": "input_text", "text": "x"});
    assert_eq!(
        with(json!({"role": "assistant", "content": [part]})),
        [Rule::BlockType]
    );
    assert_eq!(
        changed(|input| drop(input[4].as_object_mut().unwrap().remove("output"))),
        [Rule::Required]
    );
    assert_eq!(
        changed(|input| input.insert(0, json!({"type": "compaction_trigger"}))),
        [Rule::BlockType, Rule::ReasoningPrefix]
    );
    assert_eq!(with(json!({"type": "compaction_trigger"})), []);
    assert_eq!(
        with(json!({"type": "item_reference", "id": "msg_x"})),
        [Rule::UnknownItem]
    );
    let foreign = json!({"type": "compaction", "encrypted_content": "x"});
    assert_eq!(with(foreign), [Rule::ForeignThinking]);
}

#[test]
fn tools_are_checked_wherever_they_stand() {
    let with = |tools: Value| {
        let mut body = request(json!("Hello."));
        body["tools"] = tools;
        Talk::default().rules(body)
    };
    assert_eq!(with(json!([tool("a"), tool("a")])), [Rule::RepeatedTool]);
    assert_eq!(with(json!([{"type": "magic"}])), [Rule::BlockType]);
    assert_eq!(with(json!([tool("a b")])), [Rule::Required]);
    let many: Vec<Value> = (0..129).map(|n| tool(&format!("t{n}"))).collect();
    assert_eq!(with(json!(many)), [Rule::TooManyTools]);
    let properties = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let mut strict = json!({"type": "function", "name": "s", "strict": true, "parameters": {
        "type": "object", "properties": properties, "required": ["a"], "additionalProperties": false,
    }});
    assert_eq!(with(json!([strict])), [Rule::StrictSchema]);
    strict["parameters"]["required"] = json!(["a", "b"]);
    assert_eq!(with(json!([strict])), []);
    strict["parameters"]["additionalProperties"] = json!(true);
    assert_eq!(with(json!([strict])), [Rule::StrictSchema]);
    let inner = json!({"type": "namespace", "name": "n", "tools": [tool("a"), tool("a")]});
    assert_eq!(with(json!([inner])), [Rule::RepeatedTool]);
}

#[test]
fn additional_tools_items_add_tools() {
    let brought = json!({"type": "additional_tools", "role": "developer", "tools": [
        {"type": "namespace", "name": "n", "tools": [tool("deep")]}, tool("flat"),
    ]});
    let mut talk = Talk::default();
    let mut body = request(json!([brought, user("Go.")]));
    body["tools"] = json!([]);
    assert_eq!(talk.rules(body.clone()), []);
    assert_eq!(talk.received(body.clone()).tool_names(), ["deep", "flat"]);
    let response = talk.answer(body.clone(), &Reply::new().call("deep", json!({})));
    assert_eq!(response["output"][0]["namespace"], "n");
    body["input"][0]["role"] = json!("user");
    assert_eq!(talk.rules(body), [Rule::Role]);
}

#[test]
fn top_level_fields_are_checked() {
    let with = |key: &str, value: Value| {
        let mut body = request(json!("Hello."));
        body[key] = value;
        Talk::default().found(body)
    };
    let rule = |found: Vec<(Rule, String)>| found.into_iter().map(|(rule, _)| rule).collect::<Vec<_>>();
    assert_eq!(rule(with("model", Value::Null)), [Rule::Required]);
    assert_eq!(rule(with("input", json!([]))), [Rule::NoMessages]);
    assert_eq!(rule(with("input", json!(7))), [Rule::Required, Rule::NoMessages]);
    assert_eq!(rule(with("include", json!(["everything"]))), [Rule::Include]);
    assert_eq!(rule(with("background", json!(true))), [Rule::Conflict]);
    assert_eq!(
        rule(with("previous_response_id", json!("resp_x"))),
        [Rule::UnknownResponse]
    );
    assert_eq!(
        rule(with("conversation", json!("conv_x"))),
        [Rule::UnknownResponse]
    );
    let refusal = OpenAiResponses::API.refusal(Rule::UnknownResponse, "gone");
    assert_eq!(refusal["error"]["code"], "previous_response_not_found");
    assert_eq!(
        (Rule::UnknownResponse.status(), Rule::ItemId.status()),
        (404, 400)
    );
}
