//! Requests that a version of the API refuses.

use http::HeaderValue;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{push, received, request};
use crate::complaint::Rule;

fn rules(version: &'static str, body: Value) -> Vec<Rule> {
    let mut received = received(body);
    let version = HeaderValue::from_static(version);
    received.headers.insert("anthropic-version", version);
    received.broken_rules()
}

fn cited(source: &str) -> Value {
    let citation = json!({"type": "char_location", "cited_text": source, "document_index": 0});
    json!({"type": "text", "text": source, "citations": [citation]})
}

/// Requests that the first version accepts and the second one refuses.
fn refused_by_the_second() -> Vec<Value> {
    let ask = || request(json!([{"role": "user", "content": "Fix it."}]));
    let with = |member: &str, value: Value| {
        let mut body = ask();
        body[member] = value;
        body
    };
    let says = |block: Value| {
        let mut body = ask();
        push(&mut body, "assistant", json!([block]));
        push(&mut body, "user", json!("Go on."));
        body
    };
    let asks = |block: Value| request(json!([{"role": "user", "content": [block]}]));
    let source = json!({"type": "text", "media_type": "text/plain", "data": "x"});
    let found = json!({"type": "search_result", "source": "s", "title": "t", "content": [cited("x")]});
    vec![
        with("temperature", json!(1.0)),
        with("top_p", json!(0.9)),
        with("top_k", json!(40)),
        says(json!({"type": "document", "source": source})),
        asks(cited("x")),
        asks(found),
    ]
}

#[test]
fn the_second_version_refuses_what_the_first_accepts() {
    for body in refused_by_the_second() {
        assert_eq!(rules("2023-06-01", body.clone()), [], "{body}");
        assert_eq!(rules("2026-10-21", body.clone()), [Rule::Version], "{body}");
    }
    let body = request(json!([{"role": "user", "content": "Fix it."}]));
    assert_eq!(rules("2026-10-22", body), [Rule::Version]);
}

#[test]
fn the_second_version_accepts_the_models_own_citations_and_switches_for_them() {
    let mut document =
        json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}});
    document["citations"] = json!({"enabled": true});
    let mut body = request(
        json!([{"role": "user", "content": [document, {"type": "text", "text": "Fix it.", "citations": []}]}]),
    );
    push(&mut body, "assistant", json!([cited("x")]));
    push(&mut body, "user", json!("Go on."));
    assert_eq!(rules("2026-10-21", body), []);
}

#[test]
fn newer_models_refuse_a_choice_that_forces_a_call() {
    for (model, kind, broken) in [
        ("claude-fable-5-1", "any", true),
        ("claude-mythos-5-2", "tool", true),
        ("claude-mythos-5-2", "none", false),
        ("claude-opus-5-5", "any", false),
    ] {
        let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
        body["model"] = json!(model);
        body["tool_choice"] = json!({"type": kind, "name": "read_file"});
        let expected: &[Rule] = if broken { &[Rule::ForcedChoice] } else { &[] };
        assert_eq!(rules("2023-06-01", body), expected, "{model} {kind}");
    }
}
