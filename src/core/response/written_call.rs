//! Detects a call of baton's tool that a model wrote as text.
//!
//! Small local models do that, and no server parses it as a call. The exchange records it, but the call is
//! never executed.

use memchr::memmem;

use crate::tools::TOOL_NAME;
use crate::transcript::{AnswerContent, AnswerPartKind};

/// A part of the tool's name that tokenizers do not split. The rest of the name may arrive in another frame.
const SYLLABLE: &[u8] = b"hand";

/// Members of a written call that name the tool.
const KEYS: [&str; 4] = ["\"name\"", "\"tool\"", "\"tool_name\"", "\"function\""];

/// Whether a response, streamed or complete, has no call but contains a call of the tool as JSON in its text.
pub fn writes_call(answer: &[u8]) -> bool {
    let name = memmem::Finder::new(TOOL_NAME);
    // Many responses contain the syllable and few the name, so most are never parsed.
    if memmem::find(answer, SYLLABLE).is_none()
        || !AnswerContent::may_hold(answer, |text| name.find(text).is_some())
    {
        return false;
    }
    let content = AnswerContent::from_body(answer);
    let calls = content.parts.iter().any(|part| part.kind == AnswerPartKind::Call);
    let mut texts = content
        .parts
        .iter()
        .filter(|part| part.kind == AnswerPartKind::Text);
    !calls && texts.any(|part| names_tool(&part.text()))
}

fn names_tool(text: &str) -> bool {
    let name = format!("\"{TOOL_NAME}\"");
    memmem::find_iter(text.as_bytes(), name.as_bytes()).any(|at| {
        let key = text[..at].trim_end().strip_suffix(':');
        key.is_some_and(|key| KEYS.iter().any(|word| key.trim_end().ends_with(word)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WRITTEN: &str =
        "```json\n{\"name\": \"session_handoff\", \"arguments\": {\"prompt\": \"Go on.\"}}\n```";

    fn sse(events: &[Value]) -> String {
        let frames = events.iter().map(|event| format!("data: {event}\n\n"));
        frames.collect()
    }

    /// Splits text like tokens, with the tool's name in several of them.
    fn pieces(text: &str) -> Vec<&str> {
        text.split_inclusive(['_', ' ']).collect()
    }

    #[test]
    fn a_call_in_the_text_of_any_wire_is_noticed() {
        let chat = |text: &str| json!({"choices": [{"delta": {"content": text}, "index": 0}]});
        let streamed: Vec<Value> = pieces(WRITTEN).into_iter().map(chat).collect();
        let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        let claude: Vec<Value> = pieces(WRITTEN).into_iter().map(delta).collect();
        let response = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text});
        let responses: Vec<Value> = pieces(WRITTEN).into_iter().map(response).collect();
        let line = |text: &str| {
            json!({"message": {"role": "assistant", "content": text}, "done": false}).to_string()
        };
        let ollama: Vec<String> = pieces(WRITTEN).into_iter().map(line).collect();
        let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": WRITTEN}]}}]});
        for answer in [
            sse(&streamed),
            sse(&claude),
            sse(&responses),
            ollama.join("\n"),
            sse(&[gemini]),
            json!({"choices": [{"message": {"role": "assistant", "content": WRITTEN}}]}).to_string(),
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": WRITTEN}]})
                .to_string(),
        ] {
            assert!(writes_call(answer.as_bytes()), "{answer}");
        }
    }

    #[test]
    fn what_only_speaks_of_the_tool_is_no_call() {
        let said = |content: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": content}]});
        for text in [
            "I will call session_handoff.",
            "The tool \"session_handoff\" exists.",
            "On the other hand: no.",
        ] {
            assert!(!writes_call(said(text).to_string().as_bytes()), "{text}");
        }
        let mut called = said(WRITTEN);
        let call = json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}});
        called["content"].as_array_mut().unwrap().push(call);
        assert!(!writes_call(called.to_string().as_bytes()));
    }
}
