//! What was said, as a person reads it: strings without their escapes, arguments opened, an answer put together from its
//! stream. Pure, and in time proportional to the text.
//!
//! It knows all wires' shapes at once and does not ask which it is, since it only reads. `reply.js` of the inspector's
//! page does the same for the eye.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use memchr::memmem;
use regex::bytes::Regex;
use serde_json::Value;

use super::reply::{Kind, Reply};
use crate::text::json;

/// Members that stand in every message and that nobody reads.
const UNREAD: [&str; 14] = [
    "type",
    "role",
    "id",
    "tool_use_id",
    "tool_call_id",
    "call_id",
    "signature",
    "thoughtSignature",
    "thought_signature",
    "encrypted_content",
    "cache_control",
    "status",
    "index",
    "annotations",
];

/// Members that hold what is read, and whose name is not.
const PROSE: [&str; 16] = [
    "text",
    "thinking",
    "content",
    "output",
    "response",
    "parts",
    "summary",
    "result",
    "input",
    "arguments",
    "args",
    "function",
    "functionCall",
    "functionResponse",
    "tool_calls",
    "reasoning_content",
];

/// JSON in strings in JSON is opened so deep.
const DEEPEST: usize = 4;

/// A message's text; `None` where it is not JSON.
pub(super) fn message(json: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let mut out = String::with_capacity(json.len());
    say(&value, 0, &mut out);
    Some(out)
}

fn say(value: &Value, opened: usize, out: &mut String) {
    match value {
        Value::String(text) => say_text(text, opened, out),
        Value::Array(all) => all.iter().for_each(|value| say(value, opened, out)),
        Value::Object(members) => {
            for (key, value) in members {
                if PROSE.contains(&key.as_str()) {
                    say(value, opened, out);
                } else if !UNREAD.contains(&key.as_str()) {
                    say_member(key, value, opened, out);
                }
            }
        }
        Value::Null => {}
        other => push_line(&other.to_string(), out),
    }
}

/// Arguments in a string are read as what they are.
fn say_text(text: &str, opened: usize, out: &mut String) {
    let is_json = opened < DEEPEST && text.trim_start().starts_with(['{', '[']);
    match is_json.then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(inner)) => say(&inner, opened + 1, out),
        _ => push_line(text, out),
    }
}

/// A member as the page shows it: `"path": "src/main.rs"`.
fn say_member(key: &str, value: &Value, opened: usize, out: &mut String) {
    match value {
        Value::String(text) => push_line(&format!("\"{key}\": \"{text}\""), out),
        Value::Array(_) | Value::Object(_) => {
            push_line(&format!("\"{key}\":"), out);
            say(value, opened, out);
        }
        other => push_line(&format!("\"{key}\": {other}"), out),
    }
}

fn push_line(text: &str, out: &mut String) {
    out.push_str(text);
    out.push('\n');
}

/// Members of streams that carry pieces of text.
const PIECES: [&str; 9] = [
    "\"text\":",
    "\"delta\":",
    "\"content\":",
    "\"thinking\":",
    "\"partial_json\":",
    "\"arguments\":",
    "\"reasoning\":",
    "\"reasoning_content\":",
    "\"name\":",
];

/// Whether an answer may hold a plain word, be it in pieces. It is a fast look: an answer that may is put together, and
/// looked through in earnest.
pub(super) fn may_hold(body: &[u8], word: &Regex) -> bool {
    if word.is_match(body) {
        return true;
    }
    let mut joined = Vec::new();
    PIECES.iter().any(|key| {
        joined.clear();
        for at in memmem::find_iter(body, key) {
            let start = json::blank(body, at + key.len());
            if body.get(start) == Some(&b'"')
                && let Ok(end) = json::string_end(body, start)
            {
                joined.extend_from_slice(&body[start + 1..end - 1]);
            }
        }
        word.is_match(&joined)
    })
}

/// An answer's text, put together from its events where it was a stream; `None` where nothing of it is understood.
pub(super) fn answer(body: &[u8]) -> Option<String> {
    let mut reply = Reply::default();
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(chunks)) => chunks.iter().for_each(|event| reply.take(event)),
        Ok(whole) => reply.take(&whole),
        Err(_) => events(body, &mut reply),
    }
    let mut out = String::new();
    for part in reply.parts {
        match part.kind {
            Kind::Call => {
                push_line(&part.name, &mut out);
                say_text(&part.text, 0, &mut out);
            }
            _ => push_line(&part.text, &mut out),
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Server-sent events, or a line for each.
fn events(body: &[u8], reply: &mut Reply) {
    for line in body.split(|b| *b == b'\n') {
        let line = line.strip_prefix(b"data:").unwrap_or(line).trim_ascii();
        if line.first() == Some(&b'{')
            && let Ok(event) = serde_json::from_slice(line)
        {
            reply.take(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn sse(events: &[Value]) -> Vec<u8> {
        let lines = events.iter().map(|event| format!("data: {event}\n\n"));
        lines.collect::<String>().into_bytes()
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
        let [brown, green] = ["(?i-u)BROWN", "(?i-u)green"].map(|word| Regex::new(word).unwrap());
        for body in all {
            assert!(may_hold(&body, &brown) && !may_hold(&body, &green));
            let text = answer(&body).unwrap();
            assert_eq!(text, "The quick brown fox.\nread\n\"path\": \"src/a.rs\"\n");
        }
        assert_eq!(answer(b"<html>502</html>"), None);
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
        let whole = json!({"object": "response", "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm, well."}]},
            {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}, custom]});
        for body in [stream, whole.to_string().into_bytes()] {
            assert_eq!(answer(&body).unwrap(), "Hm, well.\nNo.\napply_patch\n*** Begin\n");
        }
        // Code Assist has Gemini's answers one level down.
        let part =
            |text: &str| json!({"response": {"candidates": [{"content": {"parts": [{"text": text}]}}]}});
        assert_eq!(
            answer(&sse(&[part("The quick br"), part("own fox.")])).unwrap(),
            "The quick brown fox.\n"
        );
    }

    #[test]
    fn messages_are_read_without_their_escapes() {
        let chat = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "run", "arguments": "{\"command\":\"grep \\\"a b\\\" x\\nls\"}"}}]});
        let text = message(chat.to_string().as_bytes()).unwrap();
        assert_eq!(text, "\"name\": \"run\"\n\"command\": \"grep \"a b\" x\nls\"\n");
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "content": [{"type": "text", "text": "line \"one\"\n\ttwo"}]}]});
        assert_eq!(
            message(result.to_string().as_bytes()).unwrap(),
            "line \"one\"\n\ttwo\n"
        );
        assert_eq!(message(b"{\"model\":\"m\",\"messages\":["), None);
    }
}
