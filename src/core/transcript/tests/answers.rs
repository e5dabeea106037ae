//! Responses: streams of all wires, and whole bodies.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn sse(events: &[Value]) -> Vec<u8> {
    let lines = events.iter().map(|event| format!("data: {event}\n\n"));
    lines.collect::<String>().into_bytes()
}

/// Lists the name of each call, and each text, on a line.
fn read(body: &[u8]) -> String {
    let mut lines = String::new();
    for part in AnswerContent::from_body(body).parts {
        lines.extend(part.name.map(|name| name.get().into_owned() + "\n"));
        lines += &(part.text() + "\n");
    }
    lines
}

#[test]
fn streams_of_all_wires_are_put_together() {
    let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let anthropic = sse(&[
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        delta("The quick br"),
        delta("own fox."),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "read", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"path\":\"sr"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "c/a.rs\"}"}}),
    ]);
    let chat = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let chat = sse(&[
        chat(json!({"content": "The quick br"})),
        chat(json!({"content": "own fox."})),
        chat(
            json!({"tool_calls": [{"index": 0, "function": {"name": "read", "arguments": "{\"path\":\"sr"}}]}),
        ),
        chat(json!({"tool_calls": [{"index": 0, "function": {"arguments": "c/a.rs\"}"}}]})),
    ]);
    let responses = sse(&[
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "The quick br"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "own fox."}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "name": "read"}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"path\":\"src/a.rs\"}"}),
    ]);
    let part = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]});
    let parts = [
        part(json!({"text": "The quick br"})),
        part(json!({"text": "own fox."})),
        part(json!({"functionCall": {"name": "read", "args": {"path": "src/a.rs"}}})),
    ];
    let array = serde_json::to_vec(&parts).unwrap();
    let line = |message: Value, done: bool| format!("{}\n", json!({"message": message, "done": done}));
    let ollama = [
        line(json!({"content": "The quick br"}), false),
        line(json!({"content": "own fox."}), false),
        line(
            json!({"content": "", "tool_calls": [{"function": {"name": "read", "arguments": {"path": "src/a.rs"}}}]}),
            true,
        ),
    ];
    let all = [
        anthropic,
        chat,
        responses,
        sse(&parts),
        array,
        ollama.concat().into_bytes(),
    ];
    let holds = |word: &str, body: &[u8]| {
        AnswerContent::may_hold(body, |text| String::from_utf8_lossy(text).contains(word))
    };
    for body in all {
        assert!(holds("brown", &body) && !holds("green", &body));
        assert_eq!(
            read(&body),
            "The quick brown fox.\nread\n{\"path\":\"src/a.rs\"}\n"
        );
    }
    assert_eq!(read(b"<html>502</html>"), "");
}

#[test]
fn reasoning_refusals_and_custom_calls_are_read() {
    let custom = json!({"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin"});
    let stream = sse(&[
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "delta": "Hm, "}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "delta": "well."}),
        json!({"type": "response.refusal.delta", "output_index": 1, "delta": "No."}),
        json!({"type": "response.output_item.added", "output_index": 2,
            "item": {"type": "custom_tool_call", "name": "apply_patch", "input": ""}}),
        json!({"type": "response.custom_tool_call_input.delta", "output_index": 2, "delta": "*** "}),
        json!({"type": "response.custom_tool_call_input.delta", "output_index": 2, "delta": "Begin"}),
    ]);
    let whole = json!({"object": "response", "error": null, "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm, well."}]},
        {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}, custom]});
    for body in [stream, whole.to_string().into_bytes()] {
        assert_eq!(read(&body), "Hm, well.\nNo.\napply_patch\n*** Begin\n");
    }
    // Code Assist nests Gemini's responses one level deeper.
    let part = |text: &str| json!({"response": {"candidates": [{"content": {"parts": [{"text": text}]}}]}});
    let body = sse(&[part("The quick br"), part("own fox.")]);
    assert_eq!(read(&body), "The quick brown fox.\n");
}

#[test]
fn the_golden_replies_say_what_their_streams_say() {
    let read = |wire: &str, file: &str| {
        let path = format!(
            "{}/tests/golden/{wire}/{file}",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
        );
        let body = std::fs::read(path).unwrap();
        let answered = AnswerContent::from_body(&body);
        answered
            .parts
            .iter()
            .map(|part| {
                (
                    part.kind,
                    part.name.map(|name| name.get().into_owned()),
                    part.text(),
                )
            })
            .collect::<Vec<_>>()
    };
    for (wire, stream) in [
        ("anthropic", "05_merged.sse"),
        ("openai_chat", "05_merged.sse"),
        ("openai_responses", "05_merged.sse"),
        ("gemini", "05_merged.sse"),
        ("ollama", "05_merged.ndjson"),
    ] {
        let (streamed, whole) = (read(wire, stream), read(wire, "06_merged.json"));
        let call = |all: &[(AnswerPartKind, Option<String>, String)]| {
            let call = all
                .iter()
                .find(|(found, ..)| *found == AnswerPartKind::Call)
                .unwrap();
            let arguments: Value = serde_json::from_str(&call.2).unwrap();
            (call.1.clone(), arguments)
        };
        assert_eq!(call(&streamed), call(&whole), "{wire}");
        let text = |all: &[(AnswerPartKind, Option<String>, String)], kind: AnswerPartKind| -> String {
            let found = all.iter().filter(|(found, ..)| *found == kind);
            found.map(|(.., text)| text.as_str()).collect()
        };
        assert_eq!(
            text(&streamed, AnswerPartKind::Text),
            text(&whole, AnswerPartKind::Text),
            "{wire}"
        );
        assert!(
            text(&whole, AnswerPartKind::Text).contains("[[handoff-resume:"),
            "{wire}"
        );
    }
}
