//! A test per rule: a correct conversation passes, and every single mistake in it is found.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::api::Wire;
use crate::complaint::Rule;

const PATH: &str = "/v1beta/models/gemini-4-argon:generateContent";

fn received(path: &str, body: Value) -> Received {
    Received::for_test(Wire::Gemini, path, body)
}

fn rules_at(path: &str, body: Value) -> Vec<Rule> {
    received(path, body).broken_rules()
}

fn rules(body: Value) -> Vec<Rule> {
    rules_at(PATH, body)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

fn response(id: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": "read_file", "response": {"output": "fn main() {}"}}})
}

fn request(contents: Value) -> Value {
    let declaration = json!({"name": "read_file", "parameters": {"type": "OBJECT"}});
    json!({
        "systemInstruction": {"parts": [{"text": "Be careful."}]}, "contents": contents,
        "tools": [{"functionDeclarations": [declaration]}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": true}},
    })
}

fn working() -> Reply {
    Reply::new()
        .thinking("Look first.")
        .say("Looking.")
        .call_as("a", "read_file", json!({"path": "a"}))
        .call_as("b", "read_file", json!({"path": "b"}))
}

/// Content of the provider's response to `body`.
fn answer(body: &Value, reply: &Reply) -> Value {
    let rendered = Gemini.render(&received(PATH, body.clone()), reply, &Usage::default());
    let whole: Value = serde_json::from_slice(&rendered.events[0]).unwrap();
    whole["candidates"][0]["content"].clone()
}

fn conversation() -> Value {
    let mut body = request(json!([user("Fix it.")]));
    let parts_of = answer(&body, &working());
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(parts_of);
    contents.push(json!({"role": "user", "parts": [response("a"), response("b")]}));
    body
}

fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Vec<Rule> {
    let mut body = conversation();
    change(body["contents"].as_array_mut().unwrap());
    rules(body)
}

fn parts(content: &mut Value) -> &mut Vec<Value> {
    content["parts"].as_array_mut().unwrap()
}

fn remove(part: &mut Value, key: &str) {
    part.as_object_mut().unwrap().remove(key);
}

#[test]
fn a_correct_conversation_passes() {
    assert_eq!(changed(|_| {}), []);
    assert_eq!(rules(json!({"contents": {"parts": {"text": "Hello."}}})), []);
    // A chunk of the stream may return as a separate content, without its thoughts or ids.
    let split = changed(|contents| {
        let parts = contents.remove(1)["parts"].take();
        let mut parts_of: Vec<Value> = parts.as_array().unwrap()[1..]
            .iter()
            .map(|part| json!({"role": "model", "parts": [part]}))
            .collect();
        parts_of[0]["parts"][0]["text"] = json!("Look");
        parts_of.insert(1, json!({"role": "model", "parts": [{"text": "ing."}]}));
        remove(&mut parts_of[2]["parts"][0]["functionCall"], "id");
        contents.splice(1..1, parts_of);
    });
    assert_eq!(split, []);
}

#[test]
fn camel_case_and_snake_case_are_read() {
    let parts_of = conversation().to_string();
    let mut snake = parts_of.replace("functionCall\"", "function_call\"");
    for (camel, other) in [
        ("functionResponse", "function_response"),
        ("thoughtSignature", "thought_signature"),
        ("systemInstruction", "system_instruction"),
        ("functionDeclarations", "function_declarations"),
    ] {
        snake = snake.replace(camel, other);
    }
    let body: Value = serde_json::from_str(&snake).unwrap();
    assert_eq!(
        rules_at("/v1/models/gemini-4-argon:generateContent", body.clone()),
        []
    );
    let received = received(PATH, body.clone());
    assert_eq!(received.tool_names(), ["read_file"]);
    assert_eq!(received.turns()[1].calls.len(), 2);
    assert_eq!(received.turns()[2].results[1].id, "b");
    let mut both = body;
    both["systemInstruction"] = both["system_instruction"].clone();
    assert_eq!(rules(both), [Rule::Conflict]);
}

#[test]
fn calls_and_responses_match_in_number_and_id() {
    assert_eq!(changed(|c| drop(parts(&mut c[2]).pop())), [Rule::Unanswered]);
    assert_eq!(changed(|c| drop(c.pop())), [Rule::Unanswered]);
    assert_eq!(
        changed(|c| parts(&mut c[2]).push(response("c"))),
        [Rule::OrphanResult]
    );
    assert_eq!(
        changed(|c| c[2]["parts"][0] = response("x")),
        [Rule::OrphanResult]
    );
    assert_eq!(
        changed(|c| c[2]["parts"][0]["functionResponse"]["name"] = json!("other")),
        [Rule::OrphanResult]
    );
    assert_eq!(changed(|c| drop(c.remove(1))), [Rule::OrphanResult]);
    assert_eq!(
        changed(|c| drop(c.remove(0))),
        [Rule::CallPlace, Rule::ReasoningPrefix]
    );
    let twice = changed(|c| {
        c[1]["parts"][3]["functionCall"]["id"] = json!("a");
        c[2]["parts"][1] = response("a");
    });
    assert_eq!(twice, [Rule::RepeatedCall]);
}

#[test]
fn the_first_call_of_a_step_has_its_own_signature() {
    let unsigned = |c: &mut Vec<Value>| remove(&mut c[1]["parts"][2], "thoughtSignature");
    assert_eq!(changed(unsigned), [Rule::Signature]);
    // Older turns and older models are exempt.
    assert_eq!(
        changed(|c| {
            unsigned(c);
            c.extend([
                json!({"role": "model", "parts": [{"text": "Done."}]}),
                user("More."),
            ]);
        }),
        []
    );
    let mut body = conversation();
    remove(&mut body["contents"][1]["parts"][2], "thoughtSignature");
    assert_eq!(
        rules_at("/v1beta/models/gemini-2.5-pro:generateContent", body),
        []
    );
    assert_eq!(
        changed(|c| {
            let signature = c[1]["parts"][2]["thoughtSignature"].take();
            unsigned(c);
            c[1]["parts"][3]["thoughtSignature"] = signature;
        }),
        [Rule::Signature, Rule::Signature]
    );
    let sign = |with: &str| changed(|c| c[1]["parts"][2]["thoughtSignature"] = json!(with));
    assert_eq!(sign("c2lnLTE="), [Rule::ForeignThinking]);
    assert_eq!(sign("skip_thought_signature_validator"), []);
    assert_eq!(changed(|c| c[0] = user("Fix that.")), [Rule::ReasoningPrefix]);
}

#[test]
fn contents_and_parts_are_checked() {
    let with = |content: Value| changed(|c| c.push(content));
    assert_eq!(
        with(json!({"role": "assistant", "parts": [{"text": "x"}]})),
        [Rule::Role]
    );
    assert_eq!(with(json!({"role": "user", "parts": []})), [Rule::EmptyContent]);
    assert_eq!(with(json!({"role": "user", "parts": [{}]})), [Rule::EmptyContent]);
    assert_eq!(
        with(json!({"role": "user", "parts": [{"text": "x", "fileData": {}}]})),
        [Rule::EmptyContent]
    );
    assert_eq!(
        with(json!({"role": "user", "parts": [{"text": "x", "cacheControl": {}}]})),
        [Rule::BlockType]
    );
    assert_eq!(
        changed(|c| c[2]["parts"][0]["functionResponse"]["response"] = json!("text")),
        [Rule::Required]
    );
    assert_eq!(rules(request(json!([]))), [Rule::NoMessages]);
}

#[test]
fn tools_are_checked() {
    let with = |declarations: Value| {
        let mut body = request(json!([user("Hello.")]));
        body["tools"] = json!([{"functionDeclarations": declarations}]);
        rules(body)
    };
    assert_eq!(with(json!([{"name": "a"}, {"name": "a"}])), [Rule::RepeatedTool]);
    assert_eq!(with(json!([{"name": "1a"}])), [Rule::Required]);
    let both = json!({"name": "a", "parameters": {}, "parametersJsonSchema": {}});
    assert_eq!(with(json!([both])), [Rule::Conflict]);
    let many: Vec<Value> = (0..513).map(|n| json!({"name": format!("t{n}")})).collect();
    assert_eq!(with(json!(many)), [Rule::TooManyTools]);
    let mut body = conversation();
    body["tools"][0]["functionDeclarations"][0]["name"] = json!("other");
    assert_eq!(rules(body)[..2], [Rule::UnknownTool, Rule::UnknownTool]);
    let mut cached = request(json!([user("Hello.")]));
    cached["cachedContent"] = json!("cachedContents/1");
    assert_eq!(rules(cached), [Rule::Conflict]);
}

#[test]
fn a_token_count_may_wrap_its_request() {
    let wrapped = json!({"generateContentRequest": conversation()});
    assert_eq!(rules_at("/v1beta/models/m:countTokens", wrapped.clone()), []);
    assert_eq!(Gemini.segments(&received(PATH, wrapped)).len(), 5);
    assert_eq!(Gemini.token_count(&Usage::default())["totalTokens"], 0);
}

#[test]
fn a_token_count_may_have_contents_only() {
    let alone = json!({"contents": conversation()["contents"]});
    assert_eq!(rules_at("/v1beta/models/m:countTokens", alone.clone()), []);
    assert_ne!(rules_at(PATH, alone), [], "a reply is asked for with its tools");
}
