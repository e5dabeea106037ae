//! Compares the provider with the golden files.
//!
//! Its streams have the same keys in the same order as the recorded ones, and the recorded requests pass its
//! rules.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::complaint::Findings;
use super::dialect::Received;
use super::usage::Usage;
use super::wires::dialect;
use super::*;

macro_rules! golden {
    ($path:literal) => {
        include_str!(concat!("../../tests/golden/", $path))
    };
}

const GEMINI: &str = "/v1beta/models/gemini-4-argon:streamGenerateContent?alt=sse";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// JSON of each event in a stream, whatever the framing.
fn events(stream: &str) -> Vec<Value> {
    let lines = stream
        .lines()
        .map(|line| line.strip_prefix("data: ").unwrap_or(line));
    lines.filter(|line| line.starts_with('{')).map(json).collect()
}

/// Reduces a value to its keys, in order, and the words that belong to the format.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| match key.as_str() {
                "type" | "status" | "role" | "phase" | "object" | "finishReason" | "done_reason" | "done" => {
                    format!("{key}={value}").into()
                }
                "args" | "arguments" | "parameters" => Value::from(key.as_str()),
                _ => json!([key, shape(value)]),
            });
            fields.collect()
        }
        Value::Array(list) => list.iter().map(shape).collect(),
        _ => Value::Null,
    }
}

/// Shapes of a stream's events. Consecutive equal shapes count as one, because the number of deltas may
/// differ.
fn shapes(stream: &str) -> Vec<Value> {
    let mut shapes: Vec<Value> = events(stream).iter().map(shape).collect();
    shapes.dedup();
    shapes
}

fn received(wire: Wire, path: &str, request: &str) -> Received {
    let mut body = json(request);
    if wire == Wire::Ollama {
        body = json!({"model": "qwen3-coder", "messages": [{"role": "user", "content": "Go on."}]});
    }
    Received::for_test(wire, path, body)
}

fn streamed(received: &Received, reply: &Reply) -> String {
    let rendered = received.dialect.render(received, reply, &Usage::default());
    String::from_utf8(rendered.events.concat()).unwrap()
}

fn handing_over() -> Reply {
    Reply::new()
        .thinking("The context is full of file dumps.")
        .say("The survey is done. The bug is in open(). ")
        .call(
            "session_handoff",
            json!({"prompt": "Goal: …", "reason": "survey finished"}),
        )
        .deltas(40)
}

#[test]
fn streams_have_the_keys_of_the_golden_files_in_order() {
    let responses = golden!("openai_responses/01_request_upstream.json");
    let gemini = golden!("gemini/01_request_upstream.json");
    let cases = [
        (
            received(Wire::OpenAiResponses, "/v1/responses", responses),
            golden!("openai_responses/03_leg1.sse"),
        ),
        (
            received(Wire::Gemini, GEMINI, gemini),
            golden!("gemini/03_leg1.sse"),
        ),
        (
            received(Wire::Ollama, "/api/chat", "{}"),
            golden!("ollama/03_leg1.ndjson"),
        ),
    ];
    for (received, golden) in cases {
        let stream = streamed(&received, &handing_over());
        assert_eq!(shapes(&stream), shapes(golden), "{}", received.wire);
    }
}

#[test]
fn mixed_batches_have_the_keys_of_the_golden_files_in_order() {
    let reply = Reply::new()
        .thinking("Two things at once.")
        .call("session_handoff", json!({"prompt": "Goal: …"}))
        .call("read_file", json!({"path": "src/import/reader.rs"}));
    let responses = golden!("openai_responses/01_request_upstream.json");
    let stream = streamed(
        &received(Wire::OpenAiResponses, "/v1/responses", responses),
        &reply,
    );
    assert_eq!(
        shapes(&stream),
        shapes(golden!("openai_responses/20_mixed_upstream.sse"))
    );
    let mut gemini = received(Wire::Gemini, GEMINI, golden!("gemini/01_request_upstream.json"));
    gemini.body["generationConfig"] = json!({});
    let stream = streamed(&gemini, &reply);
    assert_eq!(shapes(&stream), shapes(golden!("gemini/20_mixed_upstream.sse")));
}

#[test]
fn whole_replies_have_the_keys_of_the_golden_files_in_order() {
    let mut responses = received(
        Wire::OpenAiResponses,
        "/v1/responses",
        golden!("openai_responses/01_request_upstream.json"),
    );
    responses.body["stream"] = json!(false);
    let gemini = received(
        Wire::Gemini,
        "/v1beta/models/gemini-4-argon:generateContent",
        golden!("gemini/01_request_upstream.json"),
    );
    for (received, golden) in [
        (responses, golden!("openai_responses/02_response_handoff.json")),
        (gemini, golden!("gemini/02_response_handoff.json")),
    ] {
        let whole = json(&streamed(&received, &handing_over()));
        assert_eq!(shape(&whole), shape(&json(golden)), "{}", received.wire);
    }
}

#[test]
fn errors_have_the_shape_of_the_golden_files() {
    for (wire, golden) in [
        (Wire::OpenAiResponses, golden!("openai_responses/30_error.json")),
        (Wire::Gemini, golden!("gemini/30_error.json")),
    ] {
        let error = dialect(wire).error(503, "handoff proxy: second leg failed");
        assert_eq!(shape(&error), shape(&json(golden)), "{wire}");
    }
}

/// Rules that a request violates, except that its thinking comes from elsewhere.
fn violations(wire: Wire, path: &str, request: &str) -> BTreeSet<String> {
    let mut findings = Findings::new(&[Rule::ForeignThinking]);
    let received = received(wire, path, request);
    dialect(wire).check(&received, &mut findings);
    findings
        .list
        .iter()
        .map(|(rule, _)| format!("{rule:?}"))
        .collect()
}

#[test]
fn golden_requests_pass() {
    for request in [
        golden!("openai_responses/01_request_upstream.json"),
        golden!("openai_responses/04_leg2_request.json"),
        golden!("openai_responses/07_next_request_agent.json"),
        golden!("openai_responses/08_next_request_upstream.json"),
        golden!("openai_responses/23_mixed_next_upstream.json"),
    ] {
        assert_eq!(
            violations(Wire::OpenAiResponses, "/v1/responses", request),
            BTreeSet::new()
        );
    }
    for request in [
        golden!("gemini/01_request_upstream.json"),
        golden!("gemini/04_leg2_request.json"),
        golden!("gemini/07_next_request_agent.json"),
        golden!("gemini/08_next_request_upstream.json"),
        golden!("gemini/23_mixed_next_upstream.json"),
    ] {
        assert_eq!(violations(Wire::Gemini, GEMINI, request), BTreeSet::new());
    }
    // The agent's request after a mixed batch lacks the hidden call, which carried the signature.
    let unsigned = violations(Wire::Gemini, GEMINI, golden!("gemini/22_mixed_next_agent.json"));
    assert_eq!(unsigned, BTreeSet::from(["Signature".to_owned()]));
}
